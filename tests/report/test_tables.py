"""The tables of metrics in their forms: Fidelity's, with a pivot, and others'."""

import csv
import io
import shutil
import subprocess

import pytest
from rich.console import Console

from support.example_rows import AER, FIDELITY, SYSTEM, Tables, lineage, measured, scored
from support.paths import ROOT
from xnmt_bench.corpora.formats.alignment import Alignment
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.metrics.aer.counts import count_links
from xnmt_bench.metrics.aer.metric import AER as AlignmentErrorRate
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.quality import Quality
from xnmt_bench.report.latex import to_latex
from xnmt_bench.report.report import about_systems, collect, report
from xnmt_bench.report.summary import (
    Cell,
    Line,
    Summary,
    to_csv,
    to_html,
    to_markdown,
    to_tables,
    to_text,
)
from xnmt_bench.report.table import csv_columns, tables

SENTENCES = 40


def row(ppl=4.0, status="ok", model="m0", values=(), **identity):
    """A row of Fidelity in the form of `collect`; without a number where it has another status."""
    numbers = {"ppl": ppl, "ppl_low": ppl - 1, "ppl_high": ppl + 1, "accuracy": 0.5}
    numbers = numbers | dict(values) if status == "ok" else {}
    return scored(FIDELITY | identity, numbers, status, model)


def summarise(rows, metric=None, about=()):
    """The first table."""
    return next(tables(metric or Fidelity(), rows, about))[1]


def texts(rows, metric=None):
    return [[cell.text for cell in line.cells] for line in summarise(rows, metric).lines]


def test_explainers_go_from_the_most_faithful_to_the_least():
    rows = [
        row(9.0, explainer="random"),
        row(3.0, explainer="attention"),
        row(1.0, explainer="random", instantiation="base"),  # Base is not a trained proxy
        row(5.0, explainer="gradient_norm"),
    ]
    assert [line[0] for line in texts(rows)] == ["attention", "gradient_norm", "random"]
    assert summarise(rows).headings == ["explainer", "Base", "own FN"]


def test_base_orders_what_has_no_proxy():
    rows = [row(5.0, explainer=name, instantiation="base") for name in "ab"]
    rows += [row(3.0, explainer="c", instantiation="base"), row(9.0, explainer="d")]
    assert [line[0] for line in texts(rows)] == ["c", "a", "b", "d"]


def test_instantiations_stand_in_the_papers_order():
    names = ["rn", "comb", "comb_valid", "own", "sa", "base", "fn"]
    rows = [row(instantiation=name) for name in names]
    assert summarise(rows).headings == [
        "explainer",
        "Base",
        "own FN",
        "own RN",
        "own SA",
        "own own",
        "Comb",
    ]


def test_what_all_lines_share_stands_in_the_title():
    assert "transformer" in summarise([row()]).title
    assert "k = 1" in summarise([row()]).title
    assert "900 training sentences" in summarise([row()]).title
    both = summarise([row(k=2), row(k=1), row(k=1, nmt="rnn_search")])
    assert both.headings == ["NMT", "k", "explainer", "own FN"]
    assert "k = " not in both.title and "toy en-de" in both.title
    assert [[c.text for c in line.cells][:2] for line in both.lines] == [
        ["rnn_search", "1"],
        ["transformer", "1"],
        ["transformer", "2"],
    ]


def test_the_usual_scenario_goes_without_saying():
    assert "teacher" not in summarise([row()]).title
    assert "golden" in summarise([row(scenario="golden")]).title
    assert "learned from real" in summarise([row(learned_from="real")]).title


def test_sizes_stand_in_their_own_order():
    rows = [row(train_sentences=n) for n in (10000, 900, 8000)]
    assert [line[0] for line in texts(rows)] == ["900", "8,000", "10,000"]


def test_two_systems_of_one_name_are_told_apart():
    rows = [row(model="abcdef0123"), row(model="fedcba0123")]
    assert [line[0] for line in texts(rows)] == ["transformer abcdef", "transformer fedcba"]


