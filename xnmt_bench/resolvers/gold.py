"""The coreference chains that people annotated in a corpus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from xnmt_bench.corpora.sentence import Sentence
from xnmt_bench.resolvers.base import Clusters, Resolver, Span, tidy


class Gold(Resolver):
    """The corpus's own mentions on the source side; a chain is cut at the end of its sentence.

    A mention of words that do not follow each other is all words from its first to its last.
    """

    fingerprint = "gold"  # the corpus's own recipe holds its annotation

    def resolve(self, sentences: Iterable[Sentence]) -> Iterator[Clusters | None]:
        """Yield the clusters of each sentence; None for one without annotation."""
        for sentence in sentences:
            if sentence.gold is None:
                yield None
                continue
            spans: dict[str, list[Span]] = defaultdict(list)
            for mention in sentence.gold.source_mentions:
                # A cluster's mention is a stretch, and an annotated one may have gaps.
                spans[mention.chain].append((min(mention.words), max(mention.words)))
            yield tidy(spans.values())
