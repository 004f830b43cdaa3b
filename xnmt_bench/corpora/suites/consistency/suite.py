"""A suite: sentences with pronouns, and for each the entity that it refers to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from xnmt_bench.corpora.sentence import Links, Mention, Sentence
from xnmt_bench.corpora.suites.consistency.pronouns import PLURALS, THINGS, bare
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.morphology import Gender
from xnmt_bench.store import fingerprint

log = logging.getLogger(__name__)
Span = tuple[int, ...]  # places of words
LISTED = 5  # of what is left out, how many are named


@dataclass(frozen=True)
class Entity:
    """A person or thing that a sentence names.

    Attributes:
        words: their places in their sentence, without an article.
        back: how many sentences before the pronoun's.
    """

    words: Span
    back: int = 0


@dataclass(frozen=True)
class Item:
    """A pronoun. Places are of words between blanks.

    Attributes:
        sentence: number of its sentence in the suite.
        pronoun: its place there.
        entity: what it refers to.
        other: the entity that it could be taken for; None where there is none.
        gender: that the entity has by the source; None where that does not tell.
        sets: the stereotypical subsets that it is in, of `pro` and `anti`.
        expected: the pronoun of the right translation, where that is known.
    """

    sentence: int
    pronoun: int
    entity: Entity
    other: Entity | None = None
    gender: Gender | None = None
    sets: tuple[str, ...] = ()
    expected: str = ""

    @property
    def backs(self) -> set[int]:
        """How far back the sentences are that it is about; its own is 0."""
        # A set: entity and pronoun mostly share a sentence.
        return {0, self.entity.back, self.other.back if self.other else 0}


@dataclass(frozen=True)
class Suite:
    """A test suite in its own order.

    Attributes:
        name: as in results.
        sentences: all that are translated; targets are references, empty where there are none.
        items: the pronouns, in the order of their sentences.
        link_words: returns the links of a source and its translation, where all sentences have one
            form; None for most suites.
    """

    name: str
    sentences: Sequence[Sentence]
    items: Sequence[Item]
    link_words: Callable[[str, str], Links] | None = None

    @classmethod
    def of(
        cls, name: str, sources: Sequence[str], items: Sequence[Item], targets: Sequence[str] = ()
    ) -> Suite:
        """Return a suite whose sentences are documents of their own."""
        # No references: an empty target means an unknown one.
        pairs = zip(sources, targets or [""] * len(sources), strict=True)
        # A document each, since the sentences of a suite do not follow each other.
        sentences = [Sentence(x, y, f"{name} {n}", 0) for n, (x, y) in enumerate(pairs)]
        return cls(name, sentences, items)

    @cached_property
    def fingerprint(self) -> str:
        """Of everything that it says."""
        sources = [sentence.source for sentence in self.sentences]
        parts: dict[str, Any] = {"sources": sources, "items": list(map(asdict, self.items))}
        # Other references are another test set, also where sources and pronouns are the same.
        if self.has_references:
            parts["references"] = [sentence.target for sentence in self.sentences]
        return fingerprint(parts)

    @cached_property
    def has_references(self) -> bool:
        """Whether people have translated it."""
        return any(sentence.target for sentence in self.sentences)

    def mentions(self, sentence: int) -> tuple[Mention, ...]:
        """Return a sentence's own annotation, or its pronouns with entities that are in it."""
        gold = self.sentences[sentence].gold
        if gold is not None:
            return gold.source_mentions
        of_entity: dict[Span, list[Span]] = {}
        for item in self._items_of.get(sentence, ()):
            # A mention of another sentence has no place in this one.
            if not item.entity.back:
                of_entity.setdefault(item.entity.words, []).append((item.pronoun,))
        return tuple(
            Mention(f"entity {n}", words)
            for n, (entity, pronouns) in enumerate(of_entity.items())
            # Each entity with its pronouns is a chain, as annotators mark them.
            for words in (entity, *pronouns)
        )

    @cached_property
    def _items_of(self) -> dict[int, list[Item]]:
        """The pronouns of each sentence by its number."""
        items: dict[int, list[Item]] = {}
        for item in self.items:
            items.setdefault(item.sentence, []).append(item)
        return items

    def words(self, item: Item, entity: Entity | None = None) -> list[str]:
        """Return the words of the source sentence of a pronoun, or of one of its entities."""
        return split_words(self.sentences[item.sentence - (entity.back if entity else 0)].source)

    def named(self, item: Item, entity: Entity) -> str:
        """Return an entity as the source names it."""
        words = self.words(item, entity)
        return " ".join(bare(words[n]) for n in entity.words)

    def pronoun(self, item: Item) -> str:
        """Return a pronoun in the form of the tables."""
        return bare(self.words(item)[item.pronoun])

    def plural(self, item: Item) -> bool:
        """Return whether a pronoun is a plural, whose translation shows no gender."""
        return self.pronoun(item) in PLURALS

    def personal(self, item: Item) -> bool:
        """Return whether a pronoun refers to a person, not to a thing."""
        return self.pronoun(item) not in THINGS


def left_out(path: Path, problems: Mapping[int, str]) -> None:
    """Say how many lines of a suite cannot be used, by line and reason."""
    for line, problem in list(problems.items())[:LISTED]:
        log.warning("%s:%d: left out: %s", path, line, problem)
    # A wrong file would flood the log with its lines.
    if unlisted := list(problems)[LISTED:]:
        numbers = ", ".join(map(str, unlisted))
        log.warning("%s: %d more are left out, of lines %s", path, len(unlisted), numbers)
