"""Words that may replace each other: what an intervention puts where a word was.

A corpus that knows its grammar has them (`Corpus.substitutes`): words of one category, such as
masculine nouns, in the form of the word. An entry of several words is one unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from xnmt_bench.corpora.tokens import split_words

Entry = tuple[str, ...]  # its words


def longest_entries(
    words: Sequence[str], longest: int, is_entry: Callable[[Entry], object]
) -> Iterator[tuple[int, Entry]]:
    """Yield where entries stand, from left to right, the longest where several begin.

    Args:
        words: of a sentence.
        longest: words of the longest entry.
        is_entry: whether some words are one.
    """
    start = 0
    while start < len(words):
        # The longest first, or a part of `New York` would be exchanged alone.
        sizes = range(min(longest, len(words) - start), 0, -1)
        entries = (tuple(words[start : start + size]) for size in sizes)
        if entry := next(filter(is_entry, entries), None):
            yield start, entry
        start += len(entry or (1,))


def exchanged(words: Sequence[str], new: Iterable[tuple[int, Entry, Entry]]) -> str:
    """Return a sentence with entries in the place of others.

    Args:
        words: of the sentence.
        new: where an entry stands, from left to right, itself, and what is put in its place.
    """
    written, end = list[str](), 0
    for start, entry, other in new:
        # Words outside of the entries stay: they hold the sentence's structure.
        written += [*words[end:start], *other]
        end = start + len(entry)
    return " ".join([*written, *words[end:]])


@dataclass(frozen=True)
class Unit:
    """Words of a sentence that are exchanged together.

    Attributes:
        start, stop: its words, counted from 0; `stop` is not among them.
        others: what it is exchanged for, such as the entries of its category but itself.
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
            # Without repeats and in the given order, which decides what a seed draws.
            entries = list(dict.fromkeys(tuple(split_words(text)) for text in category if text))
            for entry in entries:
                others = tuple(other for other in entries if other != entry)
                # The only word of its category has nothing to be exchanged for.
                if others:
                    self._others.setdefault(entry, others)
        self._longest = max(map(len, self._others), default=0)

    @classmethod
    def listed(cls, others: Iterable[tuple[str, Sequence[str]]]) -> Substitutes:
        """Return substitutes that are listed for each word, and need not hold the other way."""
        substitutes = cls([])
        substitutes._others = {
            (word,): tuple((o,) for o in words) for word, words in others if words
        }
        substitutes._longest = min(1, len(substitutes._others))
        return substitutes

    def beside(self, categories: Iterable[Iterable[str]]) -> Substitutes:
        """Return these categories and further ones, which come first."""
        both = Substitutes(categories)
        # The further categories last, so that they win where a word is in both.
        both._others = {**self._others, **both._others}
        both._longest = max(self._longest, both._longest)
        return both

    @property
    def digest(self) -> str:
        """What decides the categories, for recipes."""
        # Sorted: the order in which entries were read changes no unit.
        return sha256(repr(sorted(self._others.items())).encode()).hexdigest()

    def units(self, words: Sequence[str]) -> Iterator[Unit]:
        """Yield the units of a sentence from left to right, the longest entry first."""
        for start, entry in longest_entries(words, self._longest, self._others.get):
            yield Unit(start, start + len(entry), self._others[entry])


Translations = Mapping[Entry, frozenset[Entry]]
"""The target entries, in any form, that translate a source entry."""


@dataclass(frozen=True)
class BothSides:
    """The categories of a corpus's two languages.

    Attributes:
        source, target: the categories.
        translations: which entries translate each other, where that is known.
    """

    source: Substitutes
    target: Substitutes
    translations: Translations = field(default_factory=dict)

    def beside(
        self,
        source: Sequence[Iterable[str]],
        target: Sequence[Iterable[str]],
        translations: Iterable[tuple[str, str]] = (),
    ) -> BothSides:
        """Return these and further ones; the categories of the further ones come first."""
        return BothSides(
            self.source.beside(source),
            self.target.beside(target),
            {**self.translations, **translations_of(translations)},
        )

    def inverted(self) -> BothSides:
        """Return the same with source and target exchanged."""
        # A word may have several translations on either side, so pairs are turned and grouped anew.
        pairs = [(t, s) for s, targets in self.translations.items() for t in targets]
        return BothSides(self.target, self.source, _grouped(pairs))

    @property
    def digest(self) -> str:
        """What decides the categories of both, for recipes; translations decide nothing in them."""
        return sha256(f"{self.source.digest} {self.target.digest}".encode()).hexdigest()

    @property
    def translations_digest(self) -> str:
        """What decides the translations, for recipes."""
        pairs = sorted((source, sorted(targets)) for source, targets in self.translations.items())
        return sha256(repr(pairs).encode()).hexdigest()


def translations_of(pairs: Iterable[tuple[str, str]]) -> Translations:
    """Return translations from pairs of texts, source first."""
    return _grouped(
        (tuple(split_words(source)), tuple(split_words(target))) for source, target in pairs
    )


def _grouped(pairs: Iterable[tuple[Entry, Entry]]) -> Translations:
    grouped: dict[Entry, set[Entry]] = {}
    for source, target in pairs:
        grouped.setdefault(source, set()).add(target)
    return {source: frozenset(targets) for source, targets in grouped.items()}


def by_key(pairs: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    """Return texts by their keys, such as nouns by gender."""
    grouped: dict[str, list[str]] = {}
    for key, text in pairs:
        grouped.setdefault(key, []).append(text)
    return grouped
