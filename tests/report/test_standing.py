"""Explainers against every blind row: the test by exchange, its corrections, and its words."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from support.example_rows import FIDELITY, decisions, measured
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.comparing import compare, t_test
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import collect
from xnmt_bench.report.standing import compare_with_blind

SENTENCES = 60
DRAWS = Draws(400, 0)
RNG = np.random.default_rng(0)
HARD = -RNG.gamma(2.0, 1.0, SENTENCES) - 5  # a log-likelihood is at most 0, with what is added too


def noise(scale=0.05):
    return scale * RNG.standard_normal(SENTENCES)


@pytest.fixture
def write(tmp_path):
    """Writes a row with one decision a sentence."""

    def write_row(explainer, log_p, blind=False, seed=1, model="m0"):
        keys = FIDELITY | {"explainer": explainer, "seed": seed}
        units = decisions(range(len(log_p)), log_p)
        return measured(Fidelity, tmp_path, keys, units, model=model, **{"blind": blind})

    return write_row


def standings(results):
    metric = Fidelity()
    [panel] = panels(metric, collect(metric, results, Draws(20, 0)))
    return compare_with_blind(panel, "fn", DRAWS)


def test_the_p_value_is_that_of_all_exchanges(write):
    """Of few sentences every way to exchange the two can be gone through."""
    first, second = HARD[:10], HARD[:10] - np.array([0.5, 0.1, 0.3, -0.2, 0.4, 0.2, 0.6, 0, 0.3, 1])
    difference = first - second
    signs = np.array(list(product([1, -1], repeat=10)))
    exact = (np.abs(signs @ difference) >= np.abs(difference.sum()) - 1e-12).mean()
    rows = write("a", first), write("b", second)
    comparison = compare(Fidelity(), [rows[0]], [rows[1]], Draws(20000, 0))
    assert comparison.p == pytest.approx(exact, abs=0.01)
    assert compare(Fidelity(), [rows[1]], [rows[0]], Draws(20000, 0)).p == comparison.p


def test_better_is_better_than_all_and_worse_than_one_is_worse(write, tmp_path):
    write("clear", HARD + 0.5 + noise())
    write("between", HARD + noise())
    write("lost", HARD - 1 + noise())
    write("lexicon", HARD + 0.2 + noise(), blind=True)
    write("random", HARD - 0.6 + noise(), blind=True)
    standing_of = standings(tmp_path)
    assert {name: s.word for name, s in standing_of.items()} == {
        "clear": "better",
        "between": "worse",  # better than random, and worse than the lexicon
        "lost": "worse",
    }
    assert standing_of["clear"].against == standing_of["between"].against == "lexicon"
    assert standing_of["clear"].difference.effect == pytest.approx(np.exp(-0.3), abs=0.05)


def test_what_is_ahead_by_chance_is_not_told_apart(write, tmp_path):
    wide = noise(1.0)
    write("near", HARD + wide - wide.mean() + 0.02)
    write("lexicon", HARD, blind=True)
    standing = standings(tmp_path)["near"]
    assert (standing.word, standing.against) == ("alike", "lexicon")
    assert standing.difference.effect < 1 and standing.p > 0.05


def test_p_values_are_corrected_for_the_number_of_explainers(write, tmp_path):
    shifts = 0.3 * RNG.standard_normal(SENTENCES)
    shifts += 0.08 - shifts.mean()  # a p-value of about 0.03
    write("one", HARD + shifts)
    write("lexicon", HARD, blind=True)
    alone = standings(tmp_path)["one"]
    for number in range(5):
        write(f"like {number}", HARD + RNG.permutation(noise(1.0)))
    among = standings(tmp_path)["one"]
    assert among.p > 2 * alone.p


def test_few_common_sentences_are_not_tested(write, tmp_path):
    write("short", HARD[:12])
    write("lexicon", HARD, blind=True)
    standing = standings(tmp_path)["short"]
    assert (standing.word, standing.units, standing.difference) == ("untested", 12, None)


def test_a_difference_within_the_spread_of_seeds_is_none(write, tmp_path):
    for seed, shift in enumerate((0.5, 0.0, -0.3)):
        write("drawn", HARD + 0.1 + shift + noise(0.01), seed=seed)
    write("lexicon", HARD, blind=True)
    assert standings(tmp_path)["drawn"].word == "alike"


def test_without_a_blind_row_nothing_stands(write, tmp_path):
    write("clear", HARD)
    assert standings(tmp_path) == {}


def test_of_several_trainings_the_training_is_the_unit(write):
    gains = [0.2, 0.3, 0.25]
    rows = [[], []]
    for number, gain in enumerate(gains):
        rows[0].append(write("clear", HARD + gain, model=f"m{number}"))
        rows[1].append(write("lexicon", HARD, blind=True, model=f"m{number}"))
    comparison = compare(Fidelity(), *rows, DRAWS)
    assert comparison.systems == 3
    expected = stats.ttest_1samp([-gain for gain in gains], 0)
    assert comparison.p == pytest.approx(expected.pvalue)
    low, high = np.exp(expected.confidence_interval(0.95))
    assert (comparison.low, comparison.high) == pytest.approx((low, high))


def test_no_spread_is_no_evidence():
    assert t_test([0.3, 0.3, 0.3]) == 1.0
    assert t_test([0.3]) == 1.0
