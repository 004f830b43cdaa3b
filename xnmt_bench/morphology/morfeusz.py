"""Polish: genders of nouns by Morfeusz, of pronouns by form."""

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

RULES = 1  # raise it when a rule gives other genders
PACKAGE = "morfeusz2"
NOUN, SINGULAR, NOMINATIVE, SURNAME = "subst", "sg", "nom", "nazwisko"
PERSON, LITTLE = "m1", "ek"
MASCULINE = ("m1", "m2", "m3")  # persons, animals, things
GENDERS: Mapping[str, Gender] = {**dict.fromkeys(MASCULINE, "m"), "f": "f", "n": "n"}


class Morfeusz(Morphology):
    """By the dictionary SGJP, as Morfeusz has it (both BSD).

    The first of the linked nouns counts: a man where it can be one (`mechanika`) who is not
    little (`pisarka` is of `pisarek` too), else by its nominative, else by its first reading in the
    singular. Surnames are none. `nim` is a plural too, and `swój` agrees with what is possessed:
    they are ambiguous.
    """

    language: ClassVar[str] = "pl"
    pronouns: ClassVar[Mapping[str, Gender]] = by_form(
        "on jego niego jemu niemu mu go", "ona jej niej ją nią", "ono to"
    )

    def __init__(self) -> None:
        self.version = f"{versions('Polish', 'morphology', PACKAGE)}, rules {RULES}"

    def gender(self, words: Sequence[str], chosen: Sequence[int]) -> GenderEvidence | None:
        """Return the genders of some words of a sentence; see `Morphology.gender`."""
        tokens = [stripped(words[place]) for place in chosen]
        nouns = ((_noun(token), token) for token in tokens if token.lower() not in self.pronouns)
        first = next((GenderEvidence(gender, token) for gender, token in nouns if gender), None)
        return first or self.pronoun_gender(words, chosen)


@cache
def _analyser() -> Any:
    import morfeusz2

    return morfeusz2.Morfeusz(generate=False)


def _noun(token: str) -> Gender | None:
    """Return a word's gender as a noun in the singular."""
    readings: list[tuple[bool, Gender]] = []
    for _, _, (_, lemma, tag, kinds, *_) in _analyser().analyse(token):
        parts = [part.split(".") for part in tag.split(":")]
        if parts[0] == [NOUN] and SINGULAR in parts[1] and SURNAME not in kinds:
            if PERSON in parts[3] and not lemma.partition(":")[0].endswith(LITTLE):
                return "m"
            readings += [(NOMINATIVE not in parts[2], GENDERS[g]) for g in parts[3] if g in GENDERS]
    # False sorts first: a nominative wins, and of several the first.
    return min(readings, key=lambda reading: reading[0])[1] if readings else None
