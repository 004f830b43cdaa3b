"""Logistic regression on one predictor, for many weightings of the same decisions at once."""

from __future__ import annotations

import numpy as np

# Newton's steps about double the exact digits each time, so that 50 are ample.
STEPS, CLOSE = 50, 1e-8
STILL = 1e-3  # a last step below this is that of a regression that converges
LARGEST = 50.0  # a slope beyond this is that of data which a threshold separates


def slope(x_D: np.ndarray, right_D: np.ndarray, weights_RD: np.ndarray) -> np.ndarray:
    """Return the slope b of log(p / (1 - p)) = a + b x by maximum likelihood (Newton's method).

    Args:
        x_D: the predictor of each decision.
        right_D: 1 where it is right, 0 where not.
        weights_RD: how often each decision counts.

    Returns:
        (R,); NaN where the predictor or the decisions do not vary, or a threshold separates them.
    """
    a_R, b_R = (np.zeros(len(weights_RD)) for _ in range(2))
    # A singular sample divides by 0; its NaN is the answer.
    with np.errstate(all="ignore"):
        for _ in range(STEPS):
            # All R regressions take each step together: one product instead of a thousand small
            # fits.
            p_RD = 1 / (1 + np.exp(-(a_R[:, None] + b_R[:, None] * x_D)))
            error_RD = weights_RD * (right_D - p_RD)
            curve_RD = weights_RD * p_RD * (1 - p_RD)
            first, second = error_RD.sum(1), error_RD @ x_D
            aa, ab, bb = curve_RD.sum(1), curve_RD @ x_D, curve_RD @ x_D**2
            determinant = aa * bb - ab**2  # of the 2 x 2 Hessian
            step_a = (bb * first - ab * second) / determinant
            step_b = (aa * second - ab * first) / determinant
            a_R, b_R = a_R + step_a, b_R + step_b
            moved_R = np.abs([step_a, step_b]).max(0)
            # NaN moves no more: it also ends where no regression is left that converges.
            if not (moved_R >= CLOSE).any():
                break
    # Where a threshold separates the decisions, each step goes as far as the one before.
    converged_R = np.isfinite(b_R) & (np.abs(b_R) < LARGEST) & (moved_R < STILL)
    return np.where(converged_R, b_R, np.nan)
