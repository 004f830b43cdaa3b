"""English pronouns of the third person, and the genders that they show."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from xnmt_bench.morphology import Gender
from xnmt_bench.morphology.base import stripped

MALE = ("he", "him", "his", "himself")
FEMALE = ("she", "her", "hers", "herself")
PLURALS = ("they", "them", "their", "theirs", "themselves")
THINGS = ("it", "its", "itself")
PRONOUNS: Mapping[str, Gender] = {
    **dict.fromkeys(MALE, "m"),
    **dict.fromkeys(FEMALE, "f"),
    # As WinoMT has it, whose neutral entities are referred to by `they`.
    **dict.fromkeys(PLURALS, "n"),
}
ARTICLES = ("the", "a", "an")


def bare(word: str) -> str:
    """Return a word in lower case, without attached punctuation and clitic: `It's` is `it`."""
    return re.sub(r"['’]s$", "", stripped(word).lower())


def with_article(words: Sequence[str], span: Sequence[int]) -> list[int]:
    """Return the words of an entity, and its article."""
    before = span[0] - 1
    return [before, *span] if before >= 0 and words[before].lower() in ARTICLES else list(span)
