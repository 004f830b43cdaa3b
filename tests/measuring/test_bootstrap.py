"""Perplexity of decisions and its bootstrap."""

import math
import random

import numpy as np
import pytest

from xnmt_bench.errors import XnmtError
from xnmt_bench.judges import Judge
from xnmt_bench.measuring.bootstrap import (
    BLOCK,
    Draws,
    average_systems,
    interval,
    resample,
    resample_ratios,
    weights,
)
from xnmt_bench.measuring.metric import Column
from xnmt_bench.measuring.units import Units, by_unit
from xnmt_bench.metrics.consistency import Consistency
from xnmt_bench.metrics.consistency.statistics import statistics
from xnmt_bench.metrics.fidelity import Fidelity, metric


def units_of(*sentences):
    """Units from each sentence's log-likelihoods."""
    numbers = np.asarray([7 * n for n, sentence in enumerate(sentences) for _ in sentence])
    values = np.asarray([value for sentence in sentences for value in sentence], dtype=float)
    return Units("a test set", *by_unit(numbers, log_likelihood=values, correct=values > -1))


def perplexity(units, samples, seed):
    """Value, lower and upper end."""
    ppl = resample(Fidelity(), units, Draws(samples, seed))["ppl"]
    assert len(ppl) == 1 + samples
    return (float(ppl[0]), *interval(ppl[1:]))


def random_sentences(sentences=40):
    rng = np.random.default_rng(0)
    # Long sentences are harder, so that a bootstrap has to weigh them right.
    return [(-rng.random(n) * n).tolist() for n in rng.integers(1, 12, sentences)]


def test_perplexity_by_hand():
    units = units_of([math.log(1 / 2), math.log(1 / 8)], [math.log(1 / 4)])
    scores = Fidelity().score(units, np.array([[1, 1], [0, 3], [2, 1]]))
    expected = [4, 4, (2 * 8 * 2 * 8 * 4) ** (1 / 5)]
    assert scores["ppl"] == pytest.approx(expected)
    assert scores["accuracy"] == pytest.approx([1 / 3, 0, 2 / 5])
    assert scores["decisions"].tolist() == [3, 3, 5]
    value, low, high = perplexity(units, 50, 0)
    assert low <= value <= high
    assert Fidelity().headline.cell(value, low, high).startswith("4.00 [")


class Surprise(Judge):
    """A plug-in's judge with a result of its own."""

    name, heading, place = "surprise", "surprise", 80
    result_columns = (Column("surprise", "surprise", title="Surprise"),)
    csv_only = ("surprise_valid",)

    def log_likelihood(self, rules):
        raise NotImplementedError


def test_a_judge_brings_results_of_its_own(monkeypatch):
    monkeypatch.setattr(metric, "installed_judges", lambda: [Surprise])
    fidelity = Fidelity()
    assert [column.name for column in fidelity.columns][:3] == ["ppl", "surprise", "accuracy"]
    assert fidelity.csv_only == ("surprise_valid",)
    log_p, sentence_N = np.log([0.5, 0.25, 0.125]), np.array([0, 0, 1])
    surprise_N = np.array([1.0, 2.0, 6.0])
    sums = by_unit(sentence_N, log_likelihood=log_p, surprise=surprise_N)
    scores = fidelity.score(Units("", *sums), np.array([[1, 1], [2, 1]]))
    assert scores["surprise"].tolist() == [3, (1 + 2 + 1 + 2 + 6) / 5]
    assert "kl" not in scores


def test_two_results_of_one_name_are_refused(monkeypatch):
    class Clash(Surprise):
        result_columns = (Column("ppl", "another"),)

    monkeypatch.setattr(metric, "installed_judges", lambda: [Clash])
    with pytest.raises(
        XnmtError, match="its column 'ppl' has the name of another column of fidelity"
    ):
        Fidelity()


def naive_interval(sentences, samples, seed):
    """The bootstrap as a textbook writes it."""
    draw, values = random.Random(seed), []
    for _ in range(samples):
        drawn = [x for sentence in draw.choices(sentences, k=len(sentences)) for x in sentence]
        values.append(math.exp(-sum(drawn) / len(drawn)))
    values.sort()
    return values[round(0.025 * samples)], values[round(0.975 * samples)]


def test_the_interval_equals_a_naive_bootstrap():
    sentences = random_sentences()
    value, found_low, found_high = perplexity(units_of(*sentences), 4000, 1)
    low, high = naive_interval(sentences, 4000, 2)
    width = high - low
    assert width > 0.1 * value  # or the tolerance would hide anything
    assert found_low == pytest.approx(low, abs=0.06 * width)
    assert found_high == pytest.approx(high, abs=0.06 * width)


