"""A judge that predicts less than label frequencies do ranks nothing, in verdict and table."""

import numpy as np
import pytest

from support.example_rows import FIDELITY, Tables, decisions, measured, scored
from xnmt_bench.analyses.rank_stability import RankStability
from xnmt_bench.analyses.ranking import Ranking
from xnmt_bench.analyses.significance import Significance
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.notebook import BenchmarkTable
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import collect, report
from xnmt_bench.report.selection import Selection
from xnmt_bench.report.standing import about_unranked, keep_unranked, standings_of
from xnmt_bench.report.summary import to_markdown
from xnmt_bench.report.table import tables
from xnmt_bench.report.verdict import verdict

METRIC, DRAWS, SENTENCES = Fidelity(), Draws(50, 0), 60
NOTHING = {"explainer": "", "k": "", "prefix": "", "seed": ""}
# Perplexities: of each judge the best row, then the others; base judges less than unigram, 162.
PPL = {
    "base": {"attention": 240.0, "lexicon": 226.0, "random": 900.0},
    "base_tuned": {"attention": 9.0, "lexicon": 30.0, "random": 100.0},
    "sa": {"attention": 170.0, "lexicon": 200.0, "random": 161.0},
}
SENTENCE = (
    "Base does not judge here: from the words of the best row it predicts less than label "
    "frequencies do (PPL 226.0, unigram 162.0); what judges here: Base, tuned; own SA."
)


def perplexing(ppl):
    """One decision a sentence, of this perplexity."""
    spread = np.linspace(-0.5, 0.5, SENTENCES)
    return decisions(range(SENTENCES), spread - np.log(ppl))


def write(results, explainer, judge, ppl, **options):
    keys = FIDELITY | {"explainer": explainer, "instantiation": judge} | options.pop("keys", {})
    blind = explainer in ("lexicon", "random")
    measured(METRIC, results, keys, perplexing(ppl), **{"blind": blind}, **options)


@pytest.fixture
def results(tmp_path):
    for judge, by_explainer in PPL.items():
        for explainer, ppl in by_explainer.items():
            write(tmp_path, explainer, judge, ppl)
    write(tmp_path, "", "unigram", 162.0, keys=NOTHING)
    return tmp_path


def judged(results):
    rows = collect(METRIC, results, DRAWS)
    standings = standings_of(METRIC, rows, DRAWS)
    return rows, standings, list(verdict(METRIC, rows, standings))


def test_the_verdict_says_so_in_the_place_of_a_ranking_and_names_who_judges(results):
    _, _, [base, tuned, own] = judged(results)
    assert base == SENTENCE
    assert tuned.startswith("By Base, tuned: better than every blind row: attention (0.30 [")
    # Its best row is a blind one, which is better than unigram.
    assert own.startswith("By own SA: worse than random: attention (1.06 [")


def test_no_cell_of_its_column_is_bold_or_marked(results):
    rows, standings, _ = judged(results)
    [(_, summary), *_] = tables(METRIC, rows, (), standings)
    [line] = [line for line in summary.lines if line.cells[0].text == "attention"]
    base, tuned, own = line.cells[1:]
    assert base.text.startswith("240.0 [") and base.rank is None
    assert tuned.rank is not None and "‡" in own.text
    assert "**240" not in to_markdown(summary)


def test_every_report_has_the_sentence(results, tmp_path):
    rows, standings, sentences = judged(results)
    report(METRIC, rows, [], standings, tmp_path, Tables())
    text = " ".join((tmp_path / "fidelity.md").read_text(encoding="utf-8").split())
    assert SENTENCE in text
    summaries = [summary for _, summary in tables(METRIC, rows, (), standings)]
    table = BenchmarkTable(None, summaries, sentences)
    assert SENTENCE in repr(table) and SENTENCE in table._repr_html_()


