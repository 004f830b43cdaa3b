"""How the rankings of two metrics agree."""

from itertools import combinations

import numpy as np
import pytest

from support.example_rows import AER, FIDELITY, SYSTEM, decisions, measured
from xnmt_bench.analyses.agreement import Agreement, kendall_tau
from xnmt_bench.analyses.systems import Systems
from xnmt_bench.corpora.formats.alignment import Alignment
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.metric import Column, Key, SumMetric
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.aer.counts import count_links
from xnmt_bench.metrics.aer.metric import AER as AlignmentErrorRate
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import collect

SENTENCES = 40
USUAL = "teacher_forcing"
# As in conf/analysis/agreement.yaml.
FIXED = {"instantiation": "sa", "scenario": USUAL, "learned_from": USUAL, "k": 1,
         "prefix": "chosen", "alignment": "forward", "unaligned": "skip"}  # fmt: skip
THREE = {"a": (1.0, 9), "b": (0.5, 6), "c": (0.0, 3)}
SENTENCE_N = np.repeat(np.arange(SENTENCES), 3)


def log_likelihoods(quality, seed=0, noise=0.05):
    """Three decisions a sentence; better quality, better log-likelihood."""
    return np.random.default_rng(seed).normal(0, noise, len(SENTENCE_N)) - 2 + quality


def counts(right, test_set="toy test"):
    """`right` of ten links of each sentence are right; or, of an array, of each its own."""
    gold = Alignment(*[frozenset((i, i) for i in range(10))] * 2)
    rights = np.broadcast_to(right, SENTENCES).tolist()
    links = [frozenset((i, i if i < n else i + 20) for i in range(10)) for n in rights]
    return count_links(test_set, range(SENTENCES), links, [gold] * SENTENCES)


class Results:
    """A results folder to write rows of both metrics to."""

    def __init__(self, folder):
        self.folder = folder

    def ppl(
        self, name, log_p, units=None, model="m0", test_set="toy test", blind=False, **row_keys
    ):
        identity = FIDELITY | {"instantiation": "sa", "explainer": name, "seed": ""} | row_keys
        units = units or decisions(SENTENCE_N, log_p, test_set=test_set)
        return measured(Fidelity, self.folder, identity, units, model, blind=blind)

    def aer(self, name, right, units=None, model="m0", test_set="toy test", **row_keys):
        identity = AER | {"explainer": name} | row_keys
        return measured(
            AlignmentErrorRate, self.folder, identity, units or counts(right, test_set), model
        )

    def both(self, explainers):
        """From {name: (quality, right links)}."""
        for name, (quality, right) in explainers.items():
            self.ppl(name, log_likelihoods(quality))
            self.aer(name, right)

    def agreement(self, *metrics, **options):
        by_metric = {}
        for metric in metrics or (Fidelity(), AlignmentErrorRate()):
            rows = collect(metric, self.folder, Draws(20, 0))
            by_metric[metric.name] = panels(metric, rows)
        options = {"fixed": FIXED, "samples": 200} | options
        every = dict(Agreement(**options).results(by_metric))
        every.pop("agreement", None)  # the matrix, where there are three rankings
        [(name, result)] = every.items()
        return name, result

    def rows(self, **options):
        return self.agreement(**options)[1].rows

    def lines(self, **options):
        """From each name its cells: a value and a place of both metrics."""
        _, result = self.agreement(**options)
        texts = [[cell.text for cell in line.cells] for line in result.summary.lines]
        return {text[-5]: text[-4:] for text in texts}


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path)


def matrix_of(results, *metrics):
    """The matrix of all rankings, the last of the results."""
    by_metric = {}
    for metric in metrics or (Fidelity(), AlignmentErrorRate()):
        by_metric[metric.name] = panels(metric, collect(metric, results.folder, Draws(20, 0)))
    *_, (name, result) = Agreement(fixed=FIXED, samples=200).results(by_metric)
    assert name == "agreement"
    return result