def test_each_draw_is_the_perplexity_of_the_drawn_sentences():
    sentences = random_sentences()
    ppl = resample(Fidelity(), units_of(*sentences), Draws(100, 3), drawn=9)["ppl"]
    drawn = np.concatenate(list(weights(len(sentences), 100, 3, drawn=9)))
    assert (drawn.sum(1) == 9).all()
    for drawn_ppl, counts in zip(ppl[1:], drawn, strict=True):
        repeated = [x for n, s in zip(counts, sentences, strict=True) for x in s * n]
        assert drawn_ppl == pytest.approx(math.exp(-np.mean(repeated)))


def test_sentences_are_resampled_not_decisions():
    """Decisions differ but sentences are alike: nothing depends on which of them are drawn."""
    value, low, high = perplexity(units_of(*[[-1.0, -3.0]] * 20), 200, 0)
    assert low == pytest.approx(value) == high
    # Sentences differ but each one's decisions are alike: the interval is that of few sentences.
    sentences = [[-1.0] * 50, [-3.0] * 50] * 5
    _, *wide = perplexity(units_of(*sentences), 500, 0)
    _, *narrow = perplexity(units_of(*[[x] for sentence in sentences for x in sentence]), 500, 0)
    assert wide[1] - wide[0] > 4 * (narrow[1] - narrow[0])


@pytest.mark.parametrize("samples", [1, BLOCK - 1, BLOCK, 2 * BLOCK + 3])
def test_the_interval_is_reproducible(samples):
    units = units_of(*random_sentences())
    assert perplexity(units, samples, 5) == perplexity(units, samples, 5)
    assert perplexity(units, samples, 5)[1] != perplexity(units, samples, 6)[1]


def test_streams_are_independent_draws_of_one_seed():
    first, again, other = (
        np.concatenate(list(weights(30, 200, 0, stream=stream))) for stream in (0, 0, 1)
    )
    assert (first == again).all()
    assert abs(np.corrcoef(first.ravel(), other.ravel())[0, 1]) < 0.1


def test_a_row_without_units_has_as_many_samples_as_others():
    """So that it can stand beside them in a joint bootstrap."""
    nothing = units_of([-1.0]).take(np.zeros(0, dtype=np.int64))
    ppl = resample(Fidelity(), nothing, Draws(70, 0))["ppl"]
    assert ppl.shape == (71,) and np.isnan(ppl).all()


def test_blocks_that_draw_nothing_of_a_result_have_no_number_of_it():
    """Small samples of a suite may hold no sentence of which the resolver says anything."""
    of_resolver = ("resolvable", "resolved", "both_decide", "we_decide", "resolver_decides")
    names = (*statistics([], []), *of_resolver)
    columns = {name: np.zeros(100) for name in names}
    columns["both_decide"][:3] = 1
    units = Units("a suite", np.arange(100), columns)
    samples = resample(Consistency(), units, Draws(1000, 0), drawn=1)
    rare = samples["resolver_there"]
    assert np.isfinite(rare[0]) and len(rare) == 1001
    assert 0 < np.isnan(rare[1:]).sum() < 1001


def test_a_draw_without_a_number_is_left_out_of_the_interval():
    samples = np.array([1.0, np.nan, 3.0, 2.0])
    assert interval(samples) == interval(samples[[0, 2, 3]])
    assert np.isnan(interval(np.array([np.nan, np.nan]))).all()


def test_ratios_of_several_rows_share_their_draws():
    """Units of either row are drawn; one that a row lacks counts nothing in it."""
    draws = Draws(50, 0)
    first = np.array([3, 3, 9]), np.array([1.0, 2.0, 4.0]), np.array([2.0, 2.0, 2.0])
    second = np.array([9, 5]), np.array([4.0, 6.0]), np.array([2.0, 1.0])
    ratio_2R = resample_ratios([first, second], draws)
    assert ratio_2R[:, 0].tolist() == [7 / 6, 10 / 3]
    [weight_RU] = weights(3, 50, 0)  # of units 3, 5 and 9
    three, five, nine = weight_RU.T
    with np.errstate(invalid="ignore"):
        expected = [
            (3 * three + 4 * nine) / (4 * three + 2 * nine),
            (6 * five + 4 * nine) / (five + 2 * nine),
        ]
    np.testing.assert_allclose(ratio_2R[:, 1:], expected)


def test_systems_are_averaged_and_not_all_seeds():
    values = [np.array([1.0, 0.0]), np.array([3.0, 0.0]), np.array([8.0, 4.0])]
    assert average_systems(values, ["a", "a", "b"]).tolist() == [5.0, 2.0]
