"""Response, bias and verdict, from the advantage of the link in both twins.

Shapes: P pairs of twins, R draws; an axis of 2 holds the link's system L, then the cue's system C.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xnmt_bench.measuring.bootstrap import Draws, interval, t_interval, weights
from xnmt_bench.measuring.comparing import holm, is_constant
from xnmt_bench.measuring.metric import TableRow

# Of A in L and in C, the last axis. The margin is above 0 where A has the right sign in both.
FUNCTIONS = {
    "advantage_l": lambda of_twins: of_twins[..., 0],
    "advantage_c": lambda of_twins: of_twins[..., 1],
    "response": lambda of_twins: (of_twins[..., 0] - of_twins[..., 1]) / 2,
    "bias": lambda of_twins: of_twins.sum(axis=-1) / 2,
    "margin": lambda of_twins: np.minimum(of_twins[..., 0], -of_twins[..., 1]),
}

ONE_PAIR = (
    "One pair of twins: intervals are by a bootstrap over sentences ({samples:,} samples), and "
    "nothing is known of other trainings; sweep nmt.seed=0,1,2."
)
PAIRS = (
    "{pairs} pairs of twins: 95 % t-intervals over pairs. The CSV also has a two-way bootstrap "
    "over pairs and sentences ({samples:,} samples)."
)


def describe(
    pairs: Sequence[int | str], mean_P2: np.ndarray, drawn_RP2: np.ndarray, draws: Draws
) -> TableRow:
    """Return the columns of a row: A, s, b and the margin, each with its intervals.

    Args:
        pairs: the seed of each, or a name.
        mean_P2: A of each pair.
        drawn_RP2: A of each pair, of sentences drawn alike for all pairs.
        draws: their seed; pairs are drawn too, and have a stream of their own.
    """
    row: TableRow = {"pairs": len(pairs)}
    samples, count, _ = drawn_RP2.shape
    drawn_RP = np.concatenate(weights(count, samples, draws.seed, stream=1))
    for name, of_twins in FUNCTIONS.items():
        values_P = of_twins(mean_P2)
        # Of each pair before the mean over pairs, as the value is: a margin is not linear.
        drawn = interval((drawn_RP * of_twins(drawn_RP2)).sum(axis=1) / count)
        value, *ends = t_interval(values_P) if count > 1 else (values_P[0], *drawn)
        row |= {name: float(value), f"{name}_low": ends[0], f"{name}_high": ends[1]}
        row |= {f"{name}_drawn_low": drawn[0], f"{name}_drawn_high": drawn[1]}
    names = (f"seed {pair}" if isinstance(pair, int) else f"pair {pair}" for pair in pairs)
    by_name = zip(names, mean_P2, strict=True)
    row["by_pair"] = "; ".join(f"{name}: {a:.3f} {c:.3f}" for name, (a, c) in by_name)
    row["p"] = _p(FUNCTIONS["margin"](mean_P2))
    return row


def decide(rows: Sequence[TableRow], together: Sequence[str], level: float) -> None:
    """Say which rows pass, in place.

    Args:
        rows: of `describe`.
        together: the columns that rows share whose p-values are corrected for each other.
        level: of the test over pairs.
    """
    groups: dict[tuple[str, ...], list[TableRow]] = {}
    for row in rows:
        groups.setdefault(tuple(str(row[name]) for name in together), []).append(row)
    for members in groups.values():
        tested = [row for row in members if row["pairs"] > 1]
        for row, p in zip(tested, holm([row["p"] for row in tested]), strict=True):
            row["p_corrected"] = float(p)
        for row in members:
            row.setdefault("p_corrected", float("nan"))
            several = row["pairs"] > 1
            row["passes"] = bool(row["p_corrected"] < level if several else row["margin_low"] > 0)


def pair_notes(rows: Sequence[TableRow], draws: Draws) -> list[str]:
    """Return how intervals were made, of one pair and of several."""
    pairs = sorted({row["pairs"] for row in rows})
    notes = [ONE_PAIR.format(samples=draws.samples)] if pairs[0] == 1 else []
    if pairs[-1] > 1:
        counts = " or ".join(str(count) for count in pairs if count > 1)
        notes.append(PAIRS.format(pairs=counts, samples=draws.samples))
    return notes


def _p(margin_P: np.ndarray) -> float:
    """Return the one-sided p of a t-test over pairs that the margin is above 0; NaN for one.

    Margins that are equal show no spread, and without one there is no evidence: p = 1.
    """
    if len(margin_P) < 2:
        return float("nan")
    if is_constant(margin_P):
        return 1.0
    from scipy import stats  # heavy, and only several pairs are tested

    return float(stats.ttest_1samp(margin_P, 0, alternative="greater").pvalue)