def test_a_matrix_has_every_judge_and_metric(results):
    """Base ranks as AER does, SA in reverse; EVAL-X knows but two of three explainers."""
    for place, (name, (quality, right)) in enumerate(THREE.items()):
        results.ppl(name, log_likelihoods(quality), instantiation="base")
        results.ppl(name, log_likelihoods(-quality), instantiation="sa")
        if place:
            results.ppl(name, log_likelihoods(quality), instantiation="evalx_sa")
        results.aer(name, right)
        results.ppl("blind", log_likelihoods(0.7), instantiation="base", blind=True)
    result = matrix_of(results)
    taus = {frozenset((row["first"], row["second"])): row for row in result.rows}
    expected = {("fidelity base", "aer"): 1, ("fidelity sa", "aer"): -1,
                ("fidelity base", "fidelity sa"): -1}  # fmt: skip
    assert taus.keys() == set(map(frozenset, expected))
    for pair, tau in expected.items():
        row = taus[frozenset(pair)]
        assert [row["tau"], row["tau_low"], row["tau_high"]] == [tau] * 3
        assert row["ranked"] == 3
    texts = [[cell.text for cell in line.cells] for line in result.summary.lines]
    assert len(texts) == 3
    assert [row[2 + i] for i, row in enumerate(texts)] == [""] * 3
    assert all(texts[i][2 + j] == texts[j][2 + i] for i in range(3) for j in range(3))
    assert result.figure is not None


def test_two_systems_of_one_name_are_never_mixed(results):
    """Both judges rank in reverse on the second system, which AER was not asked about."""
    for name, (quality, right) in THREE.items():
        for judge in ("base", "sa"):
            results.ppl(name, log_likelihoods(quality), instantiation=judge, model="m1")
            results.ppl(name, log_likelihoods(-quality), instantiation=judge, model="m2")
        results.aer(name, right, model="m1")
    result = matrix_of(results)
    assert {row["model"] for row in result.rows} == {"m1"}
    assert [row["tau"] for row in result.rows] == [1.0] * 3
    assert any("fidelity base: k=1" in note for note in result.summary.notes)


def test_a_matrix_alone_is_an_answer(results):
    for name, (quality, _) in THREE.items():
        for judge in ("base", "sa", "fn"):
            results.ppl(name, log_likelihoods(quality), instantiation=judge)
    assert len(matrix_of(results, Fidelity()).rows) == 3


def test_base_alone_learns_from_nothing_and_is_in_the_matrix(results):
    nothing = {"instantiation": "base", "learned_from": "", "train_sentences": ""}
    ones = np.ones(SENTENCES, dtype=np.int64)
    for name, (quality, right) in THREE.items():
        results.ppl(name, log_likelihoods(quality), **nothing)
        results.aer(name, right)
        units = Units("toy test", np.arange(SENTENCES), {"hit": right * ones, "words": 10 * ones})
        measured(Hits, results.folder, SYSTEM | {"explainer": name, "seed": ""}, units)
    rows = matrix_of(results, Fidelity(), AlignmentErrorRate(), Hits()).rows
    assert {name for row in rows for name in (row["first"], row["second"])} == {
        "fidelity base",
        "aer",
        "hits",
    }


def test_a_doubtful_agreement_stands_in_brackets(results):
    for name, right in {"a": 6, "b": 6, "c": 5}.items():
        drawn = np.random.default_rng(ord(name)).integers(0, 10, SENTENCES)
        results.aer(name, drawn)
        for judge in ("base", "sa"):
            results.ppl(name, log_likelihoods(right - 60, noise=9), instantiation=judge)
    texts = [cell.text for line in matrix_of(results).summary.lines for cell in line.cells[2:]]
    rows = {row["second"]: row for row in matrix_of(results).rows}
    assert any(row["tau_low"] <= 0 <= row["tau_high"] for row in rows.values())
    assert sum(text.startswith("(") for text in texts) == 2 * sum(
        row["tau_low"] <= 0 <= row["tau_high"] for row in matrix_of(results).rows
    )


