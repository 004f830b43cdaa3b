"""What judges prefer where the lexicon misses the cause, counted by hand."""

import numpy as np
import pyarrow as pa
import pytest

from support.example_rows import FIDELITY, SYSTEM, decisions, measured
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.causes import Causes
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.fidelity.misled_judges import MisledJudges
from xnmt_bench.parquet import write_table
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import collect
from xnmt_bench.rules.scores import DecisionScores

# Sentence, step, and how probably the lexicon misses the strongest cause there.
MISSED = [(0, 0, 1.0), (0, 1, 0.0), (1, 0, 0.5), (2, 0, 1.0), (2, 3, 0.0)]
SCORED = [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 3)]  # one more, without a cause
LEXICON = np.array([-9.0, -7, -9, -8, -10, -7])
MORE = {"prediction_difference": np.array([2.0, -1, 8, 1, 3, 0]), "random": np.zeros(6)}


def write_causes(folder, model="m0", missed=MISSED, explainer="lexicon", seed=""):
    file = folder / f"strongest_{model}_{seed}.parquet"
    names = ("sentence", "step", "missed")
    write_table(pa.Table.from_pylist([dict(zip(names, d, strict=True)) for d in missed]), file)
    ones = np.ones(3)
    names = ("usable", "ranked", "chance", "unknown", "strongest", "tau", "change", "flips")
    columns = {f"{n}_{side}": ones for n in (*names, "causal") for side in ("source", "prefix")}
    row = SYSTEM | {"explainer": explainer, "k": 1, "seed": seed}
    units = Units("toy test", np.arange(3), columns)
    facts = {"blind": True, "as_long": 1.0, "lineage": {"family": "f"}}
    measured(Causes, folder, row, units, model, {"strongest": file}, **facts)


def write_judge(
    folder, name, log_q_N, judge="base", model="m0", seed=1, order=slice(None), **options
):
    sentence_N, step_N = np.array(SCORED).T
    file = folder / f"{name}_{judge}_{model}_{seed}.parquet"
    DecisionScores(sentence_N[order], step_N[order], log_q_N[order]).save(file)
    row = FIDELITY | {"explainer": name, "instantiation": judge, "seed": seed}
    units = decisions(sentence_N, log_q_N, **options)
    blind = name in ("lexicon", "random")
    facts = {"blind": blind, "lineage": {"family": "f"}}
    measured(Fidelity, folder, row, units, model, {"decisions": file}, **facts)


def analyse(folder, **options):
    by_metric = {m.name: panels(m, collect(m, folder, Draws(9, 0))) for m in (Fidelity(), Causes())}
    [(name, result)] = MisledJudges(samples=200, **options).results(by_metric)
    assert name == "fidelity_causes_misled_judges"
    return {(r["judge"], r["kind"], r["explainer"]): r for r in result.rows}, result


def test_preferences_are_means_over_decisions_weighed_by_what_is_missed(tmp_path):
    write_causes(tmp_path)
    write_judge(tmp_path, "lexicon", LEXICON)
    for name, more_N in MORE.items():
        # In another order, since files need not agree in it.
        write_judge(tmp_path, name, LEXICON + more_N, order=slice(None, None, -1))
    rows, result = analyse(tmp_path)
    misses = rows["base", "misses", "prediction_difference"]
    assert misses["preferred"] == pytest.approx((2 + 0.5 * 1 + 3) / 2.5)
    assert misses["preferred_low"] <= misses["preferred"] <= misses["preferred_high"]
    named = rows["base", "names", "prediction_difference"]
    assert named["preferred"] == pytest.approx((-1 + 0.5 * 1 + 0) / 2.5)
    assert (misses["decisions"], named["decisions"]) == (2, 2)  # 2.5 each
    assert rows["base", "misses", "random"]["preferred"] == 0
    texts = [[cell.text for cell in line.cells] for line in result.summary.lines]
    assert texts[0][:3] == ["Base", "misses", "2"] and texts[0][3].startswith("+2.200 [")


