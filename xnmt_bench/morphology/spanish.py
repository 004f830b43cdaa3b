"""Spanish: what articles and pronouns say by their form, and nouns by their ending."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xnmt_bench.morphology.base import Gender, GenderEvidence, Morphology, listed, stripped

RULES = 3  # raise it when a rule gives other genders
DETERMINERS: dict[Gender, str] = {
    "m": "el un al del este ese aquel nuestro otro algún ningún todo mismo",
    "f": "la una esta esa aquella nuestra otra alguna ninguna toda misma",
}
PRONOUNS: dict[str, Gender] = {"él": "m", "ella": "f", "ello": "n", "esto": "n", "eso": "n"}
STRESSED = ("ama", "agua", "alma", "águila", "área")  # feminine behind `el`
REACH = 2  # words between a determiner and its noun, at most, with the noun itself
# The longest that fits decides; those of no gender stand for both (`la atleta`, `el atleta`).
ENDINGS: dict[str, Gender | None] = {
    "ista": None,
    "eta": None,
    "euta": None,
    "ta": None,
    "ante": None,
    "ente": None,
    "ora": "f",
    "era": "f",
    "iza": "f",
    "triz": "f",
    "esa": "f",
    "a": "f",
    "or": "m",
    "ero": "m",
    "ón": "m",
    "o": "m",
}
FORMS = {form: gender for gender, forms in DETERMINERS.items() for form in forms.split()}


class Spanish(Morphology):
    """By rules of its own, without a dictionary.

    Articles come first: they agree with their noun. Possessives (`su`), clitics, and nouns
    of both genders without an article are ambiguous.
    """

    language: ClassVar[str] = "es"
    version = f"rules {RULES}"

    def gender(self, words: Sequence[str], chosen: Sequence[int]) -> GenderEvidence | None:
        """Return the genders of some words of a sentence; see `Morphology.gender`."""
        forms = [stripped(word).lower() for word in words]
        nouns = [place for place in chosen if forms[place] not in (*FORMS, *PRONOUNS)]
        if not nouns and (pronoun := self.pronoun_gender(words, chosen)):
            return pronoun
        if stressed := [forms[place] for place in nouns if forms[place] in STRESSED]:
            return GenderEvidence("f", stressed[0])
        for place in nouns:
            # The nearest word first.
            before = (forms[n] for n in range(place - 1, max(-1, place - REACH - 1), -1))
            candidates = (
                GenderEvidence(FORMS[f], f"{f} {forms[place]}") for f in before if f in FORMS
            )
            if evidence := next(candidates, None):
                return evidence
        own_forms = [forms[place] for place in chosen if forms[place] in FORMS]
        if own_forms:
            return GenderEvidence(FORMS[own_forms[0]], own_forms[0])
        endings = ((_ending(forms[place]), forms[place]) for place in nouns)
        return next((GenderEvidence(gender, form) for gender, form in endings if gender), None)

    def pronoun_gender(
        self, words: Sequence[str], chosen: Sequence[int], personal: bool = True
    ) -> GenderEvidence | None:
        """Return the gender of `él` and `ella`; clitics and articles are ambiguous."""
        return listed(words, chosen, PRONOUNS)


def _ending(form: str) -> Gender | None:
    # The longest ending first.
    ends = (form[start:] for start in range(max(0, len(form) - 4), len(form)))
    return next((ENDINGS[end] for end in ends if end in ENDINGS), None)
