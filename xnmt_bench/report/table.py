"""The fidelity table: every row as CSV, and what a reader wants of it as text, Markdown, LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console
from rich.markup import escape as markup_escape
from rich.table import Table

from xnmt_bench.report.fragments import COLUMNS, Row
from xnmt_bench.store import write_atomically

SHOWN = ("base", "fn", "rn", "sa", "comb")
HEADINGS = {"base": "Base", "fn": "FN", "rn": "RN", "sa": "SA", "comb": "Comb"}
REFERENCES = ("unigram", "nmt")
KEY = ("corpus", "lang_pair", "nmt", "model", "train_sentences", "k", "explainer")
FIXED = 4  # columns of a line that name the system rather than the explainer
NOTE = (
    "PPL of the proxies on held-out decisions, with its 95 % bootstrap interval over sentences; "
    "lower is more faithful. Several seeds: their mean, and the union of their intervals."
)
GENERATED = "The toy corpus is generated data."


@dataclass(frozen=True)
class Cell:
    """One number of the summary; several seeds are pooled."""

    text: str
    ppl: float | None = None


@dataclass(frozen=True)
class Summary:
    """The table as it is read: one line an explainer and k, one column an instantiation."""

    headings: list[str]
    lines: list[list[Cell]]
    notes: list[str]


def summarise(rows: Sequence[Row]) -> Summary:
    """Pivots the rows; the lines of a system go from the most faithful explainer to the least."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["instantiation"] not in (*REFERENCES, "comb_valid"):
            key = tuple(row[c] for c in KEY)
            groups.setdefault(key, []).append(row)
    named: set[str] = {row["instantiation"] for row in rows} - {*REFERENCES, "comb_valid"}
    present = [i for i in SHOWN if i in named] + sorted(named - set(SHOWN))
    hits = any(row["hit_at_k"] != "" for row in rows)
    lines = []
    for key in sorted(groups, key=lambda key: (*key[:-1], _best(groups[key]))):
        group = groups[key]
        corpus, pair, nmt, model, size, k, explainer = key
        shown = (f"{corpus} {pair}", _system(nmt, model, rows), f"{size:,}", str(k), explainer)
        cells = [Cell(x) for x in shown]
        cells += [_cell([r for r in group if r["instantiation"] == i]) for i in present]
        lines.append(cells + ([_hit(group)] if hits else []))
    headings: list[str] = ["corpus", "NMT", "sentences", "k", "explainer"]
    headings += [HEADINGS.get(i, i) for i in present] + (["hit@k"] if hits else [])
    return Summary(headings, lines, _notes(rows))


def _system(nmt: str, model: str, rows: Sequence[Row]) -> str:
    """The system's name, with its fingerprint where several share the name."""
    several = len({row["model"] for row in rows if row["nmt"] == nmt}) > 1
    return f"{nmt} {model[:6]}" if several else nmt


def _best(group: Sequence[Row]) -> float:
    trained = [r["ppl"] for r in group if r["ppl"] != "" and r["instantiation"] != "base"]
    return min(trained or [r["ppl"] for r in group if r["ppl"] != ""] or [float("inf")])


def _cell(rows: Sequence[Row]) -> Cell:
    numbers = [r for r in rows if r["ppl"] != ""]
    if not numbers:
        return Cell(rows[0]["status"].split(":")[0] if rows else "")
    value = mean(r["ppl"] for r in numbers)
    low, high = min(r["ppl_low"] for r in numbers), max(r["ppl_high"] for r in numbers)
    return Cell(f"{_digits(value)} [{_digits(low)}, {_digits(high)}]", value)


def _hit(rows: Sequence[Row]) -> Cell:
    values = [r["hit_at_k"] for r in rows if r["hit_at_k"] != ""]
    return Cell(f"{100 * mean(values):.1f} %" if values else "")


