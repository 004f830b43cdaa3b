"""Top-k words of a decision (Li et al. 2020, section 3.1)."""

from __future__ import annotations

import numpy as np

NOTHING = -1  # id and position of a place that no word fills


def top_k(
    relevance_NX: np.ndarray, allowed_NX: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k words of greatest signed relevance, ties to the leftmost.

    Args:
        relevance_NX: one row a decision, one column a word; NaN where a word cannot be seen.
        allowed_NX: False for words that may not enter a rule (BOS, EOS, padding).
        k: words to keep.

    Returns:
        Positions (N, k), NOTHING where there are fewer words, and their relevance, NaN there.
    """
    short = ((0, 0), (0, max(0, k - relevance_NX.shape[1])))  # rows of fewer than k words
    scores = np.pad(relevance_NX, short, constant_values=np.nan)
    usable = np.pad(allowed_NX, short) & ~np.isnan(scores)
    # The sort is stable, so ties stay in reading order; whether a word may be used comes first.
    order = np.lexsort((np.where(usable, -scores, np.inf), ~usable), axis=1)[:, :k]
    missing = ~np.take_along_axis(usable, order, axis=1)
    kept = np.where(missing, np.nan, np.take_along_axis(scores, order, axis=1))
    return np.where(missing, NOTHING, order), kept


def ids_at(ids_X: np.ndarray, positions_NK: np.ndarray) -> np.ndarray:
    """Return the ids at positions, NOTHING where there is none."""
    # -1 would read the last id; place 0 is read in its stead and thrown away.
    return np.where(positions_NK == NOTHING, NOTHING, ids_X[np.maximum(positions_NK, 0)])