def test_kendalls_tau_is_that_of_every_pair():
    first, second = np.random.default_rng(0).integers(0, 4, (2, 6, 50))
    for sample, tau in enumerate(kendall_tau(first, second)):
        agreed = 0
        for i, j in combinations(range(6), 2):
            way = (first[i] - first[j])[sample] * (second[i] - second[j])[sample]
            agreed += int(np.sign(way))
        assert tau == pytest.approx(agreed / 15)


@pytest.mark.parametrize(
    ("explainers", "tau", "same_order_share"),
    [
        ({"a": (1.0, 9), "b": (0.5, 6), "c": (0.0, 3)}, 1.0, 1.0),
        ({"a": (1.0, 3), "b": (0.5, 6), "c": (0.0, 9)}, -1.0, 0.0),
        ({"a": (1.0, 6), "b": (0.5, 9), "c": (0.0, 3)}, 1 / 3, 0.0),
    ],
)
def test_agreement_of_rankings(results, explainers, tau, same_order_share):
    results.both(explainers)
    name, result = results.agreement()
    assert name == "fidelity_aer_agreement"
    [row] = result.rows
    assert [row[c] for c in ("tau", "tau_low", "tau_high")] == pytest.approx([tau] * 3)
    assert (row["same"], row["ranked"], row["paired"]) == (same_order_share, 3, True)
    lines = results.lines()
    assert list(lines) == ["a", "b", "c"]  # by the first metric
    assert [line[1] for line in lines.values()] == ["1", "2", "3"]
    by_aer = sorted("abc", key=lambda name: -explainers[name][1])
    assert [lines[name][3] for name in by_aer] == ["1", "2", "3"]
    for explainer, (quality, right) in explainers.items():
        ppl = np.exp(-log_likelihoods(quality).mean())
        assert lines[explainer][::2] == [f"{ppl:.2f}", f"{10 * (10 - right):.1f}"]
    note = result.summary.notes[1]
    assert (
        f"Kendall's tau {tau:.2f} [{tau:.2f}, {tau:.2f}] over 3; {100 * same_order_share:.0f} %"
        in note
    )
    assert note.startswith("toy en-de transformer: ")
    assert "independently" not in note


def test_the_same_as_one_sample_after_the_other(results):
    rng = np.random.default_rng(1)
    qualities = {"a": (0.2, 0.5), "b": (0.1, 0.52), "c": (0.0, 0.48), "d": (0.05, 0.5)}
    log_p = {
        name: [log_likelihoods(quality, 10 * n + seed, 1.0) for seed in range(2)]
        for n, (name, (quality, _)) in enumerate(qualities.items())
    }
    rights = {name: rng.binomial(10, p, SENTENCES) for name, (_, p) in qualities.items()}
    for name, right in rights.items():
        results.aer(name, right)
        for seed, log_q in enumerate(log_p[name]):
            results.ppl(name, log_q, seed=seed)
    [row] = results.rows(samples=100, seed=5)

    def rankings(weight):
        words = weight[SENTENCE_N]
        ppl = [np.mean([np.exp(-(words * log_q).sum() / words.sum()) for log_q in log_p[n]])
               for n in "abcd"]  # fmt: skip
        aer = [1 - (weight * rights[n]).sum() / (10 * weight.sum()) for n in "abcd"]
        return ppl, aer

    def tau(ppl, aer):
        pairs = [np.sign((ppl[i] - ppl[j]) * (aer[i] - aer[j])) for i, j in
                 combinations(range(4), 2)]  # fmt: skip
        return np.mean(pairs)

    draw = np.random.default_rng(5)
    drawn = np.concatenate([draw.multinomial(SENTENCES, np.full(SENTENCES, 1 / SENTENCES), size=n)
                            for n in (64, 36)])  # fmt: skip
    taus = [tau(*rankings(weight)) for weight in drawn]
    assert row["tau"] == pytest.approx(tau(*rankings(np.ones(SENTENCES))))
    assert [row["tau_low"], row["tau_high"]] == pytest.approx(np.percentile(taus, [2.5, 97.5]))
    orders = [[[sum(y < value for y in x) for value in x] for x in rankings(w)] for w in drawn]
    assert row["same"] == pytest.approx(np.mean([a == b for a, b in orders]))
    assert 0 < row["same"] < 1
    assert len(set(np.round(taus, 6))) > 3


