"""Paired bootstrap, Holm's correction, the spread of seeds and the normalised score."""

import numpy as np
import pytest

from xnmt_bench.metrics.normalised import normalised
from xnmt_bench.metrics.perplexity import DecisionScores
from xnmt_bench.metrics.significance import holm, paired, spread


def scores(log_p):
    number = np.arange(len(log_p))
    return DecisionScores(number, 0 * number, np.asarray(log_p, dtype=float), number > 0)


@pytest.fixture
def hard():
    """How hard each of 200 sentences is: what makes a paired test sharper than two intervals."""
    return -np.random.default_rng(0).gamma(2.0, 1.0, 200)


def test_a_small_difference_on_the_same_sentences_is_seen(hard):
    noise = 0.05 * np.random.default_rng(1).standard_normal(200)
    found = paired([scores(hard)], [scores(hard - 0.05 + noise)], 1000, 0)
    assert found.ratio == pytest.approx(np.exp(-0.05), abs=0.01)
    assert found.low < found.ratio < found.high < 1
    assert found.p == pytest.approx(2 / 1001)
    back = paired([scores(hard - 0.05 + noise)], [scores(hard)], 1000, 0)
    assert back.ratio == pytest.approx(1 / found.ratio)
    assert back.p == found.p


def test_no_difference_is_no_difference(hard):
    noise = np.random.default_rng(2).standard_normal(200)
    assert paired([scores(hard)], [scores(hard + noise - noise.mean())], 1000, 0).p > 0.5
    same = paired([scores(hard)], [scores(hard)], 100, 0)
    assert (same.ratio, same.p) == (1.0, 1.0)


def test_p_values_are_uniform_where_nothing_differs():
    rng, found = np.random.default_rng(3), []
    for _ in range(200):
        first, second = rng.standard_normal((2, 100))
        found.append(paired([scores(first)], [scores(second)], 200, 0).p)
    assert 0.01 < np.mean(np.asarray(found) < 0.05) < 0.11
    assert 0.4 < np.mean(found) < 0.6


def test_holms_correction_by_hand():
    # 0.01 * 4, then 0.02 * 3 = 0.06, then 0.03 * 2 = 0.06, then 0.5 * 1.
    assert holm([0.02, 0.5, 0.01, 0.03]) == pytest.approx([0.06, 0.5, 0.04, 0.06])
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    assert holm([0.04]) == pytest.approx([0.04])


def test_the_spread_of_seeds(hard):
    assert spread([scores(hard)]) == 1
    assert spread([scores(hard), scores(hard - 0.1), scores(hard + 0.2)]) == pytest.approx(
        np.exp(0.3)
    )


def test_the_normalised_score_is_0_at_random_and_1_at_the_model(hard):
    random, nmt, half = scores(hard - 4), scores(hard), scores(hard - 2)
    for own, expected in ((random, 0.0), (nmt, 1.0), (half, 0.5)):
        # The same sentences are drawn for all three.
        assert normalised([own], [random], nmt, 100, 0) == pytest.approx([expected] * 3)
    noisy = scores(hard - 2 + np.random.default_rng(4).standard_normal(200))
    value, low, high = normalised([noisy], [random], nmt, 500, 0)
    assert low < value < high
