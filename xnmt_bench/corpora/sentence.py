"""The one sentence object that every corpus yields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
Links = frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Mention:
    """A mention of a coreference chain.

    Attributes:
        chain: the chain's name.
        words: 0-based word positions in its sentence.
        needed: whether one has to look for its antecedent in the context, where annotators said so.
    """

    chain: str
    words: tuple[int, ...]
    needed: bool | None = None


@dataclass(frozen=True, slots=True)
class Gold:
    """Gold annotation of a sentence pair, on words separated by white space, counted from 0.

    Attributes:
        sure: (source word, target word) links an aligner must find.
        possible: links it may find; always holds the sure ones.
        source_mentions: coreference mentions on the source side.
        target_mentions: the same on the target side.
        deciding_source: for each target word, the source words that decide it.
        deciding_prefix: for each target word, the earlier target words that decide it.
    """

    sure: Links = frozenset()
    possible: Links = frozenset()
    source_mentions: tuple[Mention, ...] = ()
    target_mentions: tuple[Mention, ...] = ()
    deciding_source: tuple[frozenset[int], ...] = ()
    deciding_prefix: tuple[frozenset[int], ...] = ()


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence pair and its place in its document."""

    source: str
    target: str
    document: str
    position: int
    gold: Gold | None = None


class Corpus(Protocol):
    """What every corpus answers. Sentences stream: none is kept."""

    name: str
    source_language: str
    target_language: str

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """The pairs of a split, in an order that never changes."""
        ...

    def recipe(self) -> dict[str, Any]:
        """Everything that decides the sentences, as plain JSON values."""
        ...


def lang_pair(corpus: Corpus) -> str:
    """The pair in the field's notation, such as `de-en`."""
    return f"{corpus.source_language}-{corpus.target_language}"
