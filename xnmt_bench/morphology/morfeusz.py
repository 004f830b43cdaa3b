"""Polish: what Morfeusz says of nouns, and what pronouns say by their form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

from xnmt_bench.errors import XnmtError
from xnmt_bench.morphology.base import Gender, Morphology, Told, stripped
from xnmt_bench.morphology.pymorphy import forms

RULES = 1  # raise it when a rule gives other genders
PACKAGE = "morfeusz2"
NOUN, SINGULAR = "subst", "sg"
MASCULINE = ("m1", "m2", "m3")  # persons, animals, things
GENDERS: Mapping[str, Gender] = {**dict.fromkeys(MASCULINE, "m"), "f": "f", "n": "n"}
PRONOUNS = forms("on jego niego jemu niemu mu go", "ona jej niej ją nią", "ono to")
ALSO_NEUTER = ("jego", "niego", "jemu", "niemu", "mu", "go")
Reading = tuple[Gender, bool]  # and whether it is a person's


class Morfeusz(Morphology):
    """By the dictionary SGJP, as Morfeusz has it (both BSD).

    Of the linked nouns a person's counts first (`kierowca`), by its first reading in the singular.
    `nim` is a plural too, and `swój` agrees with what is possessed: they tell nothing.
    """

    language: ClassVar[str] = "pl"

    def __init__(self) -> None:
        try:
            self.version = f"{PACKAGE} {version(PACKAGE)}, rules {RULES}"
        except PackageNotFoundError:
            problem = f"{PACKAGE} is not installed: pip install 'xnmt_bench[morphology]'"
            raise XnmtError(f"the genders of Polish words: {problem}") from None

    def gender(self, words: Sequence[str], chosen: Sequence[int]) -> Told | None:
        """See `Morphology.gender`."""
        if told := self.pronoun_gender(words, chosen):
            return told
        tokens = [token for place in chosen if (token := stripped(words[place]))]
        read = [(gender, token, person) for token in tokens for gender, person in _nouns(token)]
        people = [one for one in read if one[2]]
        return next((Told(gender, token) for gender, token, _ in people or read), None)

    def pronoun_gender(
        self, words: Sequence[str], chosen: Sequence[int], personal: bool = True
    ) -> Told | None:
        """By a list; of a thing `jego` and the like may be neuter, and tell nothing."""
        tokens = (stripped(words[place]).lower() for place in chosen)
        told = next((t for t in tokens if t in PRONOUNS), None)
        if told is None or (not personal and told in ALSO_NEUTER):
            return None
        return Told(PRONOUNS[told], told)


@cache
def _analyser() -> Any:
    import morfeusz2

    return morfeusz2.Morfeusz(generate=False)


def _nouns(token: str) -> list[Reading]:
    """A word's readings as a noun in the singular."""
    found: list[Reading] = []
    for _, _, (_, _, tag, *_) in _analyser().analyse(token):
        parts = tag.split(":")
        if parts[0] == NOUN and SINGULAR in parts[1].split("."):
            genders = parts[3].split(".")
            found += [(GENDERS[g], g == "m1") for g in genders if g in GENDERS]
    return found