def test_seeds_are_pooled():
    both = [row(2.0, seed=1), row(4.0, seed=2)]
    (line,) = texts(both)
    assert line[-1] == "3.00 [1.00, 5.00]"
    seeds_note = "Several seeds: their mean, and the union of their intervals."
    assert seeds_note in summarise(both).notes[0]
    assert seeds_note not in summarise([row(), row(explainer="other", seed=2)]).notes[0]


def test_seeds_without_a_number_are_counted_and_say_why():
    rows = [row(2.0, seed=1), row(4.0, seed=2), row(status="failed: oh: no", seed=3)]
    (line,) = texts(rows)
    assert line[-1] == "3.00 [1.00, 5.00] (2 of 3 seeds)"
    assert "transformer attention fn seed 3: failed: oh: no" in summarise(rows).notes


def test_fewer_trainings_than_the_block_are_marked():
    rows = [
        scored(FIDELITY | {"explainer": explainer}, {"ppl": ppl}, model=f"m{n}", **lineage(n))
        for explainer, ppl, n in (("attention", 4.0, 0), ("attention", 4.0, 1), ("random", 3.0, 1))
    ]
    assert [line[0] for line in texts(rows)] == ["random (1 of 2 trainings)", "attention"]


def test_rows_without_a_training_have_no_remark():
    systems = [("mine", lineage(0)), ("mine", lineage(1)), ("theirs", {})]
    rows = [
        scored(SYSTEM | {"nmt": nmt}, {"bleu": 30.0}, model=f"m{n}", metric=Quality(), **facts)
        for n, (nmt, facts) in enumerate(systems)
    ]
    assert {line[0] for line in texts(rows, Quality())} == {"mine", "theirs"}


def test_a_file_that_a_command_reads_keeps_its_texts():
    rows = [{"source": "- Ja ."}]
    assert to_csv(rows, ["source"], read_back=True) == "source\n- Ja .\n"
    assert to_csv(rows, ["source"]) == "source\n'- Ja .\n"


def test_what_has_no_number_says_why():
    rows = [
        row(status="n/a", nmt="rnn_search"),
        row(3.0, explainer="random", nmt="rnn_search"),
        row(explainer="random", nmt="rnn_search", instantiation="rn", status="failed: oh: no"),
    ]
    cells_of = {line[0]: line[1:] for line in texts(rows)}
    assert cells_of == {"attention": ["n/a", ""], "random": ["3.00 [2.00, 4.00]", "failed"]}
    for form in (to_markdown, to_text, to_html):
        assert "n/a" in form(summarise(rows))
    assert "rnn_search random rn seed 1: failed: oh: no" in summarise(rows).notes


def test_a_table_without_any_number_says_why():
    rows = [row(status="failed: no room"), row(explainer="random", status="n/a")]
    assert {line[0]: line[1:] for line in texts(rows)} == {
        "attention": ["failed"],
        "random": ["n/a"],
    }
    assert any("no room" in note for note in summarise(rows).notes)


def test_the_best_of_each_system_is_emphasised():
    rows = [
        row(3.0),
        row(4.0, explainer="random"),
        row(9.0, explainer="random", k=2),
        row(8.0, explainer="random", train_sentences=100),
    ]
    markdown = to_markdown(summarise(rows))
    assert "| **3.00 [2.00, 4.00]** |" in markdown
    assert "| 4.00 [3.00, 5.00] |" in markdown
    assert "| **9.00 [8.00, 10.00]** |" in markdown  # alone with its k
    assert "| **8.00 [7.00, 9.00]** |" in markdown  # and with its number of sentences
    assert r"\textbf{3.00} \\" in to_latex(summarise(rows))


def test_rows_of_unlike_versions_have_a_note():
    def row_of(version, explainer):
        facts = {"versions": {"torch": [version], "captum": ["0.9"]}}
        return scored(FIDELITY | {"explainer": explainer}, {"ppl": 2.0}, **facts)

    alike = [row_of("2.13.0", name) for name in ("attention", "random")]
    assert not any("versions" in note for note in summarise(alike).notes)
    unlike = [alike[0], row_of("2.6.0", "random")]
    note = "Rows were made by different versions of torch: 2.13.0, 2.6.0."
    assert note in summarise(unlike).notes