def test_what_only_one_metric_has_is_fixed_and_named(results):
    results.both(THREE)
    _, result = results.agreement()
    note = result.summary.notes[1]
    for part in ("instantiation=sa", "k=1", "train_sentences=900", f"scenario={USUAL}"):
        assert part in note.partition("aer")[0]
    assert "aer (alignment=forward, unaligned=skip)" in note
    shared = ("corpus", "lang_pair", "nmt", "model")
    assert result.identity[:4] == shared
    assert {c: result.rows[0][c] for c in shared} == SYSTEM | {"model": "m0"}
    assert result.rows[0]["k"] == 1 and result.rows[0]["alignment"] == "forward"


def test_other_scenarios_are_not_pooled(results):
    results.both(THREE)
    [alone] = results.rows()
    results.ppl("a", log_likelihoods(-9.0), scenario="golden")
    results.ppl("a", log_likelihoods(-9.0), learned_from="golden")
    results.ppl("a", log_likelihoods(-9.0), instantiation="base")
    results.ppl("a", log_likelihoods(-9.0), k=2)
    results.aer("a", 0, alignment="union")
    assert results.rows() == [alone]


def test_of_several_sizes_the_greatest_counts(results):
    results.both(THREE)
    for name, quality in (("a", 0.0), ("b", 0.5), ("c", 1.0)):
        results.ppl(name, log_likelihoods(quality), train_sentences=10000)
    [row] = results.rows()
    assert (row["train_sentences"], row["tau"]) == (10000, pytest.approx(-1))
    [row] = results.rows(fixed=FIXED | {"train_sentences": 900})
    assert (row["train_sentences"], row["tau"]) == (900, pytest.approx(1))


def test_of_several_sizes_the_greatest_of_each_system_counts(results):
    results.both(THREE)
    for name, (quality, right) in THREE.items():
        results.ppl(name, log_likelihoods(-quality), nmt="other", model="m1", train_sentences=10000)
        results.aer(name, right, nmt="other", model="m1")
    size_and_tau = {row["nmt"]: (row["train_sentences"], row["tau"]) for row in results.rows()}
    assert size_and_tau == {
        "transformer": (900, pytest.approx(1)),
        "other": (10000, pytest.approx(-1)),
    }


def test_each_system_is_joined_with_itself(results):
    results.both(THREE)
    for name, (quality, right) in THREE.items():
        results.ppl(name, log_likelihoods(quality), model="m1")
        results.aer(name, 10 - right, model="m1")
        results.ppl(name, log_likelihoods(quality), corpus="other")  # without AER
    tau_of_system = {(row["corpus"], row["model"]): row["tau"] for row in results.rows()}
    assert tau_of_system == {("toy", "m0"): pytest.approx(1), ("toy", "m1"): pytest.approx(-1)}


def test_what_only_one_metric_knows_is_left_out(results):
    results.both(THREE)
    results.ppl("d", log_likelihoods(2.0))
    results.aer("diagonal", 5, nmt="", model="")
    assert list(results.lines()) == ["a", "b", "c"]


def test_two_things_agree_by_chance_and_are_not_ranked(results):
    results.both(THREE)
    assert len(results.rows()) == 1
    with pytest.raises(NotApplicable, match="3 rows in common"):
        results.rows(fixed=FIXED | {"k": 2})
    results.ppl("b", log_likelihoods(0.5), blind=True)
    with pytest.raises(NotApplicable, match="3 rows in common"):
        results.rows()


