"""Tables as they are read: in a terminal, as text, CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import html
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape as markup_escape
from rich.table import Table

from xnmt_bench.store import write_atomically

Row = dict[str, Any]
LEFT = (
    "corpus",
    "NMT",
    "explainer",
    "than",
    "instantiation",
    "kind",
    "category",
    "proxy",
    "alignment",
    "side",
    "links of",
)  # headings of the columns of words
GENERATED = "The toy corpus is generated data."


@dataclass(frozen=True)
class Cell:
    """One cell of a summary.

    Attributes:
        text: what it says.
        value: its number where the least of its column should stand out.
    """

    text: str
    value: float | None = None


@dataclass(frozen=True)
class Line:
    """One line of the summary: the system it belongs to, and its cells."""

    system: tuple[Any, ...]
    cells: list[Cell]


@dataclass(frozen=True)
class Summary:
    """A table as it is read. What is the same for every line stands in the title.

    Attributes:
        title: one line.
        headings: of the columns.
        lines: its lines; those of one system stand together.
        notes: under the table.
    """

    title: str
    headings: list[str]
    lines: list[Line]
    notes: list[str]


def common(
    texts: Sequence[Mapping[str, str]], forms: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Splits the columns into those that vary and those whose text stands in the title.

    A text that is empty goes without saying there.

    Args:
        texts: the texts of each line, by heading.
        forms: headings, and how a common text is said in the title, such as `k = {}`.

    Returns:
        Headings that vary, and the phrases of the others.
    """
    varying = [name for name in forms if len({t[name] for t in texts}) > 1]
    told = [n for n in forms if texts and texts[0][n] and n not in varying]
    said = [forms[n].format(texts[0][n]) for n in told]
    return varying, said


def digits(value: float) -> str:
    """Three or four significant digits, as papers print perplexities."""
    return f"{value:.2f}" if value < 100 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def quality_text(facts: Mapping[str, Any]) -> str:
    """Translation quality in a few words, such as `BLEU 32.1, chrF 58.6, TER 57.4`."""
    names = {"BLEU": "BLEU", "chrF2": "chrF", "TER": "TER", "COMET": "COMET"}
    return ", ".join(f"{said} {facts[name]}" for name, said in names.items() if name in facts)


@dataclass(frozen=True)
class Shown:
    """A table that was shown, and the figure that belongs to it.

    Attributes:
        name: of its files, such as `fidelity`.
        summary: the table.
        figure: the SVG file.
    """

    name: str
    summary: Summary
    figure: Path | None = None


def system_name(nmt: str, model: str, rows: Sequence[Row]) -> str:
    """The system's name, with its fingerprint where several share the name."""
    several = len({row["model"] for row in rows if row["nmt"] == nmt}) > 1
    return f"{nmt} {model[:6]}" if several else nmt


def to_csv(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Every row, every column."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, extrasaction="ignore", lineterminator="\n")
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


def to_html(summary: Summary) -> str:
    """The summary as an HTML table, with its title and its notes."""
    lines = "".join(
        "<tr>"
        + "".join(
            f"<td{_side(h)}>{text}</td>" for h, text in zip(summary.headings, texts, strict=True)
        )
        + "</tr>\n"
        for texts in _marks(summary, html.escape, "<strong>{}</strong>")
    )
    head = "".join(f"<th{_side(h)}>{html.escape(h)}</th>" for h in summary.headings)
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in summary.notes)
    return (
        f"<h2>{html.escape(summary.title)}</h2>\n<div class=scroll><table>\n<thead><tr>{head}</tr>"
        f"</thead>\n<tbody>\n{lines}</tbody></table></div>\n<div class=notes>{notes}</div>"
    )


def _side(heading: str) -> str:
    return ' class="words"' if heading in LEFT else ""


def _escape(text: str) -> str:
    return "".join(f"\\{c}" if c in "_%&#${}" else c for c in text)


def _marks(summary: Summary, escape: Callable[[str], str], emphasis: str) -> list[list[str]]:
    """The lines' texts, escaped, the best of each column of each system emphasised."""
    least: dict[tuple[Any, ...], float] = {}
    for line in summary.lines:
        for column, cell in enumerate(line.cells):
            if cell.value is not None:
                key = (*line.system, column)
                least[key] = min(least.get(key, cell.value), cell.value)

    def mark(line: Line, column: int) -> str:
        cell = line.cells[column]
        won = cell.value is not None and cell.value == least[*line.system, column]
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


def show(summary: Summary) -> None:
    """Prints the summary to the terminal."""
    Console(width=None if os.isatty(1) else 140).print(to_rich(summary))


def write_summary(
    name: str, rows: Sequence[Row], columns: Sequence[str], summary: Summary, results: Path
) -> None:
    """Writes the rows as `<name>.csv` and their summary as `.txt`, `.md` and `.tex`."""
    for ending, text in {
        "csv": to_csv(rows, columns),
        "txt": to_text(summary),
        "md": to_markdown(summary),
        "tex": to_latex(summary),
    }.items():
        write_atomically(results / f"{name}.{ending}", text)
