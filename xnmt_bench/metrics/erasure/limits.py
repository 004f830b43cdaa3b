"""The least and the greatest area that any order of a decision's words has.

Areas do not compare across models and decisions (Edin et al. 2024, arXiv 2408.08137):
one decision may fall at the first word whatever the order, another at the last. Between its own
limits an area is a share. An order is a chain of sets of words, from all to none, and its area the
mean of P(label) over the chain. So the limits are exact where all sets can be enumerated; beyond, a
beam of the best chains is searched.

Shapes: N decisions, W words. A set of words is an integer, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xnmt_bench.metrics.erasure.erasing import Decision, Eraser

ENUMERATED = 8  # words, up to which all sets are computed
Sets = dict[int, float]


def limits(
    eraser: Eraser, decisions: Sequence[Decision], beam: int, enumerated: int = ENUMERATED
) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest area of each decision, (N,).

    Args:
        eraser: gives P(label) with some words kept.
        decisions: in any order of their words.
        beam: chains that are kept at each step.
        enumerated: words up to which all sets are computed, so that the limits are exact.
    """
    known: list[Sets] = [{} for _ in decisions]

    def compute(wanted: Sequence[set[int]]) -> None:
        """Ask for sets that are not known yet."""
        new = [(n, s) for n, sets in enumerate(wanted) for s in sorted(sets - known[n].keys())]
        if new:
            rows = [(n, _mask(s, len(decisions[n]))) for n, s in new]
            for (n, s), p in zip(new, eraser.probabilities(decisions, rows), strict=True):
                known[n][s] = float(p)

    small = [len(decision) <= enumerated for decision in decisions]
    compute(
        [
            set(range(1 << len(decision))) if is_small else {(1 << len(decision)) - 1}
            for decision, is_small in zip(decisions, small, strict=True)
        ]
    )
    ends = []
    for best in (min, max):
        sums = [
            {(1 << len(decision)) - 1: known[n][(1 << len(decision)) - 1]}
            for n, decision in enumerate(decisions)
        ]
        for step in range(max(map(len, decisions), default=0)):
            # Every set that one word less leads to, and the best chain to it.
            longer = [
                _shorten(chains, best) if step < len(decision) else {}
                for chains, decision in zip(sums, decisions, strict=True)
            ]
            compute([set(chains) for chains in longer])
            for n, chains in enumerate(longer):
                if chains:
                    reached = {s: total + known[n][s] for s, total in chains.items()}
                    sums[n] = reached if small[n] else _keep(reached, best, beam)
        ends.append(np.array([sums[n][0] / (len(d) + 1) for n, d in enumerate(decisions)]))
    lower_N, upper_N = ends
    return lower_N, upper_N


def _mask(subset: int, words: int) -> np.ndarray:
    return np.array([subset >> word & 1 for word in range(words)], dtype=bool)


def _shorten(chains: Sets, best: Callable[..., float]) -> Sets:
    """Return the sets with one word less, each with the best sum of a chain that leads to it."""
    shorter: Sets = {}
    for subset, total in chains.items():
        rest = subset
        while rest:
            word = rest & -rest
            rest ^= word
            smaller = subset ^ word
            shorter[smaller] = best(shorter.get(smaller, total), total)
    return shorter


def _keep(chains: Sets, best: Callable[..., float], beam: int) -> Sets:
    """Return the best chains; of equal ones those of smaller sets of bits."""
    sign = 1 if best is min else -1
    return dict(sorted(chains.items(), key=lambda item: (sign * item[1], item[0]))[:beam])
