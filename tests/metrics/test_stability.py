"""Rank stability, against a loop that draws one sample after the other."""

import numpy as np
import pytest

from xnmt_bench.metrics.perplexity import DecisionScores
from xnmt_bench.metrics.stability import rank_stability

SENTENCES = 40


def scores(mean, noise=1.0, seed=0, lengths=None):
    """Log-likelihoods around a mean, one to three decisions a sentence."""
    rng = np.random.default_rng(seed)
    lengths = np.arange(SENTENCES) % 3 + 1
    sentence = np.repeat(np.arange(SENTENCES), lengths)
    log_p = mean + noise * rng.standard_normal(len(sentence))
    return DecisionScores(sentence, np.zeros_like(sentence), log_p, log_p > mean)


def family(noise):
    return {
        i: {e: [scores(m, noise, 10 * n + j)] for n, (e, m) in enumerate(
            {"a": -1.0, "b": -1.3, "c": -1.6}.items())}
        for j, i in enumerate(("base", "fn", "rn", "sa"))
    }  # fmt: skip


def test_far_apart_is_always_and_alike_is_by_chance():
    apart = rank_stability(family(0.001), (0.05, 1.0), 200, seed=0)
    assert apart == {i: [1.0, 1.0] for i in ("base", "fn", "rn", "sa", "comb")}
    one = [scores(-1.0, 1.0, seed) for seed in range(3)]
    alike = rank_stability(
        {"fn": dict(zip("abc", ([s] for s in one), strict=True))}, (0.05, 1.0), 500, 0
    )
    assert set(alike) == {"fn"}  # nothing to combine
    assert alike["fn"][0] < 0.6
    assert alike["fn"][0] < alike["fn"][1] < 1


def test_the_same_as_one_sample_after_the_other():
    made, samples = family(1.5), 100
    found = rank_stability(made, (0.2,), samples, seed=3)

    def order(instantiations, counts):
        def perplexity(s):
            weight = counts[s.sentence_N]
            return np.exp(-(weight * s.log_likelihood_N).sum() / weight.sum())

        return [
            e for _, e in sorted(
                (min(perplexity(made[i][e][0]) for i in instantiations), e) for e in "abc"
            )
        ]  # fmt: skip

    rng, drawn = np.random.default_rng(3), []
    for rows in (64, 36):
        drawn += list(rng.multinomial(8, np.full(SENTENCES, 1 / SENTENCES), size=rows))
    assert {c.sum() for c in drawn} == {8}
    for name, family_of in {"base": ["base"], "fn": ["fn"], "comb": ["fn", "rn", "sa"]}.items():
        whole = order(family_of, np.ones(SENTENCES))
        rate = np.mean([order(family_of, counts) == whole for counts in drawn])
        assert found[name] == [pytest.approx(rate)]
        assert 0 < rate < 1


def test_seeds_are_averaged():
    better, worse = scores(-1.0, 0.01), scores(-2.0, 0.01)
    made = {"sa": {"a": [better, worse], "b": [scores(-1.2, 0.01)] * 2}}
    assert rank_stability(made, (1.0,), 50, 0) == {"sa": [1.0]}
    # exp(1) and exp(2) are on average worse than exp(1.2).
    from xnmt_bench.metrics.perplexity import resampled

    weights = np.ones((1, SENTENCES))
    assert resampled([better, worse])(weights)[0] == pytest.approx(
        (better.perplexity + worse.perplexity) / 2
    )