def test_references_are_notes_and_generated_data_is_called_so():
    references = {"explainer": "", "k": "", "prefix": "", "seed": ""}
    rows = [
        row(),
        row(50.0, instantiation="unigram", **references),
        row(1.5, instantiation="nmt", **references | {"train_sentences": "", "learned_from": ""}),
    ]
    notes = summarise(rows).notes
    assert len(texts(rows)) == 1
    assert summarise(rows).headings == ["explainer", "own FN"]
    assert "The toy corpus is generated data." in notes
    where = "toy en-de transformer"
    assert (
        f"{where}: PPL 50.00 for unigram, 900 training sentences: the labels' own distribution, "
        "which no rule can help." in notes
    )
    assert f"{where}: PPL 1.50 for nmt: the NMT model's own, with its whole context." in notes
    assert not any("generated data" in note for note in summarise([row(corpus="multi30k")]).notes)


def test_a_reference_of_another_scenario_says_so():
    rows = [row(), row(1.5, instantiation="nmt", explainer="", k="", prefix="", scenario="real")]
    assert any("PPL 1.50 for nmt, real" in note for note in summarise(rows).notes)


def test_what_other_metrics_say_of_a_system_stands_under_its_table():
    numbers = {"bleu": 31.5, "chrf": 62.1, "ter": 40.0}
    own_row, other = scored(SYSTEM, numbers), scored(SYSTEM | {"nmt": "unknown"}, numbers)
    failed = scored(SYSTEM, {}, "failed: x")
    rows = [row()]
    scored_metrics = {
        "fidelity": (Fidelity(), rows),
        "quality": (Quality(), [own_row, other, failed]),
    }
    about = about_systems(scored_metrics, "fidelity")
    assert about == [
        "toy en-de transformer: its translations have BLEU 31.50, chrF 62.10, TER 40.00."
    ]
    assert about[0] in summarise(rows, about=about).notes
    # Quality has a table of its own, and fidelity no result that is of a system alone.
    assert about_systems(scored_metrics, "quality") == []


def test_csv_has_exactly_the_columns(tmp_path):
    metric, status = Fidelity(), 'failed: "a", b\nc'
    rows = [row(values={"hit_at_k": 0.25}), row(status=status, model="m1")]
    shown, _ = report(metric, rows, [], [{}] * 2, tmp_path, Tables())
    assert [s.name for s in shown] == ["fidelity"]
    with (tmp_path / "fidelity.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == csv_columns(metric) == [
        *("corpus", "lang_pair", "nmt", "explainer", "k", "prefix", "scenario", "learned_from"),
        *("instantiation", "seed", "train_sentences", "model", "ppl", "ppl_low", "ppl_high"),
        *(
            f"{name}{end}"
            for name in ("leak", "matched", "choice", "stripe_1", "stripe_10", "kl", "accuracy")
            for end in ("", "_low", "_high")
        ),
        *("decisions", "planted_log_q", "planted", "hit_at_k", "hit_any_at_k", "off_words"),
        *("units", "empty_draws", "status", "remarks", "signature", "rerun"),
    ]  # fmt: skip
    assert len({len(line) for line in (header, *lines)}) == 1
    csv_rows = [dict(zip(header, line, strict=True)) for line in lines]
    assert [line["status"] for line in csv_rows] == ["ok", status]
    assert [line["model"] for line in csv_rows] == ["m0", "m1"]
    assert (csv_rows[0]["hit_at_k"], csv_rows[0]["ppl"], csv_rows[0]["kl"]) == ("0.25", "4.0", "")
    assert (csv_rows[1]["hit_at_k"], csv_rows[1]["ppl"]) == ("", "")
    assert to_csv([scored_row.row for scored_row in rows], header).startswith(
        ",".join(header) + "\n"
    )
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"fidelity.{e}" for e in ("csv", "txt", "md", "tex", "svg", "png")} | {
        "fidelity_notes.tex"
    }