def test_a_line_counts_the_decisions_of_all_its_explainers(tmp_path):
    write_causes(tmp_path)
    for name in ("lexicon", "attention"):
        write_judge(tmp_path, name, LEXICON)
    # One decision of each kind; of the others 2.5.
    write_judge(tmp_path, "alti", LEXICON, order=slice(0, 2))
    [misses, names] = analyse(tmp_path)[1].summary.lines
    assert [cell.text for cell in misses.cells][:3] == ["Base", "misses", "1-2"]
    assert [cell.text for cell in names.cells][:3] == ["Base", "names", "1-2"]
    assert [bool(cell.text) for cell in misses.cells] == [True] * 5


def test_systems_and_seeds_of_judges_are_averaged(tmp_path):
    for model in ("m0", "m1"):
        write_causes(tmp_path, model)
    for model, seed, more in (("m0", 1, 1.0), ("m0", 2, 2.0), ("m1", 1, 6.0)):
        options = {"judge": "evalx_sa", "model": model, "seed": seed}
        write_judge(tmp_path, "lexicon", LEXICON, **options)
        write_judge(tmp_path, "attention", LEXICON + more, **options)
    rows, _ = analyse(tmp_path)
    by_kind = {kind: row["preferred"] for (_, kind, _), row in rows.items()}
    # The mean of systems, and not of all seeds: 1.5 and 6.
    assert by_kind == {"misses": pytest.approx(3.75), "names": pytest.approx(3.75)}


@pytest.mark.parametrize("blind_seeds", [("",), (1, 2)])
def test_a_row_without_seeds_fits_each_seed(tmp_path, blind_seeds):
    write_causes(tmp_path)
    seeds = (1, 2) if blind_seeds == ("",) else ("",)
    for seed in blind_seeds:
        write_judge(tmp_path, "lexicon", LEXICON - (seed or 0), seed=seed)
    for seed in seeds:
        write_judge(tmp_path, "random", LEXICON + (seed or 0), seed=seed)
    rows, _ = analyse(tmp_path)
    assert rows["base", "misses", "random"]["preferred"] == pytest.approx(1.5)


def test_causes_of_another_test_set_are_not_joined(tmp_path):
    """Decisions of natural twins are numbered from 0 as the captions are."""
    write_causes(tmp_path)
    for name in ("lexicon", "attention"):
        write_judge(tmp_path, name, LEXICON, test_set="other")
    with pytest.raises(NotApplicable):
        analyse(tmp_path)


def test_a_blind_row_that_draws_has_causes_of_its_own_seed(tmp_path):
    """Which words are random in seed 2 says nothing of those of seed 1."""
    for seed, misses in ((1, 1.0), (2, 0.0)):
        missed = [(*place, misses) for *place, _ in MISSED]
        write_causes(tmp_path, missed=missed, explainer="random", seed=seed)
        write_judge(tmp_path, "random", LEXICON, seed=seed)
        write_judge(tmp_path, "attention", LEXICON + seed, seed=seed)
    rows, _ = analyse(tmp_path, blind="random")
    assert rows["base", "misses", "attention"]["preferred"] == pytest.approx(1)
    assert rows["base", "names", "attention"]["preferred"] == pytest.approx(2)


def test_where_no_decision_has_a_cause_there_is_no_table(tmp_path):
    write_causes(tmp_path, missed=[])
    for name in ("lexicon", "attention"):
        write_judge(tmp_path, name, LEXICON)
    with pytest.raises(NotApplicable):
        analyse(tmp_path)


def test_a_kind_without_decisions_has_no_row(tmp_path):
    write_causes(tmp_path, missed=[(*place, 1.0) for *place, _ in MISSED])
    for name in ("lexicon", "attention"):
        write_judge(tmp_path, name, LEXICON)
    assert {kind for _, kind, _ in analyse(tmp_path)[0]} == {"misses"}


def test_it_takes_causes_of_the_blind_explainer_and_another_one(tmp_path):
    write_causes(tmp_path)
    write_judge(tmp_path, "lexicon", LEXICON)
    with pytest.raises(NotApplicable, match="of lexicon and another explainer"):
        analyse(tmp_path)
    write_judge(tmp_path, "attention", LEXICON)
    assert analyse(tmp_path)[0]
    with pytest.raises(NotApplicable, match="of nearest and another explainer"):
        analyse(tmp_path, blind="nearest")
