"""Words of the closed classes, which carry structure and no content of their own."""

from __future__ import annotations

from xnmt_bench.corpora.languages import language_code

EOS_MARK = "</s>"  # the name of EOS where it stands among words
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
    # With their inflected forms, since texts are not lemmatised.
    "ru": """
    я ты он она оно мы вы они меня мне мной тебя тебе тобой его ему им нём него нему ним её ей
    ею ней неё нас нам нами вас вам вами их ими них ними себя себе собой мой моя моё мои моего
    моей моему моим моих мою твой твоя твоё твои твоего твоей твоему твоим твоих твою наш наша
    наше наши нашего нашей нашему нашим наших нашу ваш ваша ваше ваши вашего вашей вашему вашим
    ваших вашу свой своя своё свои своего своей своему своим своих свою этот эта это эти этого
    этой этому этим этих эту этом тот та то те того той тому тем тех ту том кто кого кому кем
    ком что чего чему чем чём который которая которое которые которого которой которому которым
    которых которую какой какая какое какие такой такая такое такие весь вся всё все всего всей
    всем всех сам сама само сами каждый любой другой и а но или либо если когда как чтобы потому
    поэтому хотя пока будто чем в во на с со к ко по из изо у о об обо от ото до за для при про
    без безо под подо над перед передо через между среди около после кроме ради быть есть был
    была было были буду будешь будет будем будете будут будь бы ли же не ни ведь вот даже уже
    ещё только лишь тоже также так там тут здесь туда сюда где куда откуда тогда потом теперь
    очень да нет ну
    """,
    # Single characters, as which metrics count words of Chinese; simplified, then traditional.
    "zh": """
    的 了 着 过 地 得 吗 呢 吧 啊 嘛 我 你 您 他 她 它 们 咱 这 那 此 其 哪 谁 什 么 怎 自 己 是
    有 在 和 与 及 或 而 且 但 则 因 为 所 以 如 若 虽 不 没 无 未 非 也 都 就 才 又 还 再 很 太
    更 最 只 被 把 将 让 给 向 从 到 对 于 之 者 个 些 会 能 可 要 应 该 已 曾 并 即 等 每 各 某
    另 由 跟 比 過 嗎 們 這 誰 麼 與 則 為 爲 雖 沒 無 還 將 讓 給 從 對 於 個 會 應 該 並
    """,
}


def function_words(language: str) -> frozenset[str]:
    """Return the lower-cased function words of a language; none for a language without a list."""
    # An unknown language has no list, and all of its words count as content.
    return frozenset(_WORDS.get(language_code(language), "").split())


def is_function(word: str, function_words: frozenset[str]) -> bool:
    """Return whether a word is a function word, punctuation or EOS (Dinarelli et al. 2024, 4).

    Args:
        word: as it stands in the text, or `EOS_MARK`.
        function_words: of its language.
    """
    return word.lower() in function_words or word == EOS_MARK or not any(map(str.isalnum, word))