@pytest.mark.parametrize(
    "analysis", [Significance(50), RankStability(samples=50), Ranking(["base", "sa"])]
)
def test_analyses_that_order_its_rows_say_so(results, analysis):
    """The lexicon stands first by Base all the same."""
    for judge in PPL:
        write(results, "gradient_norm", judge, 300.0)  # samples rank two that ask the model
    rows = collect(METRIC, results, DRAWS)
    notes = analysis.analyse(panels(METRIC, rows)).summary.notes
    assert [note for note in notes if "does not judge" in note] == [
        SENTENCE.partition(";")[0] + "."
    ]
    rows = [row for row in rows if row.row["instantiation"] != "unigram"]
    notes = analysis.analyse(panels(METRIC, rows)).summary.notes
    assert not any("does not judge" in note for note in notes)


def test_a_choice_of_rows_does_not_change_who_judges(results):
    """The best row of own SA is not shown, and counts."""
    rows = collect(METRIC, results, DRAWS)
    selection = Selection.parse("explainer=attention")
    shown = selection.shown(METRIC, rows)
    standings = selection.standings(METRIC, rows, DRAWS)
    base, _, own = verdict(METRIC, shown, standings)
    assert base == SENTENCE and own.startswith("By own SA: worse than random")
    [panel] = panels(METRIC, shown)
    keep_unranked([panel], standings)
    assert [note.partition(" ")[0] for note in about_unranked([panel])] == ["Base"]


def test_without_training_text_the_same_labels_are_counted(tmp_path):
    for explainer, ppl in PPL["base"].items():
        write(tmp_path, explainer, "base", ppl, label_frequencies=150.0)
    [sentence] = judged(tmp_path)[2]
    assert sentence == (
        "Base does not judge here: from the words of the best row it predicts less than label "
        "frequencies do (PPL 226.0, frequencies of the same labels 150.0)."
    )


def test_a_row_of_some_decisions_is_held_against_their_own_labels(results):
    """Such decisions may be the easy ones, and unigram is of all of them."""
    counted = {"gold": "is", "decisions": 60, "of": 90}
    for explainer in ("gold_alignment", "lexicon"):
        write(results, explainer, "base", 200.0, counted=counted, label_frequencies=210.0,
              keys={"k": 2}, settings={"decisions": "60 of 90"})  # fmt: skip
    assert len(panels(METRIC, collect(METRIC, results, DRAWS))) == 2
    of_some = [sentence for sentence in judged(results)[2] if "k = 2" in sentence]
    assert [sentence[:14] for sentence in of_some] == ["By Base, k = 2"]


def test_without_a_blind_row_and_without_frequencies(tmp_path):
    """A judge that does not judge says so without blind rows; what is not known is not said."""
    write(tmp_path, "attention", "base", 226.0)
    assert judged(tmp_path)[2] == [
        "By Base: no blind row stands beside the explainers, so nothing says what they have to "
        "beat."
    ]
    write(tmp_path, "", "unigram", 162.0, keys=NOTHING)
    [sentence] = judged(tmp_path)[2]
    assert sentence.startswith("Base does not judge here")


def test_few_sentences_do_not_say_that_a_judge_does_not_judge(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "SENTENCES", 19)
    for explainer, ppl in PPL["base"].items():
        write(tmp_path, explainer, "base", ppl, label_frequencies=150.0)
    [sentence] = judged(tmp_path)[2]
    assert sentence.startswith("By Base: not tested")


def test_a_block_is_named_behind_the_judge(results):
    for explainer, ppl in PPL["base"].items():
        write(results, explainer, "base", 10 * ppl, keys={"prefix": "none"})
    [sentence] = [s for s in judged(results)[2] if "prefix words" in s]
    assert sentence.startswith("Base, prefix words: none, does not judge here: ")
    assert sentence.endswith("(PPL 2260, unigram 162.0).")  # no other judge has such rows


def test_a_row_without_a_number_stands_aside():
    keys = FIDELITY | {"explainer": "alti", "instantiation": "base"}
    rows = [scored(keys, {}, status="n/a")]
    assert standings_of(METRIC, rows, DRAWS) == [{"base": {}}]
