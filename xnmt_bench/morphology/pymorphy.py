"""Russian: what the dictionary of pymorphy3 says of nouns, and what pronouns say by their form."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

from xnmt_bench.errors import XnmtError
from xnmt_bench.morphology.base import Gender, Morphology, stripped

RULES = 1  # raise it when a rule gives other genders
PACKAGES = ("pymorphy3", "pymorphy3-dicts-ru")
GENDERS: dict[str, Gender] = {"masc": "m", "femn": "f", "neut": "n"}
# By their form; as possessives they tell the possessor.
PRONOUNS: dict[str, Gender] = {
    "он": "m", "его": "m", "него": "m", "ему": "m", "нему": "m", "нём": "m", "нем": "m",
    "она": "f", "её": "f", "ее": "f", "неё": "f", "нее": "f", "ей": "f", "ней": "f", "ею": "f",
    "нею": "f", "оно": "n", "это": "n",
}  # fmt: skip


@cache
def analyser() -> Any:
    """The analyser of pymorphy3; an XnmtError where it is not installed."""
    try:
        import pymorphy3
    except ImportError:
        problem = "pymorphy3 is not installed: pip install 'xnmt_bench[morphology]'"
        raise XnmtError(f"the genders of Russian words: {problem}") from None
    return pymorphy3.MorphAnalyzer(lang="ru")


def analyser_version() -> str:
    """Of the analyser and its dictionary."""
    try:
        return ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    except PackageNotFoundError:
        analyser()
        raise


class Pymorphy(Morphology):
    """By the dictionary OpenCorpora, as pymorphy3 has it (MIT; the dictionary CC BY-SA 3.0).

    Of the linked words the first animate noun counts, else the first noun, by its likeliest parse
    in the singular, else any word that shows a gender. What is beside it is not asked.
    """

    language: ClassVar[str] = "ru"

    def __init__(self) -> None:
        self.version = f"{analyser_version()}, rules {RULES}"

    def gender(self, words: Sequence[str], chosen: Sequence[int]) -> Gender | None:
        """See `Morphology.gender`."""
        tokens = [stripped(words[place]).lower() for place in chosen]
        if told := self.pronoun_gender(words, chosen):
            return told
        parses = [parse.tag for token in tokens if token for parse in analyser().parse(token)]
        known = [tag for tag in parses if tag.gender in GENDERS and tag.number == "sing"]
        # Who is meant is a person: `механику` is not mechanics.
        people = [tag for tag in known if "NOUN" in tag and tag.animacy == "anim"]
        nouns = [tag for tag in known if "NOUN" in tag]
        likeliest = people or nouns or known
        return GENDERS[likeliest[0].gender] if likeliest else None

    def pronoun_gender(self, words: Sequence[str], chosen: Sequence[int]) -> Gender | None:
        """By a list: `им` and `ним` are plural too, and `свой` agrees with what is possessed."""
        tokens = (stripped(words[place]).lower() for place in chosen)
        return next((PRONOUNS[token] for token in tokens if token in PRONOUNS), None)
