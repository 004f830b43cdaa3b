"""Rank stability, against a loop that draws one sample after the other."""

import numpy as np
import pytest

from support.example_rows import FIDELITY, SYSTEM, decisions, lineage, measured
from xnmt_bench.analyses.rank_stability import RankStability, stability
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.metric import Column, SumMetric, ratio
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import collect

SENTENCES = 40
SENTENCE_N = np.repeat(np.arange(SENTENCES), np.arange(SENTENCES) % 3 + 1)
MEANS = {"a": -1.0, "b": -1.3, "c": -1.6}
FAMILY = ("fn", "rn", "sa")


def log_likelihoods(mean, noise=1.0, seed=0):
    """Log-likelihoods around a mean, one to three decisions a sentence."""
    return mean - 10 + noise * np.random.default_rng(seed).standard_normal(len(SENTENCE_N))


def made(results, log_p, test_set="toy test", **identity):
    units = decisions(SENTENCE_N, log_p, test_set=test_set)
    return measured(Fidelity, results, FIDELITY | identity, units, valid_loss=1.0)


def family(results, noise):
    """Log-likelihoods of three explainers by every instantiation, each of which is written."""
    by_instantiation = {
        i: {e: log_likelihoods(m, noise, 10 * n + j) for n, (e, m) in enumerate(MEANS.items())}
        for j, i in enumerate(("base", *FAMILY))
    }
    for instantiation, by_name in by_instantiation.items():
        for explainer, log_p in by_name.items():
            made(results, log_p, explainer=explainer, instantiation=instantiation)
    return by_instantiation


def rates(results, metric=None, **options):
    """The rate at each result and share, and each result's order."""
    metric = metric or Fidelity()
    result = RankStability(**options).analyse(panels(metric, collect(metric, results, Draws(9, 0))))
    return (
        {(row["result"], row["share"]): row["rate"] for row in result.rows},
        {row["result"]: row["order"] for row in result.rows},
    )


def test_orders_are_of_the_systems_that_all_share(tmp_path):
    """The first system is harder; `b` is worse there, and would be best without its second row."""
    for training, shift in enumerate((0.0, -3.0)):
        for explainer, mean in (("a", -1.0), ("b", -1.5)):
            if (explainer, training) != ("b", 1):
                units = decisions(SENTENCE_N, log_likelihoods(mean + shift, 0.01))
                identity, facts = FIDELITY | {"explainer": explainer}, lineage(training)
                measured(Fidelity, tmp_path, identity, units, f"m{training}", **facts)
    rate, order = rates(tmp_path)
    assert set(order.values()) == {"a < b"} and set(rate.values()) == {1.0}


def perplexity(log_p, counts=None):
    weight = np.ones(len(log_p)) if counts is None else counts[SENTENCE_N]
    return np.exp(-(weight * log_p).sum() / weight.sum())


def drawn(size, samples, seed):
    """Samples of some size, in blocks, as a second implementation has to draw them."""
    rng = np.random.default_rng(seed)
    blocks = [min(64, samples - start) for start in range(0, samples, 64)]
    return np.concatenate(
        [rng.multinomial(size, np.full(SENTENCES, 1 / SENTENCES), size=rows) for rows in blocks]
    )


def test_far_apart_is_always_and_alike_is_by_chance(tmp_path):
    family(tmp_path / "apart", 0.001)
    rate_of, orders = rates(tmp_path / "apart", shares=(0.05, 1.0), samples=200)
    results = ("base", *FAMILY, "comb")
    assert rate_of == {(i, share): 1.0 for i in results for share in (0.05, 1.0)}
    assert orders == dict.fromkeys(results, "a < b < c")
    for seed, explainer in enumerate("abc"):
        made(tmp_path / "alike", log_likelihoods(-1.0, 1.0, seed), explainer=explainer)
    alike, _ = rates(tmp_path / "alike", shares=(0.05, 1.0), samples=500)
    assert {result for result, _ in alike} == {"fn"}  # nothing to combine
    assert alike["fn", 0.05] < 0.6
    assert alike["fn", 0.05] < alike["fn", 1.0] < 1


