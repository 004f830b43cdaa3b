"""A suite: sentences with a pronoun, the entity that it stands for, and another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from xnmt_bench.morphology import Gender
from xnmt_bench.store import fingerprint

Span = tuple[int, ...]  # places of words


@dataclass(frozen=True)
class Item:
    """A sentence. Places are of its words, which stand between blanks.

    Attributes:
        source: the sentence.
        entity: the words that the pronoun stands for, without an article.
        pronoun: the pronoun.
        other: the words of the other entity; none where there is none.
        gender: that the entity has by the pronoun; `n` where that does not tell.
        sets: the stereotypical subsets that it is in, of `pro` and `anti`.
    """

    source: str
    entity: Span
    pronoun: int
    other: Span = ()
    gender: Gender = "n"
    sets: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """Of the source."""
        return self.source.split()


@dataclass(frozen=True)
class Suite:
    """A test suite in its own order."""

    name: str
    items: Sequence[Item]

    @cached_property
    def fingerprint(self) -> str:
        """Of everything that it says."""
        return fingerprint({"items": [asdict(item) for item in self.items]})
