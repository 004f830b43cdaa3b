"""Markers of clusters in source sentences (Yehudai et al. 2023, section 4).

    The trophy didn't fit in the <ENT1> suitcase </ENT1> because <ENT1> it </ENT1> was too small

The paper does not say what becomes of mentions that share words. Here shorter mentions come first,
and a longer one keeps the longest run of its words that no shorter one has, the first of equal
runs: of `his car` and `his`, the markers of the first stand around `car`. So markers are never
nested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xnmt_bench.corpora.sentence import Corpus, Sentence, Split
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.corpora.view import CorpusView
from xnmt_bench.corpora.vocabulary.subwords import MARKER
from xnmt_bench.errors import XnmtError
from xnmt_bench.options import Count
from xnmt_bench.resolvers.base import Clusters, Resolver, Span
from xnmt_bench.resolvers.examples import pair_with_clusters, refuse_other_languages

MOST_CLUSTERS = 8


@dataclass(frozen=True)
class MarkedText:
    """A source sentence with markers.

    Attributes:
        text: the sentence.
        marked: how many clusters have markers.
        beyond: how many are left out because there are too many.
        covered: how many are left out because other mentions took their words.
    """

    text: str
    marked: int
    beyond: int
    covered: int


def mark(text: str, clusters: Clusters, most: int = MOST_CLUSTERS) -> MarkedText:
    """Write markers around the mentions of a sentence.

    Clusters are in the order of their first mentions, and those after the first `most` are left
    without markers. So is a cluster that keeps fewer than two mentions (see the module on mentions
    that share words); the first such cluster is taken out, and the others share its words. Numbers
    count from 1 in the order of the markers.

    Args:
        text: words between blanks.
        clusters: a resolver's.
        most: how many clusters get markers.

    Raises:
        ValueError: the text holds a marker.
    """
    if marker := MARKER.search(text):
        raise ValueError(f"the text holds a marker: {marker[0]}")
    words = split_words(text)
    # By first mention, so that the numbers of markers rise from left to right.
    numbered = sorted((tuple(sorted(set(cluster))) for cluster in clusters), key=lambda c: c[0])
    kept, covered = numbered, 0
    while True:
        # Anew for all clusters, since the words of one that went are free for every other.
        runs = _runs(kept[:most])
        short = next((n for n, cluster_runs in enumerate(runs) if len(cluster_runs) < 2), None)
        if short is None:
            break
        # A cluster without markers gives its words back, and its place to the next one.
        covered += 1
        del kept[short]
    # A mention may have lost its first words, so the order of clusters can have changed.
    runs.sort()
    starts = {first: n for n, cluster in enumerate(runs, start=1) for first, _ in cluster}
    ends = {last: n for n, cluster in enumerate(runs, start=1) for _, last in cluster}
    pieces: list[str] = []
    for place, word in enumerate(words):
        if place in starts:
            pieces.append(f"<ENT{starts[place]}>")
        pieces.append(word)
        if place in ends:
            pieces.append(f"</ENT{ends[place]}>")
    # Without a marker, repeated blanks are kept too.
    marked_text = " ".join(pieces) if runs else text
    return MarkedText(marked_text, len(runs), len(kept) - len(runs), covered)


def _runs(clusters: Sequence[Sequence[Span]]) -> list[list[Span]]:
    """Return for each cluster the words of its mentions that get markers."""
    mentions = sorted(
        ((last - first, first, n) for n, cluster in enumerate(clusters) for first, last in cluster)
    )
    taken: set[int] = set()
    runs: list[list[Span]] = [[] for _ in clusters]
    # The shortest first: of `his car` and `his` the pronoun keeps its only word.
    for length, first, n in mentions:
        run = _longest_run([w for w in range(first, first + length + 1) if w not in taken])
        if run is not None:
            runs[n].append(run)
            taken |= set(range(run[0], run[1] + 1))
    return [sorted(cluster) for cluster in runs]


def _longest_run(free: Sequence[int]) -> Span | None:
    """Return the longest run of neighbours among some words, the first of equal ones."""
    best: Span | None = None
    start = 0
    for n, word in enumerate(free):
        if n == 0 or free[n - 1] != word - 1:
            start = word
        if best is None or word - start > best[1] - best[0]:
            best = start, word
    return best


class MarkedCorpus(CorpusView):
    """A corpus as a system with markers reads it: the sources of every split have them.

    Targets and annotation do not change: annotation counts the words of the text, and a marker is
    none of them.

    Args:
        corpus: its source is English.
        resolver: finds the clusters.
        most: how many clusters of a sentence get markers.

    Raises:
        XnmtError: the source is not English; when read: a source holds a marker already, named by
            split and sentence, or no training sentence has a cluster.
    """

    def __init__(self, corpus: Corpus, resolver: Resolver, most: Count = MOST_CLUSTERS) -> None:
        super().__init__(corpus)
        refuse_other_languages(corpus)
        # Elsewhere a marker in a source is an error of the text.
        self.marked = True
        self._resolver, self._most = resolver, most

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Stream a split, with markers."""
        for sentence, marked in self._mark_split(split):
            yield replace(sentence, source=marked.text)

    def _mark_split(self, split: Split) -> Iterator[tuple[Sentence, MarkedText]]:
        # Counted while streaming, since a resolver may take hours for a second pass.
        clusters_marked = 0
        pairs = pair_with_clusters(self.corpus.sentences(split), self._resolver)
        for number, (sentence, clusters) in enumerate(pairs, start=1):
            try:
                # A sentence that the resolver does not know stays without markers.
                marked = mark(sentence.source, clusters or (), self._most)
            except ValueError as error:
                raise XnmtError(f"{self.name}, {split}, sentence {number}: {error}") from None
            clusters_marked += marked.marked
            yield sentence, marked
        # Only of training: a short test split may hold no cluster.
        if split == "train" and not clusters_marked:
            raise XnmtError(f"{self.name}: the training split has no cluster to mark")

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the corpus's recipe, the resolver and how many clusters get markers."""
        return {
            "kind": "markers",
            "corpus": self.corpus.recipe(split),
            "resolver": self._resolver.fingerprint,
            # It decides which markers are in the text, as the resolver does.
            "most": self._most,
        }

    def counts(self) -> Iterator[str]:
        """Yield the corpus's own counts, and the clusters of the training split."""
        yield from self.corpus.counts()
        counts = Counter[str]()
        for _, text in self._mark_split("train"):
            counts.update(marked=text.marked, beyond=text.beyond, covered=text.covered)
        yield (
            f"{counts['marked']:,} clusters have markers; {counts['beyond']:,} beyond the first "
            f"{self._most} of their sentence and {counts['covered']:,} without two mentions of "
            "their own have none"
        )
