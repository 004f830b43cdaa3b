"""Words that may stand in each other's place: what an intervention puts where a word was.

A corpus that knows its grammar has them (`Corpus.substitutes`): words of one category, such as
masculine nouns, in the form of the word. An entry of several words is one unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

Entry = tuple[str, ...]  # its words


@dataclass(frozen=True)
class Unit:
    """Words of a sentence that are exchanged together.

    Attributes:
        start, stop: its words, counted from 0; `stop` is not among them.
        others: the entries of its category but itself.
    """

    start: int
    stop: int
    others: tuple[Entry, ...]


class Substitutes:
    """The categories of one side.

    Args:
        categories: entries that may replace each other, as texts. An entry of several categories
            belongs to the first.
    """

    def __init__(self, categories: Iterable[Iterable[str]]) -> None:
        self._others: dict[Entry, tuple[Entry, ...]] = {}
        for category in categories:
            entries = list(dict.fromkeys(tuple(text.split()) for text in category if text))
            for entry in entries:
                others = tuple(other for other in entries if other != entry)
                if others:
                    self._others.setdefault(entry, others)
        self._longest = max(map(len, self._others), default=0)

    def beside(self, categories: Iterable[Iterable[str]]) -> Substitutes:
        """Return these categories and further ones, which come first."""
        both = Substitutes(categories)
        both._others = {**self._others, **both._others}
        both._longest = max(self._longest, both._longest)
        return both

    @property
    def digest(self) -> str:
        """What decides the categories, for recipes."""
        return sha256(repr(sorted(self._others.items())).encode()).hexdigest()

    def units(self, words: Sequence[str]) -> Iterator[Unit]:
        """Yield the units of a sentence from left to right, the longest entry first."""
        start = 0
        while start < len(words):
            for stop in range(min(len(words), start + self._longest), start, -1):
                if others := self._others.get(tuple(words[start:stop])):
                    yield Unit(start, stop, others)
                    start = stop - 1
                    break
            start += 1


@dataclass(frozen=True)
class BothSides:
    """The categories of a corpus's two languages."""

    source: Substitutes
    target: Substitutes

    @property
    def digest(self) -> str:
        """What decides the categories of both, for recipes."""
        return sha256(f"{self.source.digest} {self.target.digest}".encode()).hexdigest()


def by_key(pairs: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    """Return texts by their keys, such as nouns by gender."""
    grouped: dict[str, list[str]] = {}
    for key, text in pairs:
        grouped.setdefault(key, []).append(text)
    return grouped
