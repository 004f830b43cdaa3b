"""How much of each word is kept, by its relevance.

Zhao and Aletras (2023) keep each dimension of a word's embedding with a probability that follows
from the word's score. Source and prefix words are scaled apart, since the scores of the two sides
need not compare. Shapes: X words of a side.
"""

from __future__ import annotations

import numpy as np

FLAT = 0.5  # of a side whose words are all as relevant


def scale(relevance_X: np.ndarray) -> np.ndarray:
    """Return relevance between 0 (the least relevant word) and 1 (the most relevant), (X,)."""
    # Without a spread there is nothing to scale by, and half is neither most nor least.
    if is_flat(relevance_X):
        return np.full(len(relevance_X), FLAT)
    lowest = relevance_X.min()
    return np.asarray((relevance_X - lowest) / (relevance_X.max() - lowest))


def is_flat(relevance_X: np.ndarray) -> bool:
    """Return whether all words are as relevant, or there is at most one."""
    return len(relevance_X) < 2 or bool(np.ptp(relevance_X) == 0)


def level(scaled_X: np.ndarray, retention: float) -> np.ndarray:
    """Return probabilities whose mean is a given retention, in the order of the scores, (X,).

    What is too much is taken from each word in proportion to what it keeps, and what is too little
    is given in proportion to what it lacks, so that all stay between 0 and 1. Huang and Chan (2026)
    compare explainers at one expected retention; how it is reached is ours.

    Args:
        scaled_X: from 0 to 1.
        retention: the mean, between 0 and 1.
    """
    if not len(scaled_X):
        return scaled_X
    mean = scaled_X.mean()
    # Scaled down or up from the other end: either way the order of the words stays.
    if mean >= retention:
        return np.asarray(scaled_X * (retention / mean))
    return np.asarray(1 - (1 - scaled_X) * ((1 - retention) / (1 - mean)))
