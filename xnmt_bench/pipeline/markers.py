"""Markers of clusters around the mentions of a system's source sentences (Yehudai et al. 2023)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from xnmt_bench.corpora.passage import Passage
from xnmt_bench.corpora.sentence import Corpus, Sentence
from xnmt_bench.corpora.vocabulary.subwords import MARKER
from xnmt_bench.errors import XnmtError
from xnmt_bench.lazy import Lazy
from xnmt_bench.pipeline.clusters import StoredClusters
from xnmt_bench.registry import create
from xnmt_bench.resolvers.base import Resolver
from xnmt_bench.resolvers.markers import MarkedCorpus, mark
from xnmt_bench.resolvers.options import CoreferenceOptions
from xnmt_bench.store import Store


class Markers(Lazy):
    """Writes markers into what a system reads, if its vocabulary has them.

    Args:
        options: by which resolver, and which markers are read.
        exist: returns whether the source vocabulary has markers; this may open the system.
        store: where clusters of training sentences lie.
        corpus: whose training sentences those are.
    """

    def __init__(
        self,
        options: CoreferenceOptions,
        exist: Callable[[], bool],
        store: Store,
        corpus: Corpus,
    ) -> None:
        self.options, self._exist, self._store, self._corpus = options, exist, store, corpus

    @cached_property
    def exist(self) -> bool:
        """Whether the source vocabulary has markers of clusters."""
        return self._exist()

    def write(self, corpus: Corpus) -> Corpus:
        """Return a corpus as the system reads it."""
        if self.options.read == "none" or not self.exist:
            return corpus
        gold = self.options.read == "gold"
        return MarkedCorpus(corpus, create("resolvers", "gold") if gold else self.resolver)

    def write_training(self, corpus: Corpus) -> Corpus:
        """Return a corpus as training reads it: its markers are the resolver's, at all times."""
        return MarkedCorpus(corpus, self.resolver) if self.exist else corpus

    @cached_property
    def resolver(self) -> Resolver:
        """The configured resolver; a slow one remembers the training sentences."""
        resolver = self.bare_resolver
        return StoredClusters(self._store, self._corpus, resolver) if resolver.slow else resolver

    @cached_property
    def bare_resolver(self) -> Resolver:
        """The configured resolver, for texts outside of the training split."""
        return self.options.create_resolver()

    @property
    def are_gold(self) -> bool:
        """Whether the system reads the markers of a corpus's annotation, which bare texts lack."""
        return self.exist and self.options.read == "gold"

    @property
    def resolved_by(self) -> str:
        """The resolver whose markers the system reads in bare texts; empty for no markers."""
        reads = self.exist and self.options.read != "none"
        return self.bare_resolver.fingerprint if reads else ""

    def mark(self, text: str) -> str:
        """Return a source sentence as the system reads it.

        Raises:
            XnmtError: the sentence holds markers already, or is to have gold ones.
        """
        if MARKER.search(text):
            raise XnmtError(f"the text holds a marker: {text}")
        if not self.resolved_by:
            return text
        if self.are_gold:
            raise XnmtError(
                "nmt.coreference.read=gold: a single sentence has no annotated coreference"
            )
        return self._mark_all([text])[text]

    def mark_passages(self, passages: Iterable[Passage]) -> list[Passage]:
        """Return passages whose source sentences are as the system reads them; see `mark`."""
        passages = list(passages)
        return self.mark_sources(passages) if self.resolved_by else passages

    def mark_sources(self, passages: Sequence[Passage]) -> list[Passage]:
        """Return passages with the resolver's markers, as in training."""
        marked = self._mark_all(
            text for p in passages for text in (p.source, *p.source_context, *p.following)
        )
        return [
            replace(
                p,
                source=marked[p.source],
                source_context=tuple(marked[text] for text in p.source_context),
                following=tuple(marked[text] for text in p.following),
            )
            for p in passages
        ]

    def _mark_all(self, texts: Iterable[str]) -> dict[str, str]:
        """Return each text with its markers; one that the resolver does not know has no marker."""
        distinct = list(dict.fromkeys(texts))
        if with_marker := next(filter(MARKER.search, distinct), None):
            raise XnmtError(f"the text holds a marker: {with_marker}")
        # Together: a resolver that reads a file refuses texts of which it knows none.
        sentences = [Sentence(text, "", "", n) for n, text in enumerate(distinct)]
        resolved = self.bare_resolver.resolve(sentences)
        pairs = zip(distinct, resolved, strict=True)
        return {text: mark(text, clusters or ()).text for text, clusters in pairs}