def test_the_same_as_one_sample_after_the_other(tmp_path):
    log_p, samples = family(tmp_path, 1.5), 100
    rate_of, orders = rates(tmp_path, shares=(0.2,), samples=samples, seed=3)

    # Comb is chosen once, on the whole test set, and what was chosen is resampled.
    chosen = {e: min(FAMILY, key=lambda i, e=e: perplexity(log_p[i][e])) for e in MEANS}
    assert len(set(chosen.values())) > 1
    log_p["comb"] = {e: log_p[chosen[e]][e] for e in MEANS}

    def order(instantiation, counts=None):
        log_p_of = log_p[instantiation]
        return [e for _, e in sorted((perplexity(log_p_of[e], counts), e) for e in MEANS)]

    counts = drawn(8, samples, 3)
    assert {c.sum() for c in counts} == {8}
    for instantiation in ("base", *FAMILY, "comb"):
        whole_order = order(instantiation)
        rate = np.mean([order(instantiation, c) == whole_order for c in counts])
        assert rate_of[instantiation, 0.2] == pytest.approx(rate)
        assert 0 < rate < 1
        assert orders[instantiation] == " < ".join(whole_order)


def test_seeds_are_averaged(tmp_path):
    seeds = {"a": (-1.0, -2.0), "b": (-1.2, -1.2)}
    rows = {
        name: [made(tmp_path, log_likelihoods(mean, 0.01, n), explainer=name, seed=n)
               for n, mean in enumerate(means)]
        for name, means in seeds.items()
    }  # fmt: skip
    # exp(1) and exp(2) are on average worse than exp(1.2).
    assert stability(Fidelity(), rows, 1.0, Draws(50, 0)) == 1.0
    rate_of, orders = rates(tmp_path, shares=(1.0,), samples=50)
    assert (rate_of, orders) == ({("fn", 1.0): 1.0}, {"fn": "b < a"})


def test_seeds_are_averaged_in_each_sample(tmp_path):
    log_p_of = {name: [log_likelihoods(-1.0, 1.0, 10 * n + seed) for seed in range(2)]
           for n, name in enumerate("ab")}  # fmt: skip
    rows = {name: [made(tmp_path, log_p, explainer=name, seed=n) for n, log_p in enumerate(of)]
            for name, of in log_p_of.items()}  # fmt: skip
    rate = stability(Fidelity(), rows, 0.5, Draws(100, 1))

    def first_wins(counts=None):
        means = [np.mean([perplexity(log_p, counts) for log_p in log_p_of[name]]) for name in "ab"]
        return means[0] <= means[1]

    first_wins_on_all = first_wins()
    assert rate == np.mean(
        [first_wins(counts) == first_wins_on_all for counts in drawn(20, 100, 1)]
    )
    assert 0 < rate < 1


def test_only_what_every_result_has_is_ranked(tmp_path):
    family(tmp_path, 0.001)
    made(tmp_path, log_likelihoods(-0.5, 0.001), explainer="d", instantiation="base")
    _, orders = rates(tmp_path, shares=(1.0,), samples=20)
    assert set(orders.values()) == {"a < b < c"}
    _, orders = rates(tmp_path, explainers=["b", "a", "unknown"], shares=(1.0,), samples=20)
    assert set(orders.values()) == {"a < b"}
    with pytest.raises(NotApplicable, match="fewer than two rows can be ranked"):
        rates(tmp_path, explainers=["a"], shares=(1.0,), samples=20)


def test_a_judge_of_one_explainer_takes_no_other_away(tmp_path):
    family(tmp_path, 0.001)
    made(tmp_path, log_likelihoods(-0.5, 0.001), explainer="a", instantiation="evalx_sa@8000")
    _, orders = rates(tmp_path, shares=(1.0,), samples=20)
    assert orders == dict.fromkeys(("base", *FAMILY, "comb"), "a < b < c")


def test_things_on_different_test_sets_are_drawn_independently(tmp_path):
    log_p = {name: log_likelihoods(-1.0, 1.0, n) for n, name in enumerate("ab")}
    rows = {
        name: [made(tmp_path, name_log_p, f"test of {name}", explainer=name)]
        for name, name_log_p in log_p.items()
    }
    rate = stability(Fidelity(), rows, 0.5, Draws(100, 2))
    a_wins_on_all = perplexity(log_p["a"]) < perplexity(log_p["b"])
    both = zip(drawn(20, 100, 2), drawn(20, 100, [2, 1]), strict=True)
    expected = np.mean(
        [(perplexity(log_p["a"], a) < perplexity(log_p["b"], b)) == a_wins_on_all for a, b in both]
    )
    assert rate == expected
    assert 0 < rate < 1