def test_blind_explainers_are_not_ranked(results):
    results.both(THREE | {"random": (-1.0, 0)})
    assert results.rows()[0]["ranked"] == 4
    results.ppl("random", log_likelihoods(-1.0), blind=True)
    assert list(results.lines()) == ["a", "b", "c"]
    assert results.rows()[0]["ranked"] == 3


def test_one_metric_alone_agrees_with_nothing(results):
    results.both(THREE)
    with pytest.raises(NotApplicable):
        results.agreement(Fidelity())


def test_what_has_no_number_is_not_ranked(results):
    results.both(THREE | {"d": (0.2, 8)})
    results.aer("d", 8).path.unlink()
    assert list(results.lines()) == ["a", "b", "c"]


def test_only_sentences_that_both_judged_count(results):
    results.both(THREE)
    results.aer("a", 9, counts(9).take(np.arange(5)))
    lines = results.lines()
    for name, (quality, _) in THREE.items():
        first_five = np.exp(-log_likelihoods(quality, noise=0.05)[:15].mean())
        assert lines[name][0] == f"{first_five:.2f}"
    ppl_of_all = np.exp(-log_likelihoods(1.0).mean())
    assert f"{ppl_of_all:.2f}" != lines["a"][0]  # or else nothing would be tested here


def test_seeds_are_averaged(results):
    results.both(THREE)
    results.ppl("a", log_likelihoods(1.0), seed=0)
    results.ppl("a", log_likelihoods(-3.0, 1), seed=1)  # on average the worst
    results.ppl("a", log_likelihoods(1.0), seed="")
    results.aer("a", 9, seed=0)
    lines = results.lines()
    mean = np.mean([np.exp(-log_likelihoods(*of).mean()) for of in ((1.0,), (-3.0, 1), (1.0,))])
    assert lines["a"] == [f"{mean:.2f}", "3", "10.0", "1"]


def test_different_test_sets_are_drawn_independently(results):
    # In each sentence either both find b better than a, or neither does.
    rng = np.random.default_rng(2)
    better = rng.normal(0, 1, SENTENCES)
    log_p = {"a": 0 * better - 1, "b": better - 1, "c": 0 * better - 5}
    right = {"a": np.full(SENTENCES, 5), "b": np.where(better > 0, 9, 1), "c": 0}
    for name in log_p:
        results.ppl(name, None, decisions(np.arange(SENTENCES), log_p[name] - 10))
        results.aer(name, right[name])
    [paired] = results.rows()
    for name in log_p:
        results.aer(name, right[name], test_set="another test")
    _, result = results.agreement()
    # Both rows of AER are there, and the one of the other test set is named.
    [independent] = [row for row in result.rows if not row["paired"]]
    assert len(result.rows) == 2
    assert any("test set: another test" in note for note in result.summary.notes)
    assert (paired["paired"], independent["paired"]) == (True, False)
    assert independent["tau"] == paired["tau"]
    assert independent["same"] < paired["same"] - 0.1
    [note] = [n for n in result.summary.notes if "another test" in n]
    assert "drawn independently: they share no units." in note
    names = {row["second"] for row in matrix_of(results).rows}
    assert names == {f"aer (test set: {of})" for of in ("toy test", "another test")}


class Hits(SumMetric):
    """A metric of explainers, of which higher is better."""

    name = "hits"
    title = "Hits"
    note = "Share of words that were hit."
    keys = (Key("explainer", "explainer"), Key("seed", "seed"))
    columns = (Column.higher("hits", "hits"),)

    def measure(self, job):
        return iter(())

    def of_sums(self, sums_R):
        return {"hits": sums_R["hit"] / sums_R["words"]}


