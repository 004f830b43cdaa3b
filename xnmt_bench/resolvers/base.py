"""What a coreference resolver answers: which words of a source sentence are one person or thing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import ClassVar

from xnmt_bench.corpora.sentence import Sentence
from xnmt_bench.corpora.tokens import WORD

Span = tuple[int, int]  # first and last word of a mention, both inclusive, counted from 0
Cluster = tuple[Span, ...]
Clusters = tuple[Cluster, ...]


class Resolver(ABC):
    """A plug-in declares one in the entry-point group `xnmt_bench.resolvers`.

    Attributes:
        fingerprint: of everything that decides the clusters, such as the bytes of a file.
        slow: it reads only the text and takes long, so its clusters of training text are stored.
    """

    fingerprint: str
    slow: ClassVar[bool] = False

    @abstractmethod
    def resolve(self, sentences: Iterable[Sentence]) -> Iterator[Clusters | None]:
        """Yield the clusters of each source sentence, without its neighbours, in the given order.

        Words are those between blanks. Every cluster has two mentions or more, in the order of the
        sentence, and clusters are in the order of their first mentions (see `tidy`).

        Yields:
            None for a sentence that the resolver does not know, such as one that a file lacks.
        """


def tidy(clusters: Iterable[Iterable[Span]]) -> Clusters:
    """Return clusters in order: repeated mentions and clusters of fewer than two are left out."""
    # A set first: several stretches of letters may touch the same words.
    ordered = (tuple(sorted(set(cluster))) for cluster in clusters)
    return tuple(sorted(cluster for cluster in ordered if len(cluster) > 1))


def clusters_of_words(
    word_starts: Sequence[int], clusters: Iterable[Iterable[tuple[int, int]]]
) -> Clusters:
    """Return clusters of the words that mentions touch; a mention that touches none is left out.

    Args:
        word_starts: the character, or letter, at which each word begins, and where the text ends.
        clusters: mentions by their first character, or letter, and the one behind their last.
    """
    # By overlap and not by equal ends, since tools cut punctuation off in other ways.
    touched = (
        [
            [n for n, (a, b) in enumerate(pairwise(word_starts)) if a < stop and start < b]
            for start, stop in cluster
        ]
        for cluster in clusters
    )
    return tidy([(words[0], words[-1]) for words in mentions if words] for mentions in touched)


def character_starts(text: str) -> list[int]:
    """Return the character at which each word between blanks begins, and the text's length."""
    return [*(match.start() for match in WORD.finditer(text)), len(text)]
