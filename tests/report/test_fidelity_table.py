"""The fidelity table in its forms."""

import csv

import pytest

from xnmt_bench.report.fidelity import COLUMNS
from xnmt_bench.report.fidelity_table import summarise, summarise_kl, write_tables
from xnmt_bench.report.summary import to_csv, to_latex, to_markdown, to_text


def row(ppl=4.0, **more):
    """A row as the collector makes it."""
    numbers = {} if ppl == "" else {"ppl_low": ppl - 1, "ppl_high": ppl + 1, "agreement": 0.5}
    return dict.fromkeys(COLUMNS, "") | {
        "corpus": "toy",
        "lang_pair": "en-de",
        "nmt": "transformer",
        "explainer": "attention",
        "k": 1,
        "train_sentences": 8000,
        "instantiation": "fn",
        "status": "ok",
        "model": "m0",
        "ppl": ppl,
        **numbers,
        **more,
    }


def texts(rows):
    return [[cell.text for cell in line.cells] for line in summarise(rows).lines]


def test_explainers_go_from_the_most_faithful_to_the_least():
    rows = [
        row(9.0, explainer="random"),
        row(3.0, explainer="attention"),
        row(1.0, explainer="random", instantiation="base"),  # Base is no trained proxy
        row(5.0, explainer="gradient_norm"),
    ]
    assert [line[0] for line in texts(rows)] == ["attention", "gradient_norm", "random"]
    assert summarise(rows).headings == ["explainer", "Base", "FN"]


def test_what_all_lines_share_stands_in_the_title():
    assert "transformer" in summarise([row()]).title
    assert "k = 1" in summarise([row()]).title
    both = summarise([row(k=2), row(k=1), row(k=1, nmt="rnn_search")])
    assert both.headings == ["NMT", "k", "explainer", "FN"]
    assert "k = " not in both.title and "toy en-de" in both.title
    assert [[c.text for c in line.cells][:2] for line in both.lines] == [
        ["rnn_search", "1"],
        ["transformer", "1"],
        ["transformer", "2"],
    ]


def test_seeds_are_pooled():
    (line,) = texts([row(2.0, seed=1), row(4.0, seed=2)])
    assert line[-1] == "3.00 [1.00, 5.00]"


def test_what_has_no_number_says_why():
    rows = [
        row("", nmt="rnn_search", status="n/a"),
        row(3.0, explainer="random", nmt="rnn_search"),
        row("", explainer="random", nmt="rnn_search", instantiation="rn", status="failed: oh: no"),
    ]
    found = {line[0]: line[1:] for line in texts(rows)}
    assert found == {"attention": ["n/a", "n/a"], "random": ["3.00 [2.00, 4.00]", "failed"]}
    for form in (to_markdown, to_latex, to_text):
        assert "n/a" in form(summarise(rows))


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
    assert r"\textbf{3.00 [2.00, 4.00]} \\" in to_latex(summarise(rows))


def test_references_are_notes_and_generated_data_is_called_so():
    references = {"explainer": "", "k": ""}
    quality = {"BLEU": 31.5, "chrF2": 62.1}
    rows = [
        row(),
        row(50.0, instantiation="unigram", **references),
        row(1.5, instantiation="nmt", quality=quality, **references),
    ]
    notes = summarise(rows).notes
    assert len(texts(rows)) == 1
    assert any("generated" in note for note in notes)
    assert any("PPL 50.00 for unigram" in note for note in notes)
    assert any(
        "PPL 1.50 for nmt" in note and "translations: BLEU 31.5, chrF 62.1." in note
        for note in notes
    )
    assert not any("generated" in note for note in summarise([row(corpus="multi30k")]).notes)


def test_csv_has_exactly_the_columns(tmp_path):
    rows = [row(valid_loss=0.1, hit_at_k=0.25), row("", status='failed: "a", b\nc')]
    write_tables(rows, tmp_path)
    with (tmp_path / "fidelity.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    assert tuple(header) == COLUMNS
    assert [dict(zip(header, line, strict=True))["status"] for line in lines] == [
        "ok",
        'failed: "a", b\nc',
    ]
    assert lines[0][COLUMNS.index("hit_at_k")] == "0.25"
    assert to_csv(rows, COLUMNS).startswith(",".join(COLUMNS) + "\n")
    endings = {path.suffix for path in tmp_path.iterdir()}
    assert endings == {".csv", ".txt", ".md", ".tex"}


@pytest.mark.parametrize("character", "_%&#${}")
def test_latex_is_escaped(character):
    """Names come from users' configurations."""
    latex = to_latex(summarise([row(explainer=f"a{character}b", hit_at_k=0.5)]))
    assert rf"a\{character}b" in latex
    assert r"50.0 \%" in latex


def test_latex_rows_have_as_many_cells_as_columns():
    rows = [row(hit_at_k=0.5), row(instantiation="rn"), row(explainer="random")]
    latex = to_latex(summarise(rows)).splitlines()
    (columns,) = (line for line in latex if line.startswith("\\begin{tabular}"))
    body = [line for line in latex if line.endswith(r"\\")]
    assert columns == "\\begin{tabular}{lrrr}"
    assert [line.count(" & ") for line in body] == [3, 3, 3]


def test_square_brackets_are_no_markup_in_the_terminal():
    """An explainer with options of its own is called so."""
    name = "random[a=1]"
    assert name in to_text(summarise([row(explainer=name), row(instantiation="rn")]))


def test_markdown_is_escaped():
    """A bar in a name must not start another cell."""
    lines = to_markdown(summarise([row(explainer="a|b")])).splitlines()
    assert lines[2].replace(r"\|", "").count("|") == lines[0].count("|")


def test_kl_divergences_have_a_table_of_their_own(tmp_path):
    kl = {"kl": 0.5, "kl_low": 0.4, "kl_high": 0.6}
    assert summarise_kl([row()]) is None
    write_tables([row() | kl, row(explainer="other")], tmp_path)
    text = (tmp_path / "kl.md").read_text()
    assert "0.50 [0.40, 0.60]" in text
    assert "KL divergence" in text
    assert "other" not in text
    write_tables([row()], tmp_path / "without")
    assert not (tmp_path / "without" / "kl.md").exists()
