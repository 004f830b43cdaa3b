"""From relevance to word alignment, and alignments that need no model."""

from __future__ import annotations

from xnmt_bench.corpora.sentence import Links


def diagonal(source: int, target: int) -> Links:
    """Link each of `target` words to that of `source` words at the same share of its sentence."""
    # Half a word more, so that middles of words meet and both ends are treated alike.
    return frozenset((int((j + 0.5) * source / target), j) for j in range(target))
