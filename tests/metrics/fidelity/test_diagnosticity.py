"""Diagnosticity: pairs that a judge orders as the causes do, counted by hand."""

import numpy as np
import pytest
import scipy.stats

from support.example_rows import FIDELITY, SYSTEM, measured
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.causes import Causes
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.fidelity.diagnosticity import Diagnosticity
from xnmt_bench.metrics.fidelity.evidence import LIKELIHOOD_OF, PLANTED
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import collect

SENTENCES = 200
# Causal@1 of each explanation, all decisions and planted ones; `lexicon` and `random` are blind.
CAUSAL = {
    "attention": (0.9, 0.9),
    "gradient_norm": (0.7, 0.8),
    "lexicon": (0.7, 0.1),  # ties with gradient_norm on all decisions
    "random": (0.3, 0.2),
}


def write_causes(folder, causal=CAUSAL, that=None, corpus="toy", **facts):
    """Causes of explanations; `that` is causal@1 by the other intervention."""
    for name, (source, planted) in causal.items():
        ones = np.ones(SENTENCES)
        noise = np.random.default_rng(0).normal(0, 0.02, SENTENCES)
        shares = ("chance", "unknown", "strongest", "tau", "change", "flips")
        columns = {}
        for side in ("source", "prefix"):
            columns |= {f"{key}_{side}": ones for key in ("usable", "ranked")}
            columns |= {f"{key}_{side}": 0.1 * ones for key in shares}
            columns |= {f"causal_{side}": source + noise}
        columns |= {"causal_planted": planted + noise, "usable_planted": ones, "planted": ones}
        if that:
            columns |= {"causal_removed_source": that[name] + noise, "usable_removed_source": ones}
        row = SYSTEM | {"corpus": corpus, "explainer": name, "k": 1, "seed": ""}
        blind = name in ("lexicon", "random")
        units = Units("toy test", np.arange(SENTENCES), columns)
        measured(Causes, folder, row, units, **{"blind": blind, "as_long": 1.0} | facts)


def write_judge(folder, judge, log_q, planted_log_q, names=CAUSAL, **facts):
    for name, of_all, of_planted in zip(names, log_q, planted_log_q, strict=True):
        ones = np.ones(SENTENCES)
        columns = {"log_likelihood": of_all * ones, "rows": ones, PLANTED + "opening": ones,
                   LIKELIHOOD_OF + "opening": of_planted * ones}  # fmt: skip
        row = FIDELITY | {"explainer": name, "instantiation": judge} | facts
        units = Units("toy test", np.arange(SENTENCES), columns)
        measured(Fidelity, folder, row, units, **{"blind": name in ("lexicon", "random")})


def analysed(folder):
    by_metric = {
        m.name: panels(m, collect(m, folder, Draws(99, 0))) for m in (Fidelity(), Causes())
    }
    [(name, result)] = Diagnosticity().results(by_metric)
    assert name == "fidelity_causes_diagnosticity"
    return {(row["judge"], row["truth"]): row for row in result.rows}, result


def test_pairs_are_counted_and_ties_of_causes_left_out(tmp_path):
    write_causes(tmp_path)
    write_judge(tmp_path, "base", (-1, -2, -3, -4), (-1, -2, -4, -3))
    # Puts lexicon first everywhere.
    write_judge(tmp_path, "sa", (-2, -3, -1, -4), (-2, -3, -1, -4))
    rows, result = analysed(tmp_path)
    # Six pairs; gradient_norm and lexicon have the same causes on all decisions.
    assert (rows["base", "replaced"]["right"], rows["base", "replaced"]["pairs"]) == (1.0, 5)
    assert (rows["base", "planted"]["right"], rows["base", "planted"]["pairs"]) == (1.0, 6)
    sa = rows["sa", "planted"]
    # Lexicon is wrongly before attention, gradient_norm and random.
    assert sa["right"] == pytest.approx(3 / 6)
    assert (sa["blind_right"], sa["blind_pairs"]) == (pytest.approx(2 / 4), 4)
    assert sa["wrong"].split("; ") == [
        "lexicon before attention", "lexicon before gradient_norm", "lexicon before random"
    ]  # fmt: skip
    # On all decisions it is wrong of attention alone.
    assert rows["sa", "replaced"]["right"] == pytest.approx(4 / 5)
    texts = [[cell.text for cell in line.cells] for line in result.summary.lines]
    assert result.summary.title == "Diagnosticity: judges and causes (transformer, k = 1)"
    assert ["toy", "own SA", "planted", "50", "6", "50", "4"] in [line[:7] for line in texts]


