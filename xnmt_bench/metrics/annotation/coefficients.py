"""Coefficients of agreement, weighted by how often a bootstrap draws each item.

Beside them, how well an explainer's relevance finds the words that people chose.

Shapes: U items, R weightings of them, P people, C answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from xnmt_bench.measuring.metric import ratio

MISSING = ""
# Of people's words compared with relevance.
SUMS = ("agreement", "average_precision", "hit_1", "hit_3")


def masi(first: frozenset[int], second: frozenset[int]) -> float:
    """Return the MASI distance of two sets, 1 - Jaccard x monotonicity (Passonneau 2006).

    Monotonicity is 1 for equal sets, 2/3 where one holds the other, 1/3 where they only overlap,
    and 0 for disjoint ones. Two empty sets are equal.
    """
    # Two empty sets are equal; the ratio below would be 0 / 0.
    if first == second:
        return 0.0
    shared = first & second
    if not shared:
        return 1.0
    monotonicity = 2 / 3 if first <= second or second <= first else 1 / 3
    return 1 - monotonicity * len(shared) / len(first | second)


def as_set(answer: str) -> frozenset[int]:
    """Return the numbers of an answer; none for a dash, which means no word."""
    return frozenset(int(number) for number in answer.split() if number.isdigit())


def masi_of_answers(first: str, second: str) -> float:
    """Return the MASI distance of two answers that are sets of words."""
    return masi(as_set(first), as_set(second))


def sets_differ(first: str, second: str) -> float:
    """Return 1 for answers that are not the same set of words, else 0."""
    return float(as_set(first) != as_set(second))


def differ(first: str, second: str) -> float:
    """Return the nominal distance of two answers."""
    return float(first != second)


def pairwise_agreement(
    answers_PU: Sequence[np.ndarray],
    weights_RU: np.ndarray,
    distance: Callable[[str, str], float] = differ,
) -> np.ndarray:
    """Return the mean of 1 - distance over all pairs of answers to one item, (R,)."""
    # Sums of an item do not depend on how often it is drawn: the slow loop runs once, not R times.
    agreed, pairs = np.zeros(weights_RU.shape[1]), np.zeros(weights_RU.shape[1])
    for first_U, second_U in combinations(answers_PU, 2):
        for item, (first, second) in enumerate(zip(first_U, second_U, strict=True)):
            if first != MISSING and second != MISSING:
                agreed[item] += 1 - distance(first, second)
                pairs[item] += 1
    return ratio(weights_RU @ agreed, weights_RU @ pairs)


def cohen_kappa(first_U: np.ndarray, second_U: np.ndarray, weights_RU: np.ndarray) -> np.ndarray:
    """Return Cohen's kappa (1960) of two people's nominal answers, (R,).

    (p_o - p_e) / (1 - p_e): p_o is the share of items with one answer, p_e that of two people who
    answer by chance, each with the shares of their own answers. Items that one of them left out do
    not count. NaN where both give one and the same answer to all.
    """
    answered_U = (first_U != MISSING) & (second_U != MISSING)
    choices_C = np.array(sorted({*first_U[answered_U], *second_U[answered_U]}), object)
    # One row a person and item, all zeros where either left the item out: it then adds nothing to
    # any product below.
    first_UC, second_UC = (
        ((answers_U[:, None] == choices_C) & answered_U[:, None]).astype(float)
        for answers_U in (first_U, second_U)
    )
    items_R = weights_RU @ answered_U.astype(float)
    observed_R = ratio(weights_RU @ (first_UC * second_UC).sum(1), items_R)
    shares = [ratio(weights_RU @ side_UC, items_R[:, None]) for side_UC in (first_UC, second_UC)]
    # Chance agreement is that of the draw: a sample with rarer answers expects another one.
    expected_R = (shares[0] * shares[1]).sum(1)
    return ratio(observed_R - expected_R, 1 - expected_R)


def krippendorff_alpha(
    answers_PU: Sequence[np.ndarray],
    weights_RU: np.ndarray,
    distance: Callable[[str, str], float] = differ,
) -> np.ndarray:
    """Return Krippendorff's alpha (2011), by the package `krippendorff`, (R,).

    1 - D_o / D_e: the mean distance of answers to one item over that of answers to any items.
    People may leave items out. NaN where all answers are one and the same, and everywhere without
    the package.

    Args:
        answers_PU: of each person, (U,).
        weights_RU: how often each item counts.
        distance: of two answers.
    """
    nothing_R = np.full(len(weights_RU), np.nan)
    try:
        # An extra: its licence, GPLv3, is not this project's.
        from krippendorff import alpha
    except ImportError:
        return nothing_R
    # Sorted, so that the order of the files does not change the last digits.
    values = sorted({str(answer) for answers_U in answers_PU for answer in answers_U} - {MISSING})
    if len(values) < 2:
        return nothing_R
    values_C = np.array(values, object)
    counts_UC = sum((answers_U[:, None] == values_C).astype(np.int64) for answers_U in answers_PU)
    distances_CC = np.array([[distance(a, b) for b in values] for a in values])

    # The package passes values, their places and their counts. Its own distances need numbers;
    # answers are texts, so their places look the distance up.
    def of_values(v1: Any, v2: Any, i1: Any, i2: Any, n_v: Any, dtype: Any = np.float64) -> Any:
        return distances_CC[i1, i2].astype(dtype)

    def of_weights(weights_U: np.ndarray) -> float:
        # The package knows no weights of items, so an item that was drawn twice stands there twice.
        drawn_NC = np.repeat(counts_UC, weights_U.astype(np.int64), axis=0)
        # An answer without another to its item has no pair, and counts as expected neither.
        pairable_NC = drawn_NC[drawn_NC.sum(1) > 1]
        # With only one answer the expected distance is 0.
        if (pairable_NC.sum(0) > 0).sum() < 2:
            return float("nan")
        return float(alpha(value_counts=pairable_NC, level_of_measurement=of_values))

    return np.array([of_weights(weights_U) for weights_U in weights_RU])


def compare_with_relevance(chosen: frozenset[int], relevance_S: np.ndarray) -> tuple[float, ...]:
    """Return how well relevance finds the words that a person chose; see `SUMS`.

    Words are ranked by signed relevance, ties to the leftmost. `agreement` is the share of the
    person's n words among the n greatest (R-precision), `average_precision` the mean, over the
    person's words, of the precision down to that word, and hit@k says whether one of the k greatest
    words is the person's.

    Args:
        chosen: numbers of words, from 1; not empty.
        relevance_S: of each word.
    """
    # Stable, so that ties go to the leftmost as in rules; plus 1, since sheets number words from 1.
    order = np.argsort(-relevance_S, kind="stable") + 1
    hits_S = np.isin(order, list(chosen))
    precision_S = np.cumsum(hits_S) / np.arange(1, len(order) + 1)
    return (
        # As many words as the person chose: precision and recall are then the same number.
        float(hits_S[: len(chosen)].mean()),
        float(precision_S[hits_S].sum() / len(chosen)),
        float(hits_S[:1].any()),
        float(hits_S[:3].any()),
    )


def sum_over_people(answers: Sequence[frozenset[int]], relevance_S: np.ndarray) -> np.ndarray:
    """Return the sums of `SUMS` over the people who chose words, and how many these are: (5,)."""
    sums = np.zeros(len(SUMS) + 1)
    for chosen in answers:
        # R-precision of no words is 0 / 0; a person who found no deciding word is left out.
        if chosen:
            sums += np.array([*compare_with_relevance(chosen, relevance_S), 1.0])
    return sums
