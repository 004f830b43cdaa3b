"""Logistic regression on one predictor, for many weightings of the same units at once."""

from __future__ import annotations

import numpy as np

STEPS, CLOSE = 50, 1e-8
LARGEST = 50.0  # a slope beyond this is that of data which a threshold separates


def slope(
    x_U: np.ndarray, right_U: np.ndarray, count_U: np.ndarray, weights_RU: np.ndarray
) -> np.ndarray:
    """The slope b of log(p / (1 - p)) = a + b x by maximum likelihood (Newton's method).

    Args:
        x_U: the predictor of each unit.
        right_U: right decisions in each.
        count_U: decisions in each.
        weights_RU: how often each unit counts.

    Returns:
        (R,); NaN where the predictor or the decisions do not vary, or a threshold separates them.
    """
    a_R, b_R = (np.zeros(len(weights_RU)) for _ in range(2))
    moved = np.inf
    with np.errstate(all="ignore"):
        for _ in range(STEPS):
            p_RU = 1 / (1 + np.exp(-(a_R[:, None] + b_R[:, None] * x_U)))
            error_RU = weights_RU * (right_U - count_U * p_RU)
            curve_RU = weights_RU * count_U * p_RU * (1 - p_RU)
            first, second = error_RU.sum(1), error_RU @ x_U
            aa, ab, bb = curve_RU.sum(1), curve_RU @ x_U, curve_RU @ x_U**2
            determinant = aa * bb - ab**2
            step_a = (bb * first - ab * second) / determinant
            step_b = (aa * second - ab * first) / determinant
            a_R, b_R, last = a_R + step_a, b_R + step_b, moved
            moved = np.nanmax(np.abs([step_a, step_b]), initial=0.0)
            if moved < CLOSE or (np.isnan(last) and np.isnan(moved)):
                break
    return np.where(np.isfinite(b_R) & (np.abs(b_R) < LARGEST), b_R, np.nan)
