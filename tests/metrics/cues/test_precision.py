"""Average precision, recall and chance against definitions written out, and all orders."""

from itertools import permutations

import numpy as np
import pytest

from xnmt_bench.metrics.cues.precision import average_precision, precision_of_chance, recall_at


def by_thresholds(score, marked):
    """Each threshold's precision, times the recall that it adds."""
    total, before = 0.0, 0.0
    for threshold in sorted(set(score), reverse=True):
        called = [m for s, m in zip(score, marked, strict=True) if s >= threshold]
        recall = sum(called) / sum(marked)
        total += (recall - before) * sum(called) / len(called)
        before = recall
    return total


@pytest.mark.parametrize("seed", range(5))
def test_average_precision_is_that_of_the_definition(seed):
    dice = np.random.default_rng(seed)
    # Few values, so that many words share a threshold.
    score, marked = dice.integers(0, 6, 30), dice.random(30) < 0.3
    times = dice.integers(0, 4, (4, 30))
    expected = [by_thresholds(np.repeat(score, t), np.repeat(marked, t)) for t in times]
    assert average_precision(score, marked, times) == pytest.approx(expected)


def test_it_is_1_for_the_marks_and_the_base_rate_for_a_constant():
    marked = np.array([0, 1, 0, 1, 0], dtype=bool)
    ones = np.ones((1, 5))
    assert average_precision(marked.astype(float), marked, ones) == 1
    assert average_precision(np.zeros(5), marked, ones) == pytest.approx(0.4)
    assert np.isnan(average_precision(np.zeros(5), np.zeros(5, dtype=bool), ones))


@pytest.mark.parametrize(("words", "marked"), [(1, 1), (4, 1), (5, 2), (6, 6)])
def test_chance_is_the_mean_over_all_orders(words, marked):
    is_marked, ones = np.arange(words) < marked, np.ones((1, words))
    orders = [
        average_precision(np.array(order), is_marked, ones)[0]
        for order in permutations(range(words))
    ]
    assert precision_of_chance(words, marked) == pytest.approx(np.mean(orders))


@pytest.mark.parametrize("k", range(1, 8))
def test_recall_at_k_is_the_mean_over_the_orders_of_ties(k):
    score, marked = np.array([2, 1, 1, 1, 0, 0]), np.array([0, 1, 0, 1, 1, 0])
    found = []
    for order in permutations(range(6)):
        first = sorted(order, key=lambda word: -score[word])[:k]  # stable: ties as in `order`
        found.append(marked[first].sum() / 3)
    assert recall_at(score, marked, k) == pytest.approx(np.mean(found))
