"""Rank statistics of weighted units, beside the same of samples written out."""

import numpy as np
import pytest

from xnmt_bench.analyses.ranks import auroc, fpr_at, partial_spearman, ranks, spearman

N = 60


@pytest.fixture(scope="module")
def drawn():
    generator = np.random.default_rng(0)
    x = generator.integers(0, 9, N).astype(float)  # with ties
    y, z = x + generator.normal(size=N) * 4, generator.integers(0, 6, N).astype(float)
    positive = generator.random(N) < 0.3
    weights = np.vstack([np.ones(N), generator.multinomial(N, np.full(N, 1 / N), 8)])
    return x, y, z, positive, weights


def slow_ranks(values):
    return np.array([(values < v).sum() + ((values == v).sum() + 1) / 2 for v in values])


def samples(weights):
    return (np.repeat(np.arange(N), row.astype(int)) for row in weights)


def test_ranks(drawn):
    x, _, _, _, weights = drawn
    for row, chosen in zip(ranks(x, weights), samples(weights), strict=True):
        assert row[chosen].tolist() == slow_ranks(x[chosen]).tolist()


def test_correlations(drawn):
    x, y, z, _, weights = drawn
    raw, partial = spearman(x, y, weights), partial_spearman(x, y, z, weights)
    for n, chosen in enumerate(samples(weights)):
        a, b, c = (slow_ranks(values[chosen]) for values in (x, y, z))
        assert raw[n] == pytest.approx(np.corrcoef(a, b)[0, 1], abs=1e-12)
        residuals = [v - np.polyval(np.polyfit(c, v, 1), c) for v in (a, b)]
        assert partial[n] == pytest.approx(np.corrcoef(*residuals)[0, 1], abs=1e-10)


def test_what_does_not_vary_has_no_correlation(drawn):
    x, y, z, _, weights = drawn
    assert np.isnan(spearman(np.ones(N), y, weights)).all()
    assert np.isnan(partial_spearman(z, y, z, weights)).all()
    assert np.isnan(partial_spearman(2 * z + 1, y, z, weights)).all()
    assert partial_spearman(x, x, z, weights) == pytest.approx(1)


def test_detection(drawn):
    x, _, _, positive, weights = drawn
    area, flagged = auroc(x, positive, weights), fpr_at(0.9, x, positive, weights)
    for n, chosen in enumerate(samples(weights)):
        hits, rest_x = x[chosen][positive[chosen]], x[chosen][~positive[chosen]]
        pairs = [(a > b) + (a == b) / 2 for a in hits for b in rest_x]
        assert area[n] == pytest.approx(np.mean(pairs), abs=1e-12)
        thresholds = sorted(set(x[chosen]), reverse=True)
        least = next(t for t in thresholds if (hits >= t).mean() >= 0.9)
        assert flagged[n] == pytest.approx((rest_x >= least).mean(), abs=1e-12)


def test_without_both_kinds_nothing_is_detected(drawn):
    x, _, _, _, weights = drawn
    for positive in (np.zeros(N, dtype=bool), np.ones(N, dtype=bool)):
        assert np.isnan(auroc(x, positive, weights)).all()
    assert np.isnan(fpr_at(0.9, x, np.zeros(N, dtype=bool), weights)).all()
