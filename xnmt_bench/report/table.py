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

from xnmt_bench.report.fragments import COLUMNS, FAMILY, Row
from xnmt_bench.store import write_atomically

SHOWN = ("base", "fn", "rn", "sa", "comb")
HEADINGS = {"base": "Base", "fn": "FN", "rn": "RN", "sa": "SA", "comb": "Comb"}
REFERENCES = ("unigram", "nmt")
KEY = ("corpus", "lang_pair", "nmt", "model", "train_sentences", "k", "explainer")
KEY_HEADINGS = ("corpus", "NMT", "sentences", "k")
LEFT = ("corpus", "NMT", "explainer")  # headings of the columns of words
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
class Line:
    """One line of the summary: the system it belongs to, and its cells."""

    system: tuple[Any, ...]
    cells: list[Cell]


@dataclass(frozen=True)
class Summary:
    """The table as it is read: one line an explainer and k, one column an instantiation.

    What is the same for every line stands in the title and not in a column.
    """

    title: str
    headings: list[str]
    lines: list[Line]
    notes: list[str]


def summarise(rows: Sequence[Row]) -> Summary:
    """Pivots the rows; the lines of a system go from the most faithful explainer to the least."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["instantiation"] not in (*REFERENCES, "comb_valid"):
            groups.setdefault(tuple(row[c] for c in KEY), []).append(row)
    keys = sorted(groups, key=lambda key: (*key[:-1], best(groups[key])))
    named: set[str] = {row["instantiation"] for row in rows} - {*REFERENCES, "comb_valid"}
    present = [i for i in SHOWN if i in named] + sorted(named - set(SHOWN))
    hits = any(row["hit_at_k"] != "" for row in rows)
    texts = {key: _key_texts(key, rows) for key in keys}
    varying = [name for name in KEY_HEADINGS if len({t[name] for t in texts.values()}) > 1]
    lines = []
    for key in keys:
        cells = [Cell(texts[key][name]) for name in (*varying, "explainer")]
        cells += [_cell(groups[key], i) for i in present]
        lines.append(Line(key[:-1], cells + ([_hit(groups[key])] if hits else [])))
    headings = [*varying, "explainer", *(HEADINGS.get(i, i) for i in present)]
    return Summary(_title(texts, varying), headings + ["hit@k"] * hits, lines, _notes(rows))


def _key_texts(key: tuple[Any, ...], rows: Sequence[Row]) -> dict[str, str]:
    corpus, pair, nmt, model, size, k, explainer = key
    return {
        "corpus": f"{corpus} {pair}",
        "NMT": _system(nmt, model, rows),
        "sentences": f"{size:,}",
        "k": str(k),
        "explainer": explainer,
    }


def _title(texts: dict[Any, dict[str, str]], varying: Sequence[str]) -> str:
    """What all lines have in common."""
    forms = {"corpus": "{}", "NMT": "{}", "sentences": "{} training sentences", "k": "k = {}"}
    any_line = next(iter(texts.values()), {})
    shared = [forms[n].format(any_line[n]) for n in forms if any_line and n not in varying]
    return ", ".join(["Fidelity: perplexity of proxies", *shared])


def _system(nmt: str, model: str, rows: Sequence[Row]) -> str:
    """The system's name, with its fingerprint where several share the name."""
    several = len({row["model"] for row in rows if row["nmt"] == nmt}) > 1
    return f"{nmt} {model[:6]}" if several else nmt


def best(group: Sequence[Row]) -> float:
    """The least perplexity of an explainer's trained proxies; Base's where there is none."""
    trained = [r["ppl"] for r in group if r["ppl"] != "" and r["instantiation"] in FAMILY]
    return min(trained or [r["ppl"] for r in group if r["ppl"] != ""] or [float("inf")])


def _cell(group: Sequence[Row], instantiation: str) -> Cell:
    rows = [r for r in group if r["instantiation"] == instantiation]
    numbers = [r for r in rows if r["ppl"] != ""]
    if not numbers:
        # What is n/a for one instantiation is n/a for all: it is the explainer that says nothing.
        without = [r for r in group if r["status"] == "n/a"]
        return Cell(next((r["status"].split(":")[0] for r in [*rows, *without]), ""))
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
            name = _system(row["nmt"], row["model"], rows)
            system = f"{row['corpus']} {row['lang_pair']} {name}"
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
    notes = [f"{note}  " for note in (f"{summary.title}.", *summary.notes)]
    return "\n".join([*lines, "", *notes, ""])


def to_latex(summary: Summary) -> str:
    """The summary as a LaTeX table; needs booktabs."""
    marks = _marks(summary, _escape, "\\textbf{{{}}}")
    texts = [" & ".join(line) + r" \\" for line in marks]
    head = " & ".join(_escape(h) for h in summary.headings) + r" \\"
    notes = " ".join(_escape(note) for note in (f"{summary.title}.", *summary.notes))
    columns = "".join("l" if h in LEFT else "r" for h in summary.headings)
    body = ["\\begin{tabular}{" + columns + "}", "\\toprule", head, "\\midrule", *texts]
    end = ["\\bottomrule", "\\end{tabular}", f"\\caption{{{notes}}}", "\\end{table}", ""]
    return "\n".join(["\\begin{table}", "\\centering", *body, *end])


def _escape(text: str) -> str:
    return "".join(f"\\{c}" if c in "_%&#${}" else c for c in text)


def _marks(summary: Summary, escape: Callable[[str], str], emphasis: str) -> list[list[str]]:
    """The lines' texts, escaped, the best of each column of each system emphasised."""
    least: dict[tuple[Any, ...], float] = {}
    for line in summary.lines:
        for column, cell in enumerate(line.cells):
            if cell.ppl is not None:
                key = (*line.system, column)
                least[key] = min(least.get(key, cell.ppl), cell.ppl)

    def mark(line: Line, column: int) -> str:
        cell = line.cells[column]
        won = cell.ppl is not None and cell.ppl == least[*line.system, column]
        return emphasis.format(escape(cell.text)) if won else escape(cell.text)

    return [[mark(line, column) for column in range(len(line.cells))] for line in summary.lines]


def to_rich(summary: Summary) -> Table:
    """The summary for a terminal."""
    caption = "\n".join(summary.notes)
    table = Table(title=summary.title, caption=caption, caption_justify="left")
    for heading in summary.headings:
        left = heading in LEFT
        table.add_column(heading, justify="left" if left else "right", no_wrap=left)
    # An interval stands under its number, so that the table fits a terminal.
    marks = _marks(
        summary, lambda text: markup_escape(text.replace(" [", "\n[")), "[bold green]{}[/]"
    )
    system = None
    for line, texts in zip(summary.lines, marks, strict=True):
        if system not in (None, line.system):
            table.add_section()
        table.add_row(*texts)
        system = line.system
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
