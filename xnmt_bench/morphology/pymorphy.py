"""Russian and Ukrainian: genders of nouns by pymorphy3's dictionaries, of pronouns by lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

from xnmt_bench.morphology.base import (
    Gender,
    GenderEvidence,
    Morphology,
    by_form,
    stripped,
    versions,
)

RULES = 3  # raise it when a rule gives other genders
PACKAGE = "pymorphy3"
GENDERS: dict[str, Gender] = {"masc": "m", "femn": "f", "neut": "n"}
NAMES = {"ru": "Russian", "uk": "Ukrainian"}


@cache
def analyser(language: str = "ru") -> Any:
    """Return the analyser of pymorphy3 for a language; an XnmtError where it is not installed."""
    analyser_version(language)
    # Behind the check of versions, whose error names the extra to install.
    import pymorphy3

    return pymorphy3.MorphAnalyzer(lang=language)


def analyser_version(language: str = "ru") -> str:
    """Return the versions of analyser and dictionary; an XnmtError if one is missing."""
    return versions(NAMES[language], "morphology", PACKAGE, f"{PACKAGE}-dicts-{language}")


class Pymorphy(Morphology):
    """By the dictionary OpenCorpora, as pymorphy3 has it (MIT; the dictionary CC BY-SA 3.0).

    Of the linked words the first animate noun counts, else the first noun, by its likeliest parse
    in the singular, else any word that shows a gender. Its neighbours are not asked. Pronouns
    are looked up in a list, possessives by their possessor: `им` and `ним` are plural too, and
    `свой` agrees with what is possessed.
    """

    language: ClassVar[str] = "ru"
    pronouns: ClassVar[Mapping[str, Gender]] = by_form(
        "он его него ему нему нём нем", "она её ее неё нее ей ней ею нею", "оно это"
    )

    def __init__(self) -> None:
        self.version = f"{analyser_version(self.language)}, rules {RULES}"

    def gender(self, words: Sequence[str], chosen: Sequence[int]) -> GenderEvidence | None:
        """Return the genders of some words of a sentence; see `Morphology.gender`."""
        tokens = [stripped(words[place]).lower() for place in chosen]
        tokens = [token for token in tokens if token and token not in self.pronouns]
        parse = analyser(self.language).parse
        # Every reading, since the likeliest of a word may be a verb or a plural.
        tags = [(reading.tag, token) for token in tokens for reading in parse(token)]
        gendered = [pair for pair in tags if pair[0].gender in GENDERS and pair[0].number != "plur"]
        # Who is meant is a person: `механику` is not mechanics.
        people = [pair for pair in gendered if "NOUN" in pair[0] and pair[0].animacy == "anim"]
        nouns = [pair for pair in gendered if "NOUN" in pair[0]]
        for tag, token in (people or nouns)[:1]:
            return GenderEvidence(GENDERS[tag.gender], token)
        if evidence := self.pronoun_gender(words, chosen):
            return evidence
        return next((GenderEvidence(GENDERS[tag.gender], token) for tag, token in gendered), None)


class PymorphyUkrainian(Pymorphy):
    """By pymorphy3's Ukrainian dictionary (its package says GPLv3); else as Russian."""

    language: ClassVar[str] = "uk"
    pronouns: ClassVar[Mapping[str, Gender]] = by_form(
        "він його нього йому ньому ним нім", "вона її неї їй ній нею", "воно це"
    )
