"""The verdict says, judge by judge, which explainers beat every blind row."""

from dataclasses import replace

import pytest
from measured import FIDELITY, SYSTEM, scored

from xnmt_bench.measuring.measurement import BLIND, COUNTED, PIVOT
from xnmt_bench.measuring.metric import Column, SumMetric
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.quality import Quality
from xnmt_bench.registry import entries, load
from xnmt_bench.report.table import tables
from xnmt_bench.report.verdict import definitions, verdict

METRIC = Fidelity()


def row(explainer, ppl, low, high, instantiation="fn", blind=False):
    keys = FIDELITY | {"explainer": explainer, "instantiation": instantiation}
    return scored(keys, {"ppl": ppl, "ppl_low": low, "ppl_high": high}, **{BLIND: blind})


def test_groups_follow_from_values_and_intervals():
    rows = [
        row("clear", 2.0, 1.9, 2.1),
        row("near", 2.9, 2.7, 3.1),
        row("lost", 9.0, 8.0, 10.0),
        row("lexicon", 3.0, 2.9, 3.1, blind=True),
        row("random", 20.0, 19.0, 21.0, blind=True),
    ]
    assert list(verdict(METRIC, rows)) == [
        "By FN: clear beats every blind row; near is ahead of every blind row, within the "
        "intervals; lost does not beat lexicon (3.00), which never asks the model."
    ]


def test_a_worse_blind_row_with_a_wider_interval_counts_too():
    rows = [
        row("clear", 2.0, 1.9, 2.1),
        row("lexicon", 3.0, 2.9, 3.1, blind=True),
        row("random", 4.0, 2.05, 6.0, blind=True),
    ]
    [sentence] = verdict(METRIC, rows)
    assert sentence == "By FN: clear is ahead of every blind row, within the intervals."


def test_each_judge_has_its_own_sentence_in_reading_order():
    rows = [
        row("clear", 2.0, 1.9, 2.1),
        row("lexicon", 3.0, 2.9, 3.1, blind=True),
        row("clear", 9.0, 8.9, 9.1, "base"),
        row("lexicon", 3.0, 2.9, 3.1, "base", blind=True),
    ]
    base, fn = verdict(METRIC, rows)
    assert base.startswith("By Base: clear does not beat lexicon (3.00)")
    assert fn == "By FN: clear beats every blind row."


def test_without_a_blind_row_nothing_is_beaten():
    [sentence] = verdict(METRIC, [row("clear", 2.0, 1.9, 2.1)])
    assert "no blind row stands beside" in sentence


def test_systems_that_are_compared_have_no_verdict():
    assert list(verdict(Quality(), [])) == []


@pytest.mark.parametrize(("blind_ppl", "marked"), [(1.5, True), (2.5, False)])
def test_the_bold_row_that_a_blind_row_beats_is_marked(blind_ppl, marked):
    rows = [
        row("clear", 2.0, 1.9, 2.1),
        row("worse", 4.0, 3.9, 4.1),
        row("lexicon", blind_ppl, 1.4, 2.6, blind=True),
    ]
    [(_, summary)] = tables(METRIC, rows, [])
    cells = [cell.text for line in summary.lines for cell in line.cells]
    assert ("2.00 ‡ [1.90, 2.10]" in cells) == marked
    assert "4.00 [3.90, 4.10]" in cells  # only the best is marked
    assert any("never asks the model is better" in note for note in summary.notes) == marked


def test_every_column_of_a_table_says_what_it_is():
    for name in entries("metrics"):
        metric = load("metrics", name)
        if metric.__module__.startswith("xnmt_bench."):
            unsaid = [c.name for c in metric.columns if c.shown and not c.meaning]
            assert not unsaid, f"{name}: {unsaid}"


def test_definitions_hold_the_judges_and_the_columns_with_numbers():
    texts = definitions([(METRIC, [row("clear", 2.0, 1.9, 2.1)])])
    assert set(texts) == {"FN"}


def test_a_heading_of_two_metrics_is_defined_for_each():
    def of(name, meaning):
        columns = (Column("bleu", "BLEU", meaning=meaning),)
        return type(name, (SumMetric,), {"name": name, "columns": columns, "compared": "nmt",
                                         "measure": None, "of_sums": None})()  # fmt: skip

    rows = [scored(SYSTEM, {"bleu": 30.0})]
    system = "of the system"
    metrics = of("quality", system), of("student", "of the student"), of("again", system)
    texts = definitions([(metric, rows) for metric in metrics])
    assert texts == {"BLEU": "of the system", "BLEU (student)": "of the student"}


def partial(explainer, ppl, **more):
    """A row that counts some of the decisions."""
    scored_row = row(explainer, ppl, ppl - 0.1, ppl + 0.1, **more)
    facts = scored_row.measurement.facts | {COUNTED: {"gold": "is", "decisions": 4, "of": 9}}
    return replace(scored_row, measurement=replace(scored_row.measurement, facts=facts))


def test_rows_of_some_decisions_are_compared_with_their_like_alone():
    """Such decisions may be the easy ones."""
    rows = [
        row("clear", 2.0, 1.9, 2.1),
        row("worse", 4.0, 3.9, 4.1),
        row("lexicon", 3.0, 2.9, 3.1, blind=True),
        partial("gold_alignment", 1.5, blind=True),
        partial("of_a_file", 1.0),
    ]
    [sentence] = verdict(METRIC, rows)
    assert sentence.startswith("By FN: clear beats every blind row; worse does not beat lexicon")
    assert "gold_alignment" not in sentence and "of_a_file" not in sentence
    [(_, summary)] = tables(METRIC, rows, [])
    cells = {line.cells[0].text: line.cells[-1] for line in summary.lines}
    assert cells["clear"].text == "2.00 [1.90, 2.10]"  # without a mark
    assert cells["of_a_file"].rank is None and cells["clear"].rank is not None
    # Alone they are compared.
    [sentence] = verdict(METRIC, rows[-2:])
    assert sentence == "By FN: of_a_file beats every blind row."


def test_what_no_table_shows_is_not_defined():
    meaning = {"heading": "Comb by validation", "order": ["own", "comb_valid", 0], "meaning": "x"}
    keys = FIDELITY | {"explainer": "clear", "instantiation": "comb_valid"}
    rows = [row("clear", 2.0, 1.9, 2.1), scored(keys, {"ppl": 2.5}, **{PIVOT: meaning})]
    assert "comb_valid" in METRIC.csv_only
    assert [*definitions([(METRIC, rows)])] == ["FN"]
