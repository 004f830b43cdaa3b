"""Tables as they are read: in a terminal, as text, CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import html
import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape as markup_escape
from rich.table import Table

from xnmt_bench.metrics.metric import Row, Section
from xnmt_bench.store import write_atomically


@dataclass(frozen=True)
class Cell:
    """One cell of a summary.

    Attributes:
        text: what it says.
        rank: where the best of its column should stand out, a number whose least is the best.
    """

    text: str
    rank: float | None = None


@dataclass(frozen=True)
class Line:
    """One line of the summary, and the block that it is compared in."""

    block: tuple[Any, ...]
    cells: list[Cell]


@dataclass(frozen=True)
class Summary:
    """A table as it is read. What is the same for every line stands in the title.

    Attributes:
        title: one line.
        headings: of the columns.
        lines: its lines; those of one block stand together.
        notes: under the table.
        words: how many columns, from the left, hold words and not numbers.
    """

    title: str
    headings: list[str]
    lines: list[Line]
    notes: list[str]
    words: int = 1


@dataclass(frozen=True)
class Shown:
    """A table that was shown, the figure that belongs to it, and what else is on the page.

    Attributes:
        name: of its files, such as `fidelity`.
        summary: the table.
        figure: the SVG file.
        sections: further sections.
    """

    name: str
    summary: Summary
    figure: Path | None = None
    sections: Sequence[Section] = ()


def to_csv(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Every row, every column."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, restval="", extrasaction="ignore", lineterminator="\n")
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
    columns = "".join("l" if n < summary.words else "r" for n in range(len(summary.headings)))
    body = ["\\begin{tabular}{" + columns + "}", "\\toprule", head, "\\midrule", *texts]
    end = ["\\bottomrule", "\\end{tabular}", f"\\caption{{{notes}}}", "\\end{table}", ""]
    return "\n".join(["\\begin{table}", "\\centering", *body, *end])


def to_html(summary: Summary) -> str:
    """The summary as an HTML table, with its title and its notes."""
    lines = "".join(
        "<tr>"
        + "".join(f"<td{_side(summary, n)}>{text}</td>" for n, text in enumerate(texts))
        + "</tr>\n"
        for texts in _marks(summary, html.escape, "<strong>{}</strong>")
    )
    head = "".join(
        f"<th{_side(summary, n)}>{html.escape(h)}</th>" for n, h in enumerate(summary.headings)
    )
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in summary.notes)
    return (
        f"<h2>{html.escape(summary.title)}</h2>\n<div class=scroll><table>\n<thead><tr>{head}</tr>"
        f"</thead>\n<tbody>\n{lines}</tbody></table></div>\n<div class=notes>{notes}</div>"
    )


def _side(summary: Summary, column: int) -> str:
    return ' class="words"' if column < summary.words else ""


def _escape(text: str) -> str:
    return "".join(f"\\{c}" if c in "_%&#${}" else c for c in text)


def _marks(summary: Summary, escape: Callable[[str], str], emphasis: str) -> list[list[str]]:
    """The lines' texts, escaped, the best of each column of each block emphasised."""
    best: dict[tuple[Any, ...], float] = {}
    for line in summary.lines:
        for column, cell in enumerate(line.cells):
            if cell.rank is not None:
                key = (*line.block, column)
                best[key] = min(best.get(key, cell.rank), cell.rank)

    def mark(line: Line, column: int) -> str:
        cell = line.cells[column]
        won = cell.rank is not None and cell.rank == best[*line.block, column]
        return emphasis.format(escape(cell.text)) if won else escape(cell.text)

    return [[mark(line, column) for column in range(len(line.cells))] for line in summary.lines]


def to_rich(summary: Summary) -> Table:
    """The summary for a terminal."""
    caption = "\n".join(summary.notes)
    table = Table(title=summary.title, caption=caption, caption_justify="left")
    for column, heading in enumerate(summary.headings):
        left = column < summary.words
        table.add_column(heading, justify="left" if left else "right", no_wrap=left)
    # An interval stands under its number, so that the table fits a terminal.
    marks = _marks(
        summary, lambda text: markup_escape(text.replace(" [", "\n[")), "[bold green]{}[/]"
    )
    block = None
    for line, texts in zip(summary.lines, marks, strict=True):
        if block not in (None, line.block):
            table.add_section()
        table.add_row(*texts)
        block = line.block
    return table


def to_text(summary: Summary) -> str:
    """The summary as plain text."""
    buffer = io.StringIO()
    Console(file=buffer, width=160, color_system=None).print(to_rich(summary))
    return buffer.getvalue()


def show(summary: Summary) -> None:
    """Prints the summary to the terminal."""
    Console(width=None if os.isatty(1) else 140).print(to_rich(summary))


def write_summary(name: str, summary: Summary, results: Path) -> None:
    """Writes a table as `<name>.txt`, `.md` and `.tex`."""
    for ending, text in {
        "txt": to_text(summary),
        "md": to_markdown(summary),
        "tex": to_latex(summary),
    }.items():
        write_atomically(results / f"{name}.{ending}", text)


def write_rows(name: str, rows: Sequence[Row], columns: Sequence[str], results: Path) -> None:
    """Writes every number as `<name>.csv`."""
    write_atomically(results / f"{name}.csv", to_csv(rows, columns))
