"""Words of the closed classes, which carry structure and no content of their own."""

from __future__ import annotations

_WORDS = {
    "en": """
    a an the this that these those my your his her its our their mine yours hers ours theirs
    i you he she it we they me him us them myself yourself himself herself itself ourselves
    yourselves themselves who whom whose which what one ones some any each every both all
    and or but nor so if because as than when while where that whether though although since
    of in on at by for with from to into over under about after before between through during
    against without within upon up down out off
    is are was were be been being am do does did have has had will would can could may might
    shall should must not no there here then also too very just only 's n't 're 've 'll 'm 'd
    """,
    "de": """
    der die das den dem des ein eine einen einem einer eines kein keine keinen keinem keiner
    dieser diese dieses diesen diesem jener jene jenes jenen jenem mein meine dein deine sein seine
    seinen seinem seiner seines ihr ihre ihren ihrem ihrer ihres unser unsere euer eure
    ich du er sie es wir mich dich ihn uns euch mir dir ihm ihnen sich man wer wen wem was
    welcher welche welches selbst alle alles beide jeder jede jedes etwas
    und oder aber sondern denn wenn weil als wie dass daß ob obwohl während damit bevor nachdem
    in im an am auf aus bei beim mit nach von vom zu zum zur für über unter um durch gegen ohne
    zwischen vor hinter bis seit wegen
    ist sind war waren sein bin bist wird werden wurde wurden worden hat haben hatte hatten habe
    kann können konnte soll sollen muss müssen will wollen darf mag nicht auch nur noch schon sehr
    so da hier dort dann doch
    """,
}


def function_words(language: str) -> frozenset[str]:
    """The lower-cased function words of a language; none for a language without a list."""
    return frozenset(_WORDS.get(language, "").split())
