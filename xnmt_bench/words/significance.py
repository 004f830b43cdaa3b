"""Significant weights over the words of a sentence (Dinarelli et al. 2024, section 3.3)."""

from __future__ import annotations

import numpy as np

ROUNDING = 1e-5  # relative: uniform weights that were rounded are still uniform


def significant(weights_IN: np.ndarray, whole_matrix: bool = False) -> np.ndarray:
    """Drop insignificant weights, and scale the others so that the greatest is 1.

    A weight at or below 1/N is dropped, which a uniform distribution over the N words would give.

    Args:
        weights_IN: raw weights of I words over the N words of one context sentence.
        whole_matrix: divide by the greatest weight of the matrix, not of each row.
    """
    if not weights_IN.size:
        return weights_IN
    kept = np.where(weights_IN > (1 + ROUNDING) / weights_IN.shape[1], weights_IN, 0.0)
    greatest = kept.max() if whole_matrix else kept.max(axis=1, keepdims=True)
    return np.divide(kept, greatest, out=np.zeros_like(kept), where=greatest > 0)
