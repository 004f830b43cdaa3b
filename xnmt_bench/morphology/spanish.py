"""Spanish: what articles and pronouns say by their form, and nouns by their ending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xnmt_bench.morphology.base import Gender, GenderEvidence, Morphology, by_form, stripped

RULES = 3  # raise it when a rule gives other genders
DETERMINERS = by_form(
    "el un al del este ese aquel nuestro otro algún ningún todo mismo",
    "la una esta esa aquella nuestra otra alguna ninguna toda misma",
)
STRESSED = ("ama", "agua", "alma", "águila", "área")  # feminine behind `el`
REACH = 2  # words between a determiner and its noun, at most, with the noun itself
# The longest that fits decides; those of no gender have both (`la atleta`, `el atleta`).
ENDINGS: dict[str, Gender | None] = {
    **dict.fromkeys(("ista", "eta", "euta", "ta", "ante", "ente")),
    **by_form("or ero ón o", "ora era iza triz esa a"),
}


class Spanish(Morphology):
    """By rules of its own, without a dictionary.

    Articles come first: they agree with their noun. Possessives (`su`), clitics, and nouns
    of both genders without an article are ambiguous.
    """

    language: ClassVar[str] = "es"
    version = f"rules {RULES}"
    # Clitics and articles are ambiguous.
    pronouns: ClassVar[Mapping[str, Gender]] = by_form("él", "ella", "ello esto eso")

    def gender(self, words: Sequence[str], chosen: Sequence[int]) -> GenderEvidence | None:
        """Return the genders of some words of a sentence; see `Morphology.gender`."""
        forms = [stripped(word).lower() for word in words]
        nouns = [place for place in chosen if forms[place] not in (*DETERMINERS, *self.pronouns)]
        if not nouns and (pronoun := self.pronoun_gender(words, chosen)):
            return pronoun
        if stressed := [forms[place] for place in nouns if forms[place] in STRESSED]:
            return GenderEvidence("f", stressed[0])
        for place in nouns:
            # The nearest word first.
            for form in reversed(forms[max(0, place - REACH) : place]):
                if form in DETERMINERS:
                    return GenderEvidence(DETERMINERS[form], f"{form} {forms[place]}")
        for form in (forms[place] for place in chosen):
            if form in DETERMINERS:
                return GenderEvidence(DETERMINERS[form], form)
        endings = ((_ending(forms[place]), forms[place]) for place in nouns)
        return next((GenderEvidence(gender, form) for gender, form in endings if gender), None)


def _ending(form: str) -> Gender | None:
    # The longest ending first.
    ends = (form[start:] for start in range(max(0, len(form) - 4), len(form)))
    return next((ENDINGS[end] for end in ends if end in ENDINGS), None)
