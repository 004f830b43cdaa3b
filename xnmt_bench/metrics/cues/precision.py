"""How well scores put marked words first: average precision, recall, and what chance gives.

Words of one score share a threshold, as in scikit-learn's `average_precision_score`.
Shapes: N words, R weightings of them.
"""

from __future__ import annotations

import numpy as np

from xnmt_bench.measuring.metric import ratio


def average_precision(
    score_N: np.ndarray, marked_N: np.ndarray, weights_RN: np.ndarray
) -> np.ndarray:
    """Return the mean of the precision over the recall that each threshold adds, (R,).

    Args:
        score_N: of each word; the greater, the earlier.
        marked_N: whether it is to be found.
        weights_RN: how often each word counts.

    Returns:
        NaN where no word is to be found.
    """
    order_N = np.argsort(-score_N, kind="stable")
    # Words of one score are found together: only the last of them is a threshold.
    last_N = np.append(np.diff(score_N[order_N]) != 0, True)
    weights_RN = weights_RN[:, order_N]
    called_RK = weights_RN.cumsum(1)[:, last_N]
    found_RK = (weights_RN * marked_N[order_N]).cumsum(1)[:, last_N]
    added_RK = np.diff(found_RK, prepend=0.0, axis=1)
    precision_RK = np.nan_to_num(ratio(found_RK, called_RK))
    return ratio((precision_RK * added_RK).sum(1), found_RK[:, -1])


def precision_of_chance(words: int, marked: int) -> float:
    """Return the average precision that is expected of a random order without ties.

    At place k a marked word has k - 1 words before it, each of which is marked with the chance
    (marked - 1) / (words - 1).
    """
    place_N = np.arange(1, words + 1)
    chance = (marked - 1) / max(1, words - 1)
    return float(((1 + (place_N - 1) * chance) / place_N).mean())


def recall_at(score_N: np.ndarray, marked_N: np.ndarray, k: int) -> float:
    """Return the share of the marked words among the k first.

    Of the words that share the last place that counts, as many are taken at random as fit.
    """
    if k >= len(score_N):
        return 1.0
    least = np.sort(score_N)[-k]
    above_N, tied_N = score_N > least, score_N == least
    hits = marked_N[above_N].sum() + marked_N[tied_N].mean() * (k - above_N.sum())
    return float(hits / marked_N.sum())
