"""Ranks of units that count several times, and what is computed from them.

Shapes: U units, R weightings of them (a row of ones, or a bootstrap's draws). Every number is that
of the sample in which each unit stands as often as its weight says.
"""

from __future__ import annotations

import numpy as np


def ranks(values_U: np.ndarray, weights_RU: np.ndarray) -> np.ndarray:
    """Return average ranks (R, U) of values; equal values share theirs."""
    # Groups of equal values are the same in every sample; only their sizes change.
    _, group_U = np.unique(values_U, return_inverse=True)
    order = np.argsort(group_U, kind="stable")
    starts = np.flatnonzero(np.diff(group_U[order], prepend=-1))
    size_RG = np.add.reduceat(weights_RU[:, order].astype(np.float64), starts, axis=1)
    # The mean rank of a group that ends at rank c and has n members is c - (n - 1) / 2.
    rank_RG = size_RG.cumsum(1) - (size_RG - 1) / 2
    return rank_RG[:, group_U]


def correlation(x_RU: np.ndarray, y_RU: np.ndarray, weights_RU: np.ndarray) -> np.ndarray:
    """Return Pearson's correlation (R,); NaN where one of the two does not vary."""
    x_RU, y_RU = _centred(x_RU, weights_RU), _centred(y_RU, weights_RU)
    covariance_R = (weights_RU * x_RU * y_RU).sum(1)
    spread_R = np.sqrt((weights_RU * x_RU**2).sum(1) * (weights_RU * y_RU**2).sum(1))
    # What is left of equal numbers is rounding.
    least_R = 1e-9 * weights_RU.sum(1) ** 3
    empty_R = np.full(len(weights_RU), np.nan)
    return np.divide(covariance_R, spread_R, out=empty_R, where=spread_R > least_R)


def spearman(x_U: np.ndarray, y_U: np.ndarray, weights_RU: np.ndarray) -> np.ndarray:
    """Return Spearman's rank correlation (R,)."""
    return correlation(ranks(x_U, weights_RU), ranks(y_U, weights_RU), weights_RU)


def partial_spearman(
    x_U: np.ndarray, y_U: np.ndarray, given_U: np.ndarray, weights_RU: np.ndarray
) -> np.ndarray:
    """Return rho given a third variable: Pearson's of the residuals of ranks (R,)."""
    given_RU = ranks(given_U, weights_RU)
    x_RU, y_RU = (_residual(ranks(z_U, weights_RU), given_RU, weights_RU) for z_U in (x_U, y_U))
    return correlation(x_RU, y_RU, weights_RU)


def _centred(x_RU: np.ndarray, weights_RU: np.ndarray) -> np.ndarray:
    return x_RU - (weights_RU * x_RU).sum(1, keepdims=True) / weights_RU.sum(1, keepdims=True)


def _residual(x_RU: np.ndarray, given_RU: np.ndarray, weights_RU: np.ndarray) -> np.ndarray:
    """Return ranks without the line through the ranks of another variable."""
    x_RU, given_RU = (_centred(z_RU, weights_RU) for z_RU in (x_RU, given_RU))
    spread_R1 = (weights_RU * given_RU**2).sum(1, keepdims=True)
    together_R1 = (weights_RU * given_RU * x_RU).sum(1, keepdims=True)
    slope_R1 = np.divide(together_R1, spread_R1, out=np.zeros_like(spread_R1), where=spread_R1 > 0)
    return x_RU - slope_R1 * given_RU


def auroc(score_U: np.ndarray, positive_U: np.ndarray, weights_RU: np.ndarray) -> np.ndarray:
    """Return the area under the ROC curve (R,): how often a positive unit has the greater score.

    Ties count for half. NaN without positive or without negative units.
    """
    rank_RU = ranks(score_U, weights_RU)
    positives_R = weights_RU @ positive_U.astype(np.float64)
    negatives_R = weights_RU.sum(1) - positives_R
    above_R = (weights_RU * rank_RU) @ positive_U.astype(np.float64)
    # Mann and Whitney's U: less the pairs of positive units among themselves.
    above_R = above_R - positives_R * (positives_R + 1) / 2
    pairs_R = positives_R * negatives_R
    return np.divide(above_R, pairs_R, out=np.full(len(pairs_R), np.nan), where=pairs_R > 0)


def fpr_at(
    recall: float, score_U: np.ndarray, positive_U: np.ndarray, weights_RU: np.ndarray
) -> np.ndarray:
    """Return the share (R,) of negative units that are flagged where `recall` of the positive are.

    Units are flagged from a threshold on, so equal scores are flagged together.
    """
    _, group_U = np.unique(-score_U, return_inverse=True)  # the greatest first
    order = np.argsort(group_U, kind="stable")
    starts = np.flatnonzero(np.diff(group_U[order], prepend=-1))
    shares = []
    for chosen_U in (positive_U, ~positive_U):
        counts_RU = weights_RU * chosen_U
        flagged_RG = np.add.reduceat(counts_RU[:, order].astype(np.float64), starts, axis=1)
        total_R1 = counts_RU.sum(1, keepdims=True).astype(np.float64)
        empty = np.full_like(flagged_RG, np.nan)
        shares.append(np.divide(flagged_RG.cumsum(1), total_R1, out=empty, where=total_R1 > 0))
    true_RG, false_RG = shares
    # Rounding may leave 9 of 10 just below 0.9.
    enough_RG = true_RG >= recall - 1e-12
    first_R = enough_RG.argmax(1)
    found_R = false_RG[np.arange(len(false_RG)), first_R]
    return np.where(enough_RG.any(1), found_R, np.nan)