def test_higher_is_better_where_it_is(results):
    results.both(THREE)
    for name, hit in (("a", 9), ("b", 5), ("c", 1)):  # a is the best by all three
        ones = np.ones(SENTENCES, dtype=np.int64)
        units = Units("toy test", np.arange(SENTENCES), {"hit": hit * ones, "words": 10 * ones})
        measured(Hits, results.folder, SYSTEM | {"explainer": name, "seed": ""}, units)
    name, result = results.agreement(Fidelity(), Hits())
    assert name == "fidelity_hits_agreement"
    assert result.rows[0]["tau"] == pytest.approx(1)
    texts = [[cell.text for cell in line.cells][-4:] for line in result.summary.lines]
    assert [text[1::2] for text in texts] == [["1", "1"], ["2", "2"], ["3", "3"]]
    # The ranking negates these values; the table must not.
    assert [text[2] for text in texts] == ["0.90", "0.50", "0.10"]
    assert result.summary.headings[-4:] == ["PPL", "place", "hits", "place"]
    both = {m.name: panels(m, collect(m, results.folder, Draws(20, 0)))
            for m in (Fidelity(), AlignmentErrorRate(), Hits())}  # fmt: skip
    names = [name for name, _ in Agreement(FIXED, samples=20).results(both)]
    of_pairs = ["fidelity_aer_agreement", "fidelity_hits_agreement", "aer_hits_agreement"]
    assert names == [*of_pairs, "agreement"]


class Right(Hits):
    """The same of systems."""

    name = "right"
    keys = ()
    compared = "nmt"


class Good(Right):
    """Another metric of systems."""

    name = "good"


def test_systems_are_ranked_too(results):
    for place, name in enumerate("abc"):
        for metric in (Right, Good):
            measured(metric, results.folder, SYSTEM | {"nmt": name}, hits(place), model=name)
    name, result = results.agreement(Right(), Good())
    assert name == "right_good_agreement"
    assert result.rows[0]["tau"] == pytest.approx(1)
    assert [line.cells[1].text for line in result.summary.lines] == ["c", "b", "a"]
    assert "explainer" not in result.summary.headings
    results.both(THREE)
    with pytest.raises(NotApplicable):
        results.agreement(Right(), Fidelity())  # nothing that both compare


def test_values_of_a_column_that_both_have_stand_apart(results):
    """The line and the note say which it is, and `fixed` chooses one."""

    class Other(Fidelity):
        name = "other"

    for k in (1, 2):
        for place, name in enumerate("abc"):
            identity = FIDELITY | {"instantiation": "sa", "explainer": name, "seed": "", "k": k}
            sign = 1 if k == 1 else -1
            for metric in (Fidelity, Other):
                quality = place if metric is Fidelity else sign * place
                units = decisions(SENTENCE_N, log_likelihoods(0.3 * quality))
                measured(metric, results.folder, identity, units)
    _, result = results.agreement(Fidelity(), Other(), fixed={})
    assert [row["tau"] for row in result.rows] == [pytest.approx(1), pytest.approx(-1)]
    systems = [line.cells[0].text for line in result.summary.lines]
    assert systems == ["toy en-de transformer, k=1"] * 3 + ["toy en-de transformer, k=2"] * 3
    _, result = results.agreement(Fidelity(), Other(), fixed={"k": 2})
    assert [(row["k"], row["tau"]) for row in result.rows] == [(2, pytest.approx(-1))]


def test_systems_of_one_name_that_two_metrics_measured_are_two(results):
    for metric, trained in ((Right, "long"), (Good, "short")):
        for place, name in enumerate("abc"):
            units = hits(place)
            model = f"{trained}{name}"
            measured(metric, results.folder, SYSTEM | {"nmt": name}, units, model=model)
    with pytest.raises(NotApplicable):
        results.agreement(Right(), Good())
    by_metric = {
        metric.name: panels(metric, collect(metric, results.folder, Draws(9, 0)))
        for metric in (Right(), Good())
    }
    [(_, result)] = Systems().results(by_metric)
    names = [line.cells[0].text for line in result.summary.lines]
    assert names == ["a longa", "a shorta", "b longb", "b shortb", "c longc", "c shortc"]
    assert len({(row["metric"], row["nmt"]) for row in result.rows}) == 6


def hits(place):
    ones = np.ones(SENTENCES, dtype=np.int64)
    return Units("toy test", np.arange(SENTENCES), {"hit": place * ones, "words": 9 * ones})
