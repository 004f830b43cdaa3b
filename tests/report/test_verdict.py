"""The verdict says, judge by judge, how explainers stand to the rows that never ask the model."""

from dataclasses import replace

import pytest

from support.example_rows import AER, FIDELITY, SYSTEM, Tables, scored
from xnmt_bench.measuring.comparing import Difference
from xnmt_bench.measuring.metric import Column, SumMetric
from xnmt_bench.metrics.aer.metric import AER as AlignmentErrorRate
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.quality import Quality
from xnmt_bench.registry import entries, load
from xnmt_bench.report.latex import to_latex
from xnmt_bench.report.report import report
from xnmt_bench.report.standing import Standing
from xnmt_bench.report.summary import to_markdown
from xnmt_bench.report.table import tables
from xnmt_bench.report.verdict import NOTHING_BLIND, definitions, verdict

METRIC = Fidelity()


def row(explainer, ppl, low, high, instantiation="fn", blind=False):
    keys = FIDELITY | {"explainer": explainer, "instantiation": instantiation}
    return scored(keys, {"ppl": ppl, "ppl_low": low, "ppl_high": high}, **{"blind": blind})


def difference(effect):
    return Difference(effect, 0.9 * effect, 1.1 * effect, 0.002, True, 60)


ROWS = [
    row("clear", 2.0, 1.9, 2.1),
    row("near", 2.9, 2.7, 3.1),
    row("lost", 9.0, 8.0, 10.0),
    row("short", 2.5, 2.0, 3.0),
    row("lexicon", 3.0, 2.9, 3.1, blind=True),
]
STANDINGS = [
    {
        "fn": {
            "clear": Standing("better", "lexicon", difference(0.5), 0.0004, 60),
            "near": Standing("alike", "lexicon", difference(0.97), 0.3, 60),
            "lost": Standing("worse", "lexicon", difference(3.0), 0.012, 60),
            "short": Standing("untested", "lexicon", None, float("nan"), 12),
        }
    }
]


def test_the_three_words_stand_with_ratio_interval_and_p():
    assert list(verdict(METRIC, ROWS, STANDINGS)) == [
        "By own FN: better than every blind row: clear "
        "(0.50 [0.45, 0.55] times lexicon, p < 0.001); "
        "not told apart from lexicon: near (0.97 [0.87, 1.07] times lexicon, p = 0.300); "
        "worse than lexicon: lost (3.00 [2.70, 3.30] times lexicon, p = 0.012); "
        "not tested, since it shares 12 units with lexicon, fewer than 20: short."
    ]


def test_marks_say_what_the_sentence_says():
    [(_, summary)] = tables(METRIC, ROWS, [], STANDINGS)
    cells = {line.cells[0].text: line.cells[-1] for line in summary.lines}
    assert cells["clear"].text == "2.00 [1.90, 2.10]" and cells["clear"].rank is not None
    assert cells["near"].text == "2.90 ≈ [2.70, 3.10]" and cells["near"].rank is None
    assert cells["lost"].text == "9.00 ‡ [8.00, 10.00]" and cells["lost"].rank is None
    assert cells["short"].rank is None and cells["lexicon (blind)"].rank is None
    assert [note for note in summary.notes if note[0] in "‡≈"] == [
        "‡ worse than a row that never asks the model.",
        "≈ not told apart from a row that never asks the model.",
    ]
    assert "**2.00 [1.90, 2.10]**" in to_markdown(summary)
    assert r"2.90\rlap{$^{\approx}$}" in to_latex(summary)
    assert {"‡ worse than a blind row", "≈ not told apart from a blind row"} < {*summary.legend}


def test_the_verdict_stands_in_every_file_of_the_table(tmp_path):
    report(METRIC, ROWS, [], STANDINGS, tmp_path, Tables())
    for name in ("fidelity.txt", "fidelity.md", "fidelity_notes.tex"):
        text = " ".join((tmp_path / name).read_text(encoding="utf-8").split())
        assert "better than every blind row: clear" in text, name


def test_the_systems_quality_comes_first():
    agreement = {"right": 0.19, "constant": 0.07}
    facts = replace(ROWS[0].measurement.facts, agreement=agreement)
    rows = [replace(ROWS[0], measurement=replace(ROWS[0].measurement, facts=facts)), *ROWS[1:]]
    first, _ = verdict(METRIC, rows, STANDINGS)
    assert first == (
        "toy en-de transformer: the system says the reference's own word in 19.0 % of the "
        "decisions; a constant guess would in 7.0 %."
    )


def test_each_judge_has_its_own_sentence_in_reading_order():
    rows = [*ROWS, row("clear", 9.0, 8.9, 9.1, "base")]
    base, fn = verdict(METRIC, rows, [{"base": {}, **STANDINGS[0]}])
    assert base == f"By Base: {NOTHING_BLIND}."
    assert fn.startswith("By own FN: better than every blind row")


def test_aligners_have_no_blind_row_to_beat():
    """Of a system, or of a file of relevance, a line says that none is there."""

    def of(model, **content):
        alone = scored(AER | {"nmt": "", "explainer": "diagonal"}, {"aer": 0.5}, model=model)
        return replace(alone, measurement=replace(alone.measurement, content=content))

    assert list(verdict(AlignmentErrorRate(), [of("")], [{}])) == []
    for explained in (of("m0"), of("", relevance="abc")):
        [sentence] = verdict(AlignmentErrorRate(), [explained], [{}])
        assert sentence.endswith(f"{NOTHING_BLIND}.")


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.0004, "p < 0.001"), (0.0496, "p = 0.0496"), (0.05, "p = 0.050"), (0.0494, "p = 0.049")],
)
def test_no_p_value_below_the_level_reads_as_the_level(p, text):
    standings = [{"fn": {"clear": Standing("better", "lexicon", difference(0.5), p, 60)}}]
    [sentence] = verdict(METRIC, ROWS, standings)
    assert text in sentence


def test_systems_that_are_compared_have_no_verdict():
    assert list(verdict(Quality(), [], [])) == []


def test_every_column_of_a_table_says_what_it_is():
    for name in entries("metrics"):
        metric = load("metrics", name)
        if metric.__module__.startswith("xnmt_bench."):
            unsaid = [c.name for c in metric.columns if c.shown and not c.meaning]
            assert not unsaid, f"{name}: {unsaid}"


def test_definitions_hold_the_judges_and_the_columns_with_numbers():
    texts = definitions([(METRIC, [row("clear", 2.0, 1.9, 2.1)])])
    assert set(texts) == {"own FN"}


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


def test_what_no_table_shows_is_not_defined():
    meaning = {"heading": "Comb by validation", "order": ["own", "comb_valid", 0], "meaning": "x"}
    keys = FIDELITY | {"explainer": "clear", "instantiation": "comb_valid"}
    rows = [row("clear", 2.0, 1.9, 2.1), scored(keys, {"ppl": 2.5}, **{"pivot": meaning})]
    assert "comb_valid" in METRIC.csv_only
    assert [*definitions([(METRIC, rows)])] == ["own FN"]
