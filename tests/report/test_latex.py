"""Tables as LaTeX: caption, label, rules and cells."""

import pytest

from xnmt_bench.report.latex import escape, to_latex, to_latex_notes
from xnmt_bench.report.summary import Cell, Line, Summary

HEADINGS = ["NMT", "explainer", "Base", "EVAL-X SA"]
ROWS = [
    # System, whether it is blind, name, two numbers with the rank of the first.
    ("rnn", False, "attention", ("12.50 [11.00, 14.00]", 12.5), "99.0 ≈ [90.0, 110.0]"),
    ("rnn", False, "gradient", ("13.50 ‡ [12.00, 15.00]", None), "n/a"),
    ("rnn", True, "lexicon (blind)", ("13.00 [12.00, 14.00]", None), "98.0 [90.0, 109.0]"),
    ("transformer", False, "attention", ("8.00 † ‡ [7.00, 9.00]", None), "97.0 [90.0, 108.0]"),
    ("transformer", True, "lexicon (blind)", ("7.00 [6.00, 8.00]", None), "96.0 [90.0, 107.0]"),
]  # fmt: skip
NOTES = ["By Base: worse than lexicon (p = 0.012).", "‡ worse than a row that never asks."]


def summary(rows=ROWS, headings=HEADINGS):
    lines = [
        Line((system, blind), [Cell(system), Cell(name), Cell(*first), Cell(second)])
        for system, blind, name, first, second in rows
    ]
    return Summary("Fidelity, k = 1", headings, lines, NOTES, 2, "200 test sentences", ["bold: x"])


def body(latex):
    return latex.partition("\\toprule\n")[2].partition("\\bottomrule")[0].splitlines()


def test_the_caption_is_one_sentence_and_the_notes_stand_elsewhere():
    latex = to_latex(summary(), "fidelity")
    assert r"\caption{Fidelity, k = 1, 200 test sentences; bold: x.}" in latex
    assert r"\label{tab:fidelity}" in latex
    assert "p = 0.012" not in latex
    notes = to_latex_notes(summary(), "fidelity")
    assert notes == (
        "Notes on Table~\\ref{tab:fidelity}.\n\nBy Base: worse than lexicon (p = 0.012).\n\n"
        "\\ddag{} worse than a row that never asks.\n"
    )


def test_a_rule_parts_blind_rows_and_what_tells_blocks_apart_heads_them():
    lines = body(to_latex(summary()))
    assert lines[0] == r"explainer & Base & EVAL-X SA \\"
    heads = [line for line in lines if "multicolumn" in line]
    assert heads == [
        r"\multicolumn{3}{@{}l}{\textit{NMT: rnn}} \\",
        r"\multicolumn{3}{@{}l}{\textit{NMT: transformer}} \\",
    ]
    after_rules = [lines[n + 1] for n, line in enumerate(lines) if line == r"\midrule"]
    assert after_rules[0::2] == heads
    assert all(line.startswith("lexicon") for line in after_rules[1::2])


def test_an_interval_stands_under_its_number_and_a_mark_takes_no_room():
    lines = body(to_latex(summary()))
    at = next(n for n, line in enumerate(lines) if line.startswith("attention"))
    assert lines[at] == r"attention & \textbf{12.50} & 99.0\rlap{$^{\approx}$} \\"
    small = r"{\scriptsize {}[11.00, 14.00]} & {\scriptsize {}[90.0, 110.0]}"
    assert lines[at + 1] == rf" & {small} \\"
    assert r"13.50\rlap{$^{\ddagger}$} & n/a \\" in "\n".join(lines)
    assert r"8.00\rlap{$^{\dagger\ddagger}$}" in "\n".join(lines)


def test_every_line_has_a_cell_for_each_column():
    latex = to_latex(summary())
    assert r"\begin{tabular}{@{}lrr}" in latex
    rows = [line for line in body(latex) if line.endswith(r"\\") and "multicolumn" not in line]
    assert {line.count(" & ") + line.startswith("& ") for line in rows} == {2}


def test_columns_that_differ_in_every_line_stay():
    """As in a table of an analysis, whose words are what it compares."""
    rows = [(str(n), False, f"name {n}", ("1.0", None), "2.0") for n in range(4)]
    lines = body(to_latex(summary(rows)))
    assert lines[0] == r"NMT & explainer & Base & EVAL-X SA \\"
    assert not any("multicolumn" in line for line in lines)


def test_a_table_too_wide_for_a_column_takes_the_page():
    assert r"\begin{table}[t]" in to_latex(summary())
    name = "an_explainer_with_a_name_of_fifty_and_some_letters_"
    wide = to_latex(summary([("rnn", False, name, ("1.0 [0.5, 1.5]", None), "2.0")] * 2))
    assert r"\begin{table*}[t]" in wide and r"\end{table*}" in wide


def test_a_long_heading_of_numbers_has_two_lines():
    latex = to_latex(summary(headings=["NMT", "explainer", "hit@k, decisions", "Base"]))
    assert r"\shortstack[r]{hit@k,\\decisions}" in latex


@pytest.mark.parametrize("character", "_%&#${}")
def test_what_means_something_to_latex_is_escaped(character):
    """Names come from users' configurations."""
    assert escape(f"a{character}b") == rf"a\{character}b"


@pytest.mark.parametrize(
    ("character", "written"),
    [
        ("\\", r"\textbackslash{}"),
        ("~", r"\textasciitilde{}"),
        ("^", r"\textasciicircum{}"),
        ("<", r"\textless{}"),
        (">", r"\textgreater{}"),
        ("|", r"\textbar{}"),
        ("†", r"\dag{}"),
    ],
)
def test_latex_has_words_for_some_characters(character, written):
    assert escape(f"a{character}b") == f"a{written}b"


def test_no_caption_has_an_empty_line_and_no_line_end_an_argument():
    lines = [Line((), [Cell("[x]"), Cell("1")])]
    latex = to_latex(Summary("one\n\ntwo", ["a", "b"], lines, []))
    assert "one two" in latex and "\n\n" not in latex
    assert "\n{}[x] & 1" in latex