@pytest.mark.parametrize("start", "=+-@")
def test_a_spreadsheet_runs_no_cell(start):
    text = to_csv([{"a": f"{start}A1", "b": "-1.5", "c": -2}, {"a": start}], ["a", "b", "c"])
    assert text == f"a,b,c\n'{start}A1,-1.5,-2\n{start},,\n"
    assert to_csv([{"a": f"\t{start}A1"}], ["a"]) == f"a\n'\t{start}A1\n"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_a_spreadsheet_runs_no_cell_of_a_saved_list():
    script = ROOT / "xnmt_bench" / "report" / "debug" / "list.js"
    listing = "{numbers: [7], columns: ['score'], values: new Map([['score', [-1.5]]]), "
    listing += "texts: {source: 0, mt: 0}, text: (name) => name === 'mt' ? '=A1' : '- yes'}"
    shown = f"console.log(asTsv({listing}, null, [0]))"
    code = f"{script.read_text()}\n{shown}"
    done = subprocess.run(["node", "-e", code], capture_output=True, text=True)
    assert done.stdout.split("\n")[1] == "7\t-1.5\t'- yes\t'=A1", done.stderr


def test_a_cell_without_a_number_takes_no_mark_away():
    cells = [Cell("a", float("nan")), Cell("b", -0.3), Cell("c", -0.5)]
    lines = [Line(("block",), [Cell(cell.text), cell]) for cell in cells]
    assert "**c**" in to_markdown(Summary("title", ["name", "score"], lines, []))


@pytest.mark.parametrize("width", range(60, 171))
@pytest.mark.parametrize("columns", [3, 10])
def test_no_number_is_cut_at_any_width(width, columns):
    """Nor where rich would take room from the widest column first."""
    numbers = [f"1{column}.5 [{column}.25, {column}.75]" for column in range(columns)]
    lines = [[Cell("attention"), *map(Cell, numbers), Cell("1,234,567")]]
    headings = ["explainer", *(["causal@k source"] * columns), "comprehensiveness"]
    summary = Summary("", headings, [Line((), cells) for cells in lines], [])
    file = io.StringIO()
    for table in to_tables(summary, width):
        Console(file=file, width=width).print(table)
    shown = file.getvalue()
    assert "…" not in shown and max(map(len, shown.splitlines())) <= width
    assert {"1,234,567", "comprehensiveness", *" ".join(numbers).split()} <= set(shown.split())


def test_words_alone_are_one_table():
    words = [Cell("a long text " * 20), Cell("another one " * 20)]
    summary = Summary("Title", ["first", "second"], [Line((), words)], [], words=2)
    assert to_text(summary).count("Title") == 1


@pytest.mark.parametrize("columns", [1, 4, 30])
def test_columns_without_room_go_into_further_tables(columns):
    """No number is cut, and each table names its rows."""
    numbers = [f"{column}.5 [{column}.25, {column}.75]" for column in range(columns)]
    summary = Summary(
        "Title",
        ["explainer", *(f"causal@k source {column}" for column in range(columns))],
        [Line((), [Cell("attention"), *map(Cell, numbers)])],
        ["A note."],
    )
    shown = to_text(summary)
    assert "…" not in shown and max(map(len, shown.splitlines())) <= 160
    assert set(" ".join(numbers).split()) <= set(shown.split())
    assert shown.count("attention") == {1: 1, 4: 1, 30: 4}[columns]
    assert shown.count("Title") == shown.count("A note.") == 1


def test_square_brackets_are_no_markup_in_the_terminal():
    """An explainer with options of its own is called so."""
    name = "random[a=1]"
    assert name in to_text(summarise([row(explainer=name), row(instantiation="rn")]))


def test_markdown_is_escaped():
    """A bar in a name must not start another cell."""
    lines = to_markdown(summarise([row(explainer="a|b")])).splitlines()
    assert lines[2].replace(r"\|", "").count("|") == lines[0].count("|")


def test_markdown_holds_no_html_and_each_row_is_one_line():
    name = "a\nb <img src=x onerror=alert(1)> & c"
    lines = to_markdown(summarise([row(explainer=name), row()])).splitlines()
    assert sum(line.startswith("|") for line in lines) == 4
    written = next(line for line in lines if "onerror" in line)
    assert "a b &lt;img src=x onerror=alert(1)> &amp; c |" in written


