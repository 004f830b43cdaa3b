"""Do explanations move when a system learns consistency: on rows made by hand."""

import numpy as np
import pytest

from support.example_rows import measured
from xnmt_bench.analyses.tuned import Tuned
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.consistency import Consistency
from xnmt_bench.metrics.consistency.judge import CAUSES, CLUSTERS
from xnmt_bench.metrics.consistency.moves import Moves
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import collect

SENTENCES = 100
ROW = {
    "corpus": "made", "lang_pair": "en-de", "nmt": "small", "links": "rule", "learn_from": "",
    "morphology": "made", "resolver": "", "explainer": "attention", "seed": "",
}  # fmt: skip


def write_row(
    folder, pointed, forms, markers=None, blind=False, model="m", columns=None, initial=None,
    **identity,
):  # fmt: skip
    """A row whose explainer points at the right entity where `pointed` is 1.

    Systems of one name differ in their seeds alone; `initial` is where training started.
    """
    ones, zeros = np.ones(SENTENCES), np.zeros(SENTENCES)
    other_columns = columns or {}
    columns = {"items": ones, "determined": ones, "consistent": ones, "pronoun_n": zeros,
               "pronoun_known": ones, "pointing": ones, "pointed": pointed,
               "going": ones, "pointed_there": pointed}  # fmt: skip
    columns |= dict.fromkeys([*CAUSES, *(f"cluster_{c}" for c in CLUSTERS)], zeros)
    for form in np.unique(forms):
        columns[f"pointing {form}"] = (forms == form).astype(float)
        columns[f"pointed {form}"] = (forms == form) * pointed
    if markers is not None:
        columns |= {"marker_n": ones, "on_markers": ones * markers}
    units = Units("suite", np.arange(SENTENCES), columns | other_columns)
    row = ROW | identity
    lineage = {"family": row["nmt"], "seed": 0, "initial": initial}
    facts = {"genders": "made", "left_out": 0, "blind_explainer": blind, "lineage": lineage}
    measured(Consistency, folder, row, units, model=model, **facts)


@pytest.fixture
def forms():
    return np.array(["he"] * 60 + ["she"] * 30 + ["his"] * 10)


def moved(folder):
    scored = collect(Consistency(), folder, Draws(9, 0))
    return Moves(samples=200).analyse(panels(Consistency(), scored))


def test_the_change_is_after_less_before_of_the_same_pronouns(tmp_path, forms):
    before = np.tile([1.0, 0.0], SENTENCES // 2)
    after = np.where(forms == "she", 1.0, before)
    write_row(tmp_path, before, forms)
    write_row(
        tmp_path,
        after,
        forms,
        markers=0.25,
        nmt="small on gender with gold markers",
        model="n",
        initial="m",
    )
    rows = {row["pronoun"]: row for row in moved(tmp_path).rows}
    assert list(rows) == ["all", "he", "she"]  # ten of `his` are too few
    assert rows["all"]["change"] == pytest.approx(15 / 100)
    assert rows["she"]["change"] == pytest.approx(0.5)
    # The same sentences are drawn for both, so what does not change has no interval.
    assert (rows["he"]["low"], rows["he"]["high"]) == (0, 0)
    assert rows["she"]["low"] < 0.5 < rows["she"]["high"]
    assert rows["all"]["markers"] == pytest.approx(0.25)
    assert rows["all"]["n"] == 100 and rows["she"]["n"] == 30


def test_explainers_stand_side_by_side_and_blind_ones_say_so(tmp_path, forms):
    for name in ("attention", "nearest"):
        for nmt in ("small", "small on coref"):
            pointed = np.ones(SENTENCES) * (nmt != "small")
            facts = {} if nmt == "small" else {"model": "n", "initial": "m"}
            write_row(
                tmp_path, pointed, forms, blind=name == "nearest", explainer=name, nmt=nmt, **facts
            )
    result = moved(tmp_path)
    of_all = [row for row in result.rows if row["pronoun"] == "all"]
    assert {row["explainer"]: row["blind"] for row in of_all} == {
        "attention": False, "nearest": True,
    }  # fmt: skip
    assert result.figure is not None
    texts = [cell.text for line in result.summary.lines for cell in line.cells]
    assert "nearest (blind)" in texts


def test_seeds_of_systems_are_averaged(tmp_path, forms):
    for model, share in (("a", 0.0), ("b", 1.0)):
        write_row(tmp_path, np.zeros(SENTENCES), forms, model=model)
        tuned = {"nmt": "small on coref", "model": f"{model} tuned", "initial": model}
        write_row(tmp_path, np.full(SENTENCES, share), forms, **tuned)
    [row] = [row for row in moved(tmp_path).rows if row["pronoun"] == "all"]
    assert row["change"] == pytest.approx(0.5)


def test_what_fine_tuning_changes_of_a_headline(tmp_path, forms):
    """Of three trainings before and after, on the same sentences."""
    rng = np.random.default_rng(0)
    consistent = {}
    for seed in range(3):
        for nmt, share in (("small", 0.5), ("small on coref", 0.8)):
            values = (rng.random(SENTENCES) < share).astype(float)
            consistent.setdefault(nmt, []).append(values)
            write_row(tmp_path, values, forms, nmt=nmt, model=f"{nmt} {seed}",
                      columns={"consistent": values},
                      initial=f"small {seed}" if nmt != "small" else None)  # fmt: skip
    # Another training of the same name that no fine-tuning started from is not among them.
    write_row(tmp_path, np.zeros(SENTENCES), forms, nmt="small", model="left out")
    scored = collect(Consistency(), tmp_path, Draws(9, 0))
    [row] = Tuned(samples=200).analyse(panels(Consistency(), scored)).rows
    assert (row["system"], row["tuned"]) == ("small", "small on coref")
    before, after = (np.mean(values) for values in consistent.values())
    assert (row["before"], row["after"]) == (pytest.approx(before), pytest.approx(after))
    assert row["low"] < row["change"] < row["high"]
    assert row["change"] == pytest.approx(after - before)
    assert (row["systems_before"], row["systems_after"]) == (3, 3)


def test_without_a_system_that_it_started_from(tmp_path, forms):
    write_row(tmp_path, np.ones(SENTENCES), forms, nmt="small on coref")
    with pytest.raises(NotApplicable, match="a system and one fine-tuned from it"):
        moved(tmp_path)


def test_links_of_two_kinds_stand_apart(tmp_path, forms):
    for links, share in (("rule", 0.0), ("eflomal", 1.0)):
        write_row(tmp_path, np.zeros(SENTENCES), forms, links=links)
        tuned = {"nmt": "small on coref", "model": "n", "initial": "m", "links": links}
        write_row(tmp_path, np.full(SENTENCES, share), forms, **tuned)
    result = moved(tmp_path)
    assert result.summary.headings[0] == "links"
    first = {tuple(cell.text for cell in line.cells[:2]) for line in result.summary.lines}
    assert first == {("rule", "small on coref"), ("eflomal", "small on coref")}
    titles = [ax.get_title() for ax in result.figure.axes]
    assert titles == ["small on coref, eflomal", "small on coref, rule"]
