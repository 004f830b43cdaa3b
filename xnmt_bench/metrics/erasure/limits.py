"""The least and the greatest area that any order of a decision's words has.

Areas do not compare across models and decisions (Edin et al. 2024, arXiv 2408.08137): in one
decision the label falls with the first word in every order, in another with the last. Between its
own limits an area is a share. An order is a chain of sets of words, from all to none, and its area
the mean of P(label) over the chain. So the limits are exact where all sets can be enumerated;
beyond, a beam of the best chains is searched.

Shapes: N decisions, W words. A set of words is an integer, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xnmt_bench.metrics.erasure.erasing import Decision, Eraser
from xnmt_bench.progress import inside

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
    p_of: list[Sets] = [{} for _ in decisions]

    def compute(needed: Sequence[set[int]]) -> None:
        """Ask for sets that are not computed yet."""
        # Chains meet in the same sets, and each is a row of the model.
        new = [(n, s) for n, sets in enumerate(needed) for s in sorted(sets - p_of[n].keys())]
        if new:
            rows = [(n, _mask(s, len(decisions[n]))) for n, s in new]
            for (n, s), p in zip(new, eraser.probabilities(decisions, rows), strict=True):
                p_of[n][s] = float(p)

    # A set of words is a number whose bits are its words, so that sets are keys.
    all_words = [(1 << len(decision)) - 1 for decision in decisions]
    small = [len(decision) <= enumerated for decision in decisions]
    # All at once for short decisions: two to the eighth rows are one pass.
    compute([{*range(w + 1)} if s else {w} for w, s in zip(all_words, small, strict=True)])
    sums_of = {
        best: [{words: p_of[n][words]} for n, words in enumerate(all_words)] for best in (min, max)
    }
    # Both searches and all decisions step together: a pass shares encodings between its rows.
    longest = max(map(len, decisions), default=0)
    # A step costs about as many rows as there are words left to take away.
    for step in inside(range(longest), lambda step: longest - step, longest * (longest + 1) // 2):
        # Every set that one word less leads to, and the best chain to it.
        longer_of = {
            best: [
                _shorten(chains, best) if step < len(decision) else {}
                for chains, decision in zip(sums, decisions, strict=True)
            ]
            for best, sums in sums_of.items()
        }
        compute([{*least, *greatest} for least, greatest in zip(*longer_of.values(), strict=True)])
        for best, longer in longer_of.items():
            for n, chains in enumerate(longer):
                if chains:
                    reached = {s: total + p_of[n][s] for s, total in chains.items()}
                    # Without a beam every chain survives, and the limits are exact.
                    sums_of[best][n] = reached if small[n] else _keep(reached, best, beam)
    # The empty set ends every chain; an area is the mean over all points, both ends included.
    lower_N, upper_N = (
        np.array([chains[0] / (len(d) + 1) for chains, d in zip(sums, decisions, strict=True)])
        for sums in sums_of.values()
    )
    return lower_N, upper_N


def _mask(subset: int, words: int) -> np.ndarray:
    return np.array([subset >> word & 1 for word in range(words)], dtype=bool)


def _shorten(chains: Sets, best: Callable[..., float]) -> Sets:
    """Return the sets with one word less, each with the best sum of a chain that leads to it."""
    shorter: Sets = {}
    for subset, total in chains.items():
        untried = subset
        while untried:
            # The lowest bit that is set.
            word = untried & -untried
            untried ^= word
            smaller = subset ^ word
            shorter[smaller] = best(shorter.get(smaller, total), total)
    return shorter


def _keep(chains: Sets, best: Callable[..., float], beam: int) -> Sets:
    """Return the best chains; of equal ones those of smaller sets of bits."""
    sign = 1 if best is min else -1
    # Ties by the set itself, so that two runs keep the same chains.
    return dict(sorted(chains.items(), key=lambda item: (sign * item[1], item[0]))[:beam])