def test_html_is_escaped():
    html = to_html(summarise([row(explainer="<script>"), row(status="failed: <b>", seed=2)]))
    assert "<script>" not in html and "&lt;script&gt;" in html
    assert "<b>" not in html and "&lt;b&gt;" in html


def test_what_only_some_have_is_empty_for_the_others():
    rows = [row(values={"hit_at_k": 0.5}), row(9.0, explainer="random")]
    assert [line[-1] for line in texts(rows)] == ["50.0 %", ""]
    comet = Quality()
    both = [
        scored(SYSTEM | {"nmt": name}, {**dict.fromkeys(("bleu", "bleu_low", "bleu_high"), 1.0),
                                        **comet_columns})
        for name, comet_columns in (("a", dict.fromkeys(("comet", "comet_low", "comet_high"), 0.5)),
                           ("b", {}))
    ]  # fmt: skip
    assert summarise(both, comet).headings == ["NMT", "BLEU", "COMET"]
    assert [line[-1] for line in texts(both, comet)] == ["0.5000 [0.5000, 0.5000]", ""]


def test_kl_divergences_have_a_table_of_their_own(tmp_path):
    kl = {"kl": 0.5, "kl_low": 0.4, "kl_high": 0.6}
    assert [name for name, _ in tables(Fidelity(), [row()], [])] == ["fidelity"]
    rows = [row(values=kl), row(explainer="other"), row(instantiation="rn")]
    shown, _ = report(Fidelity(), rows, [], [{}], tmp_path, Tables())
    assert [s.name for s in shown] == ["fidelity", "fidelity_kl"]
    text = (tmp_path / "fidelity_kl.md").read_text()
    assert text.startswith("| explainer | own FN |")  # RN's was not measured
    assert "| attention | **0.50 [0.40, 0.60]** |" in text
    assert "KL" in shown[1].summary.title
    assert "KL" not in (tmp_path / "fidelity.md").read_text()
    for ending in ("txt", "tex"):
        assert "0.50" in (tmp_path / f"fidelity_kl.{ending}").read_text()
    assert not (tmp_path / "fidelity_kl.csv").exists()  # every number stands in fidelity.csv
    assert (tmp_path / "fidelity.csv").read_text().count("0.5,0.4,0.6") == 1
    report(Fidelity(), [row()], [], [{}], tmp_path / "without", Tables())
    assert not (tmp_path / "without" / "fidelity_kl.md").exists()


def test_who_has_no_kl_divergence_has_no_line_among_them():
    kl = {"kl": 0.5, "kl_low": 0.4, "kl_high": 0.6}
    rows = [row(values=kl), row(explainer="other")]
    _, (_, summary) = tables(Fidelity(), rows, [])
    assert [line.cells[0].text for line in summary.lines] == ["attention"]


def counts(right):
    """`right` of ten links of each sentence are right."""
    gold = Alignment(*[frozenset((i, i) for i in range(10))] * 2)
    links = frozenset((i, i if i < right else i + 20) for i in range(10))
    return count_links("toy test", range(SENTENCES), [links] * SENTENCES, [gold] * SENTENCES,
                       [20] * SENTENCES)  # fmt: skip


def aligned(results, *rows):
    """Rows of AER, from (right links, the identity columns that differ)."""
    for right, row_keys in rows:
        outcome = right if isinstance(right, str) else counts(right)
        measured(AlignmentErrorRate, results, AER | row_keys, outcome)
    return collect(AlignmentErrorRate(), results, Draws(50, 0))