def test_pairs_removed_both_interventions_order_alike(tmp_path):
    # The other intervention turns attention and gradient_norm round, and ties lexicon and random.
    that = {"attention": 0.7, "gradient_norm": 0.9, "lexicon": 0.3, "random": 0.3}
    write_causes(tmp_path, that=that)
    write_judge(tmp_path, "base", (-1, -2, -3, -4), (-1, -2, -4, -3))
    write_judge(tmp_path, "sa", (-4, -2, -3, -1), (-1, -2, -4, -3))
    rows, _ = analysed(tmp_path)
    # attention and gradient_norm before random, attention before lexicon; gradient_norm and
    # lexicon tie by which.
    assert (rows["base", "both"]["right"], rows["base", "both"]["pairs"]) == (1.0, 3)
    assert (rows["base", "removed"]["right"], rows["base", "removed"]["pairs"]) == (4 / 5, 5)
    # It puts random first and attention last.
    assert rows["sa", "both"]["right"] == 0
    assert np.isnan(rows["base", "both"]["tau"])


def test_tau_has_each_explainer_once_and_no_dial(tmp_path):
    names = {
        "attention": 0.9,
        "attention[layer=1]": 0.1,
        "diluted[by=random]": 0.5,
        "diluted": 0.4,
        "gradient_norm": 0.7,
        "lexicon": 0.6,
        "random": 0.3,
    }
    write_causes(tmp_path, {name: (causal, causal) for name, causal in names.items()})
    log_q = (-2, -9, -1, -8, -1, -4, -3)
    write_judge(tmp_path, "base", log_q, log_q, names)
    rows, result = analysed(tmp_path)
    row = rows["base", "replaced"]
    # attention, gradient_norm, lexicon, random.
    tau = scipy.stats.kendalltau([-2, -1, -4, -3], [0.9, 0.7, 0.6, 0.3]).statistic
    assert (row["tau"], row["explainers"]) == (pytest.approx(tau), 4)
    assert tau == pytest.approx(1 / 3)
    assert row["pairs"] == 21  # of all that were measured
    assert "tau" in result.summary.headings


def test_causes_of_two_settings_are_two_truths(tmp_path):
    write_causes(tmp_path, settings={"least effect": 0.05})
    turned = dict(zip(CAUSAL, reversed(CAUSAL.values()), strict=True))
    write_causes(tmp_path, turned, settings={"least effect": 0.2})
    write_judge(tmp_path, "base", (-1, -2, -3, -4), (-1, -2, -3, -4))
    _, result = analysed(tmp_path)
    assert "causes" in result.summary.headings
    right = {row["causes"]: row["right"] for row in result.rows if row["truth"] == "replaced"}
    assert right == {"least effect: 0.05": 1.0, "least effect: 0.2": 0.0}


def test_causes_of_other_corpora_are_of_one(tmp_path):
    """Rows of two would have the same columns."""
    for corpus in ("a", "b"):
        write_causes(tmp_path, corpus=corpus)
    write_judge(tmp_path, "base", (-1, -2, -3, -4), (-1, -2, -3, -4))
    _, result = analysed(tmp_path)
    keys = [tuple(row[name] for name in result.identity) for row in result.rows]
    assert len(set(keys)) == len(keys) > 0


def test_causes_are_of_teacher_forcing_alone(tmp_path):
    write_causes(tmp_path)
    write_judge(tmp_path, "base", (-1, -2, -3, -4), (-1, -2, -3, -4), scenario="real")
    with pytest.raises(NotApplicable):
        analysed(tmp_path)


def test_two_explainers_have_no_tau(tmp_path):
    write_causes(tmp_path, {name: CAUSAL[name] for name in ("attention", "random")})
    write_judge(tmp_path, "base", (-1, -2, -3, -4), (-1, -2, -3, -4))
    rows, _ = analysed(tmp_path)
    assert np.isnan(rows["base", "replaced"]["tau"]) and rows["base", "replaced"]["pairs"] == 1


def test_a_tie_of_the_judge_is_not_right(tmp_path):
    write_causes(tmp_path, {name: CAUSAL[name] for name in ("attention", "random")})
    write_judge(tmp_path, "base", (-1, -1, -1, -1), (-1, -1, -1, -1))
    rows, _ = analysed(tmp_path)
    assert (rows["base", "planted"]["right"], rows["base", "planted"]["pairs"]) == (0, 1)


def test_it_takes_both_metrics(tmp_path):
    write_judge(tmp_path, "base", (-1, -2, -3, -4), (-1, -2, -4, -3))
    judged = panels(Fidelity(), collect(Fidelity(), tmp_path, Draws(9, 0)))
    with pytest.raises(NotApplicable, match=r"metric=\[fidelity,causes\]"):
        list(Diagnosticity().results({"fidelity": judged}))
