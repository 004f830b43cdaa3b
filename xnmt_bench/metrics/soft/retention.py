"""How much of each word is kept, by its relevance.

Zhao and Aletras (2023) keep each dimension of a word's embedding with a probability that follows
from the word's score. Source and prefix words are scaled apart, since the scores of the two sides
need not compare.

Shapes: X words of a side; N decisions of one sentence, S source ids, T target ids; K ways to keep
words.
"""

from __future__ import annotations

import numpy as np

from xnmt_bench.rules.table import SentenceRelevance

# By the explainer's scores, and by the same at one retention: the words named kept, and taken away.
KINDS = ("kept", "removed", "level_kept", "level_removed")
Chances = tuple[np.ndarray, np.ndarray]
"""Of each way to keep words, decision and word, to be kept: (K, N, S) and (K, N, T)."""
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


def chances_of(
    relevance: SentenceRelevance, source_S: np.ndarray, target_T: np.ndarray, retention: float
) -> tuple[Chances, np.ndarray, np.ndarray]:
    """Return the chance of each word's dimensions to be kept, in the order of `KINDS`.

    Args:
        relevance: of one sentence, N decisions.
        source_S: its source ids.
        target_T: its target ids.
        retention: what the levelled scores keep on average.

    Returns:
        The chances, (K, N, S) and (K, N, T); the mean chance of a decision's words by their
        scores, (N,); and whether all words of a side are as relevant, (N,).

    Raises:
        NotApplicable: a word that a decision sees has no relevance.
    """
    count = len(relevance.source_TS)
    # 1 for what is kept whole: special symbols, and words that a step does not see.
    source_KNS, target_KNT = (np.ones((len(KINDS), count, len(x))) for x in (source_S, target_T))
    retention_N, flat_N = np.ones(count), np.zeros(count, dtype=bool)
    for n, sides in enumerate(relevance.visible_words(source_S, target_T)):
        scaled = [scale(scores) for _, scores in sides]
        for chances_KNX, (places, _), scaled_X in zip(
            (source_KNS, target_KNT), sides, scaled, strict=True
        ):
            levelled_X = level(scaled_X, retention)
            # What is taken away is what the other keeps, so the chances are turned round.
            chances_KNX[:, n, places] = [scaled_X, 1 - scaled_X, levelled_X, 1 - levelled_X]
        if any(map(len, scaled)):
            retention_N[n] = np.concatenate(scaled).mean()
        # A side of one word has no order to lack.
        flat_N[n] = any(len(scores) > 1 and is_flat(scores) for _, scores in sides)
    return (source_KNS, target_KNT), retention_N, flat_N
