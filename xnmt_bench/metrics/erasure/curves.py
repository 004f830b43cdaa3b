"""What decisions lose while words are erased or put in.

Comprehensiveness and sufficiency are those of DeYoung et al. 2020 (ERASER, section 4), the areas
those of deletion and insertion curves over every word.

Shapes: N decisions, F shares of words, G points of a curve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xnmt_bench.metrics.erasure.erasing import PREFIX, SOURCE, Decision, Eraser

CURVES = ("deletion", "insertion")
GRID = np.linspace(0, 1, 21)  # shares of words at which curves are kept


def bins(decision: Decision, shares: Sequence[float]) -> list[tuple[int, int]]:
    """Return how many source and prefix words each share is: rounded up, one at least."""
    words = [int((decision.side_W == side).sum()) for side in (SOURCE, PREFIX)]
    # One at least, or a hundredth of a short sentence would erase nothing.
    # Rounded, since 0.28 of 25 words is 7.000000000000001 in floating point.
    counts = [[min(n, max(1, math.ceil(round(share * n, 9)))) for n in words] for share in shares]
    return [(source, prefix) for source, prefix in counts]


def erase(
    eraser: Eraser, decisions: Sequence[Decision], shares: Sequence[float], whole_curves: bool
) -> dict[str, np.ndarray]:
    """Return what each decision loses, by column, (N,).

    `comprehensiveness 0.1` is P(label) less that without a tenth of each side's words, the most
    relevant; `sufficiency 0.1` is P(label) less that with only these words. `deletion` and
    `insertion` are means over all steps of P(label) while one word after another is erased, or put
    in; `deletion at 0.05` and the others are points of the curves.

    Args:
        eraser: gives P(label) with some words kept.
        decisions: with their words, most relevant first.
        shares: of each side's words.
        whole_curves: whether every step is computed; if not, those columns are missing.
    """
    place_of: dict[tuple[int, bytes], int] = {}
    rows: list[tuple[int, np.ndarray]] = []

    def ask(number: int, keep_W: np.ndarray) -> int:
        """Return the place of a row, which is computed once."""
        # Small shares round to the same words, and curves begin and end where others do.
        key = (number, keep_W.tobytes())
        if key not in place_of:
            place_of[key] = len(rows)
            rows.append((number, keep_W))
        return place_of[key]

    places_of: list[dict[str, list[int]]] = []
    for number, decision in enumerate(decisions):
        # Asked for like any other row, so that both terms of a difference are computed alike.
        everything = np.ones(len(decision), dtype=bool)
        top = [decision.first(counts) for counts in bins(decision, shares)]
        places = {
            "whole": [ask(number, everything)],
            "comprehensiveness": [ask(number, ~chosen_W) for chosen_W in top],
            "sufficiency": [ask(number, chosen_W) for chosen_W in top],
        }
        if whole_curves:
            steps, rank_W = range(len(decision) + 1), np.arange(len(decision))
            places["deletion"] = [ask(number, rank_W >= step) for step in steps]
            places["insertion"] = [ask(number, rank_W < step) for step in steps]
        places_of.append(places)
    # All rows at once: the eraser shares encodings between them.
    p_R = eraser.probabilities(decisions, rows)
    columns: dict[str, np.ndarray] = {
        "whole": np.array([p_R[places["whole"][0]] for places in places_of])
    }
    for name in ("comprehensiveness", "sufficiency"):
        p_NF = np.array([p_R[places[name]] for places in places_of])
        columns |= {
            f"{name} {share:g}": columns["whole"] - p_N
            for share, p_N in zip(shares, p_NF.T, strict=True)
        }
    for name in CURVES if whole_curves else ():
        curves = [p_R[places[name]] for places in places_of]
        columns[name] = np.array([curve.mean() for curve in curves])
        # Curves of unlike lengths are averaged at shares of their words.
        p_NG = np.array([np.interp(GRID, np.linspace(0, 1, len(c)), c) for c in curves])
        columns |= {point(name, x): p_N for x, p_N in zip(GRID, p_NG.T, strict=True)}
    return columns


def point(curve: str, share: float) -> str:
    """Return the name of a curve's point."""
    return f"{curve} at {share:.2f}"