def test_the_least_alignment_error_stands_first(tmp_path):
    metric = AlignmentErrorRate()
    rows = aligned(tmp_path, (6, {"explainer": "a"}), (9, {"explainer": "b"}))
    summary = summarise(rows, metric)
    assert summary.headings == ["explainer", "AER %", "precision", "recall", "links"]
    assert texts(rows, metric) == [
        ["b", "10.0 [10.0, 10.0]", "90.0 %", "90.0 %", "400"],
        ["a", "40.0 [40.0, 40.0]", "60.0 %", "60.0 %", "400"],
    ]
    assert "forward links" in summary.title
    assert (
        "toy en-de: 50.0 % of the target words have no gold link, 50.0 % no sure one. AER cannot "
        "judge the former, fidelity can: their links by relevance or the diagonal are left out."
        in summary.notes
    )
    markdown = to_markdown(summary)
    assert "**10.0 [10.0, 10.0]**" in markdown
    assert "**40.0" not in markdown
    assert "**90.0" not in markdown  # precision alone is not to be won
    assert all(scored_row.row["signature"].startswith("AER|corpus:toy|") for scored_row in rows)


def test_symmetrised_links_are_compared_with_each_other(tmp_path):
    metric = AlignmentErrorRate()
    rows = aligned(
        tmp_path,
        (6, {"explainer": "a"}),
        (9, {"explainer": "b"}),
        (6, {"explainer": "a", "alignment": "union"}),
        ("n/a", {"explainer": "c"}),
    )
    assert summarise(rows, metric).headings[:2] == ["alignment", "explainer"]
    lines = texts(rows, metric)
    assert [line[:2] for line in lines] == [
        ["forward", "b"], ["forward", "a"], ["forward", "c"], ["union", "a"],
    ]  # fmt: skip
    assert lines[3] == ["union", "a", "40.0 [40.0, 40.0]", "60.0 %", "60.0 %", "400"]
    assert lines[2][2] == "n/a"
    markdown = to_markdown(summarise(rows, metric))
    assert markdown.count("**40.0 [40.0, 40.0]**") == 1  # the best of its own kind
    assert "**10.0 [10.0, 10.0]**" in markdown


def test_every_form_of_a_table_without_a_pivot_is_written(tmp_path):
    metric = AlignmentErrorRate()
    rows = aligned(tmp_path / "in", (6, {}), (8, {"seed": 1}), (7, {"seed": 2}))
    [shown], _ = report(metric, rows, [], [{}], tmp_path / "out", Tables())
    with (tmp_path / "out" / "aer.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == [
        *("corpus", "lang_pair", "nmt", "alignment", "unaligned", "explainer", "seed", "model"),
        *("aer", "aer_low", "aer_high", "precision", "recall", "links", "no_link", "no_sure_link"),
        *("off_words", "units", "empty_draws", "status", "remarks", "signature", "rerun"),
    ]  # fmt: skip
    assert sorted(float(line["aer"]) for line in lines) == pytest.approx([0.2, 0.3, 0.4])
    assert {line["units"] for line in lines} == {str(SENTENCES)}
    assert all((tmp_path / "out" / f"aer.{e}").stat().st_size for e in ("txt", "md", "tex"))
    assert shown.figure == tmp_path / "out" / "aer.svg"


def test_higher_is_better_where_it_is():
    def system(name, bleu, ter):
        values = {"bleu": bleu, "bleu_low": bleu - 1, "bleu_high": bleu + 1,
                  "ter": ter, "ter_low": ter - 1, "ter_high": ter + 1}  # fmt: skip
        return scored(SYSTEM | {"nmt": name}, values, model=name)

    rows = [system("a", 20.0, 60.0), system("b", 30.0, 50.0), system("c", 25.0, 40.0)]
    summary = summarise(rows, Quality())
    assert summary.headings == ["NMT", "BLEU", "TER"]
    assert [line[0] for line in texts(rows, Quality())] == ["b", "c", "a"]
    markdown = to_markdown(summary)
    assert "| b | **30.00 [29.00, 31.00]** | 50.00 [49.00, 51.00] |" in markdown
    assert "| c | 25.00 [24.00, 26.00] | **40.00 [39.00, 41.00]** |" in markdown
    assert markdown.count("**") == 4


def test_samples_without_anything_to_measure_are_told():
    rows = [row(values={"empty_draws": 3}), row(values={"empty_draws": 7}, explainer="random")]
    assert any(note.startswith("Up to 7 bootstrap samples") for note in summarise(rows).notes)
    assert not any("bootstrap samples of a row" in note for note in summarise([row()]).notes)
