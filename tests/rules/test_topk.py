"""Top-k selection, against a reference that reads as its definition."""

import math

import numpy as np
import pytest

from xnmt_bench.rules.topk import NOTHING, ids_at, top_k

NAN = float("nan")


def naive(relevance, allowed, k):
    """One decision: positions by falling relevance, ties to the leftmost."""
    usable = [i for i, r in enumerate(relevance) if allowed[i] and not math.isnan(r)]
    chosen = sorted(usable, key=lambda i: (-relevance[i], i))[:k]
    missing = k - len(chosen)
    return chosen + [NOTHING] * missing, [relevance[i] for i in chosen] + [NAN] * missing


def chosen(relevance, k, allowed=None):
    row = np.asarray([relevance], dtype=np.float32)
    allowed = np.ones(row.shape, bool) if allowed is None else np.asarray([allowed], bool)
    positions, scores = top_k(row, allowed, k)
    assert positions.shape == scores.shape == (1, k)
    return positions[0].tolist(), scores[0].tolist()


def test_values_are_signed():
    assert chosen([-9.0, 0.5, -0.1, 2.0], 3) == ([3, 1, 2], [2.0, 0.5, pytest.approx(-0.1)])


def test_ties_go_to_the_leftmost():
    assert chosen([1.0, 2.0, 1.0, 2.0, 0.0, -0.0], 6)[0] == [1, 3, 0, 2, 4, 5]


def test_unseen_and_not_allowed_words_are_never_chosen():
    assert chosen([NAN, -5.0, 9.0, NAN], 1, [True, True, False, True]) == ([1], [-5.0])
    positions, scores = chosen([NAN, 7.0], 2, [True, False])
    assert positions == [NOTHING, NOTHING]
    assert np.isnan(scores).all()


@pytest.mark.parametrize("words", [0, 1, 2])
def test_short_rules_are_padded(words):
    positions, scores = chosen([3.0, 1.0][:words], 4)
    assert positions == [0, 1][:words] + [NOTHING] * (4 - words)
    assert np.isnan(scores[words:]).all()


def test_an_infinitely_bad_word_is_still_a_word():
    """Not to be mixed up with a word that cannot be seen."""
    assert chosen([NAN, -math.inf, 1.0], 2) == ([2, 1], [1.0, -math.inf])


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_random_rows_equal_the_reference(k):
    rng = np.random.default_rng(k)
    relevance = rng.integers(-3, 4, (300, 6)).astype(np.float32)  # small numbers tie often
    relevance[rng.random(relevance.shape) < 0.3] = np.nan
    allowed = rng.random(relevance.shape) < 0.8
    positions, scores = top_k(relevance, allowed, k)
    for n in range(len(relevance)):
        expected = naive(relevance[n].tolist(), allowed[n], k)
        assert positions[n].tolist() == expected[0]
        np.testing.assert_array_equal(scores[n], expected[1])


def test_a_smaller_k_is_a_slice():
    relevance = np.random.default_rng(0).integers(0, 4, (50, 8)).astype(float)
    everything = np.ones(relevance.shape, bool)
    large, small = (top_k(relevance, everything, k)[0] for k in (5, 2))
    assert (large[:, :2] == small).all()


def test_ids_at_positions():
    positions = np.array([[2, 0], [1, NOTHING], [NOTHING, NOTHING]])
    ids = ids_at(np.array([7, 8, 9]), positions)
    assert ids.tolist() == [[9, 7], [8, NOTHING], [NOTHING, NOTHING]]