class Accuracy(SumMetric):
    """A metric of systems, of which higher is better."""

    name = "accuracy"
    title = "Accuracy"
    note = "Share of right words."
    columns = (Column.higher("accuracy", "accuracy"),)
    compared = "nmt"

    def measure(self, job):
        return iter(())

    def of_sums(self, sums_R):
        return {"accuracy": ratio(sums_R["right"], sums_R["words"])}


def share(results, name, right, words):
    """A system whose first sentences have right words among their words, and others none."""
    sums = {"right": np.zeros(SENTENCES), "words": np.zeros(SENTENCES)}
    for column, first in zip(sums.values(), (right, words), strict=True):
        column[: len(first)] = first
    units = Units("toy test", np.arange(SENTENCES), sums)
    return [measured(Accuracy, results, SYSTEM | {"nmt": name}, units, model=name)]


@pytest.mark.parametrize(("better", "worse"), ["ab", "ba"])
def test_rates_do_not_depend_on_names(tmp_path, better, worse):
    """A sample in which both tie ranks otherwise, and one without words ranks nothing."""
    # They differ in the first sentence and tie in the second; the other sentences have no words.
    rows = {better: share(tmp_path, better, [3, 1], [4, 4]),
            worse: share(tmp_path, worse, [1, 1], [4, 4])}  # fmt: skip
    firsts = [counts[:2] for counts in drawn(4, 300, 0) if counts[:2].any()]
    assert 0 < len(firsts) < 300
    rate = stability(Accuracy(), dict(sorted(rows.items())), 0.1, Draws(300, 0))
    assert rate == pytest.approx(np.mean([first > 0 for first, _ in firsts]))


def test_a_tie_of_the_whole_test_set_is_shown(tmp_path):
    for name, right in (("a", 1), ("b", 1), ("c", 3)):
        share(tmp_path, name, [right], [4])
    _, orders = rates(tmp_path, Accuracy(), shares=(1.0,), samples=9)
    assert orders == {"": "c < a = b"}


def test_samples_without_a_number_have_no_rate(tmp_path):
    rows = {name: share(tmp_path, name, [], []) for name in "ab"}
    assert np.isnan(stability(Accuracy(), rows, 1.0, Draws(9, 0)))


def test_systems_are_ranked_from_the_highest_where_higher_is_better(tmp_path):
    rng, right = np.random.default_rng(0), {}
    for name, share in (("weak", 0.2), ("strong", 0.5), ("middle", 0.45)):
        right[name] = rng.binomial(10, share, SENTENCES)
        units = Units("toy test", np.arange(SENTENCES),
                      {"right": right[name], "words": np.full(SENTENCES, 10)})  # fmt: skip
        measured(Accuracy, tmp_path, SYSTEM | {"nmt": name}, units, model=name)
    metric = Accuracy()
    metric_panels = panels(metric, collect(metric, tmp_path, Draws(9, 0)))
    # What is compared are systems, so a choice of explainers leaves none of them out.
    result = RankStability(explainers=["attention"], shares=(0.1, 1.0), samples=100).analyse(
        metric_panels
    )
    by_share = {row["share"]: row for row in result.rows}
    assert by_share[1.0]["order"] == "strong < middle < weak"
    for share, size in ((0.1, 4), (1.0, 40)):
        sums = [[(c * right[name]).sum() for name in by_share[1.0]["order"].split(" < ")]
                for c in drawn(size, 100, 0)]  # fmt: skip
        order_kept = [strong > middle > weak for strong, middle, weak in sums]
        assert by_share[share]["rate"] == pytest.approx(np.mean(order_kept))
        assert by_share[share]["result"] == ""
    assert by_share[0.1]["rate"] < by_share[1.0]["rate"]
    assert "order the systems" in result.summary.notes[0]
    assert result.summary.lines[0].cells[0].text == "accuracy"
