"""The rules that were released with WinoMT (Stanovsky et al. 2019), for comparison."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from xnmt_bench.morphology.base import Gender, GenderEvidence, Morphology, by_form
from xnmt_bench.morphology.pymorphy import GENDERS, analyser, analyser_version

VERSION = "mt_gender 2019"
TOKEN = re.compile(r"\w+(?:-\w+)*|[^\w\s]")
# What the German rule looks for, anywhere in the sentence.
GERMAN = by_form(
    "der ein dem einen des er seiner ihn seinen ihm ihren seinem ihrem sein",
    "die eine einer sie seine ihrer",
    "ihr ihre das jemanden",
)
FEMALE = "nurse"
MASCULINE = GenderEvidence("m", "")  # no word shows it


class MtGenderGerman(Morphology):
    """A linked token that ends in `in` is feminine; else the nearest article or pronoun decides.

    That may be any in the sentence, the pronoun among them, so this partly measures the pronoun.
    Nothing linked, or nothing near, is masculine.
    """

    language: ClassVar[str] = "de"
    first_word: ClassVar[bool] = True
    usual: ClassVar[bool] = False
    version = VERSION

    def entity_gender(
        self, entity: str, words: Sequence[str], chosen: Sequence[int], personal: bool = True
    ) -> GenderEvidence | None:
        """Return the gender; a nurse is feminine in any translation."""
        return GenderEvidence("f", entity) if entity == FEMALE else self.gender(words, chosen)

    def gender(self, words: Sequence[str], chosen: Sequence[int]) -> GenderEvidence | None:
        """Return the genders of some words of a sentence; see `Morphology.gender`."""
        if not chosen:
            return MASCULINE
        linked = [token for n in chosen for token in TOKEN.findall(words[n])]
        if female := [token for token in linked if token.endswith("in")]:
            return GenderEvidence("f", female[0])
        tokens = TOKEN.findall(" ".join(words))
        # Places of tokens and a place among words, as the released rule compares them.
        near = [
            (abs(place - min(chosen)), place, GenderEvidence(GERMAN[token.lower()], token))
            for place, token in enumerate(tokens)
            if token.lower() in GERMAN
        ]
        return min(near)[-1] if near else MASCULINE


class MtGenderRussian(Morphology):
    """Each linked token is feminine if any of its parses is, else of its commonest gender."""

    language: ClassVar[str] = "ru"
    first_word: ClassVar[bool] = True
    usual: ClassVar[bool] = False

    def __init__(self) -> None:
        self.version = f"{VERSION}, {analyser_version()}"

    def gender(self, words: Sequence[str], chosen: Sequence[int]) -> GenderEvidence | None:
        """Return the genders of some words of a sentence; see `Morphology.gender`."""
        tokens = [token for n in chosen for token in TOKEN.findall(words[n])]
        if not tokens:
            return None
        parses = {token: _parsed(token) for token in tokens}
        gender = Counter(parses[token] for token in tokens).most_common(1)[0][0]
        return GenderEvidence(
            gender, " ".join(token for token in parses if parses[token] == gender)
        )


def _parsed(token: str) -> Gender:
    genders = [parse.tag.gender for parse in analyser().parse(token)]
    if "femn" in genders:
        return "f"
    known_genders = [gender for gender in genders if gender in GENDERS]
    return GENDERS[Counter(known_genders).most_common(1)[0][0]] if known_genders else "n"