def _digits(value: float) -> str:
    """Three or four significant digits, as papers print perplexities."""
    return f"{value:.2f}" if value < 100 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def _notes(rows: Sequence[Row]) -> list[str]:
    notes = [NOTE]
    if any(row["corpus"] == "toy" for row in rows):
        notes.append(GENERATED)
    said = {
        "unigram": "the labels' own distribution, which no rule can help",
        "nmt": "the NMT model's own, on its choices",
    }
    for row in rows:
        if row["instantiation"] in REFERENCES and row["ppl"] != "":
            system = f"{row['corpus']} {row['lang_pair']} {row['nmt']}"
            name = row["instantiation"]
            notes.append(f"{system}: PPL {_digits(row['ppl'])} for {name}, {said[name]}.")
        if facts := row.get("quality"):
            notes[-1] += f" Its BLEU is {facts['BLEU']}, its chrF {facts['chrF2']}."
    return notes


def to_csv(rows: Sequence[Row]) -> str:
    """Every row, every column."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def to_markdown(summary: Summary) -> str:
    """The summary as a Markdown table."""
    marks = _marks(summary, lambda text: text.replace("|", r"\|"), "**{}**")
    lines = ["| " + " | ".join(summary.headings) + " |", "|" + " --- |" * len(summary.headings)]
    lines += ["| " + " | ".join(line) + " |" for line in marks]
    return "\n".join([*lines, "", *(f"{note}  " for note in summary.notes), ""])


def to_latex(summary: Summary) -> str:
    """The summary as a LaTeX table; needs booktabs."""
    marks = _marks(summary, _escape, "\\textbf{{{}}}")
    texts = [" & ".join(line) + r" \\" for line in marks]
    head = " & ".join(_escape(h) for h in summary.headings) + r" \\"
    notes = " ".join(_escape(note) for note in summary.notes)
    columns = "llrrl" + "r" * (len(summary.headings) - 5)
    body = ["\\begin{tabular}{" + columns + "}", "\\toprule", head, "\\midrule", *texts]
    end = ["\\bottomrule", "\\end{tabular}", f"\\caption{{{notes}}}", "\\end{table}", ""]
    return "\n".join(["\\begin{table}", "\\centering", *body, *end])


def _escape(text: str) -> str:
    return "".join(f"\\{c}" if c in "_%&#${}" else c for c in text)


def _marks(summary: Summary, escape: Callable[[str], str], emphasis: str) -> list[list[str]]:
    """The lines' texts, escaped, the best of each column of each system emphasised."""
    best: dict[tuple[Any, ...], float] = {}
    for line in summary.lines:
        for column, cell in enumerate(line):
            if cell.ppl is not None:
                key = (*(c.text for c in line[:FIXED]), column)
                best[key] = min(best.get(key, cell.ppl), cell.ppl)

    def mark(line: list[Cell], column: int) -> str:
        cell, system = line[column], tuple(c.text for c in line[:FIXED])
        won = cell.ppl is not None and cell.ppl == best[*system, column]
        return emphasis.format(escape(cell.text)) if won else escape(cell.text)

    return [[mark(line, column) for column in range(len(line))] for line in summary.lines]


def to_rich(summary: Summary) -> Table:
    """The summary for a terminal."""
    table = Table(title="Fidelity: perplexity of proxies", caption=" ".join(summary.notes))
    for place, heading in enumerate(summary.headings):
        right = heading not in ("corpus", "NMT", "explainer")
        table.add_column(heading, justify="right" if right else "left", no_wrap=place <= FIXED)
    marks = _marks(summary, markup_escape, "[bold green]{}[/]")
    system = None
    for line, texts in zip(summary.lines, marks, strict=True):
        here = tuple(cell.text for cell in line[:FIXED])
        if system not in (None, here):
            table.add_section()
        table.add_row(*texts)
        system = here
    return table


def to_text(summary: Summary) -> str:
    """The summary as plain text."""
    buffer = io.StringIO()
    Console(file=buffer, width=160, color_system=None).print(to_rich(summary))
    return buffer.getvalue()


def write_tables(rows: Sequence[Row], results: Path) -> Summary:
    """Writes `fidelity.csv`, `.txt`, `.md` and `.tex`; gives the summary back."""
    summary = summarise(rows)
    for ending, text in {
        "csv": to_csv(rows),
        "txt": to_text(summary),
        "md": to_markdown(summary),
        "tex": to_latex(summary),
    }.items():
        write_atomically(results / f"fidelity.{ending}", text)
    return summary
