"""Tables for readers: in a terminal, as text, CSV, Markdown and HTML."""

from __future__ import annotations

import csv
import html
import io
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, repeat
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape as markup_escape
from rich.table import Table

from xnmt_bench.measuring.metric import TableRow


@dataclass(frozen=True)
class Cell:
    """What one cell says, and the rank of what it says: the least stands out as the best."""

    text: str
    rank: float | None = None


@dataclass(frozen=True)
class Line:
    """One line of a summary, and the block that it is compared in."""

    block: tuple[Any, ...]
    cells: list[Cell]


@dataclass(frozen=True)
class Summary:
    """A table for readers. Columns that are the same for every line stand in the title.

    Attributes:
        title: one line.
        headings: of the columns.
        lines: those of one block stand together.
        notes: under the table.
        words: how many columns, from the left, hold words and not numbers.
        size: of the test set, such as `200 test sentences`, for a caption.
        legend: what bold cells, marks and brackets mean, a phrase each, for a caption.
    """

    title: str
    headings: list[str]
    lines: list[Line]
    notes: list[str]
    words: int = 1
    size: str = ""
    legend: Sequence[str] = ()


@dataclass(frozen=True)
class ShownTable:
    """A table that was shown, and the SVG of its figure.

    Its name is that of its files, such as `fidelity`.
    """

    name: str
    summary: Summary
    figure: Path | None = None


def to_csv(rows: Sequence[TableRow], columns: Sequence[str], read_back: bool = False) -> str:
    """Return all rows as CSV.

    Args:
        rows: the rows.
        columns: their names.
        read_back: change no text, for a file that a program reads. Otherwise a text that a
            spreadsheet would run as a formula begins with `'`.
    """
    buffer = io.StringIO()
    # One line end on every platform, so that equal rows are equal bytes.
    writer = csv.DictWriter(buffer, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    written = rows if read_back else [{n: _harmless(v) for n, v in row.items()} for row in rows]
    writer.writerows(written)
    return buffer.getvalue()


def _harmless(value: Any) -> Any:
    formula = isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value)
    return f"'{value}" if formula else value


def to_markdown(summary: Summary) -> str:
    """Return the summary as a Markdown table."""
    # Escaped before the emphasis is added, or its own marks would be escaped.
    marks = _marks(summary, _markdown, "**{}**")
    headings = map(_markdown, summary.headings)
    head, *lines = (f"| {' | '.join(texts)} |" for texts in (headings, *marks))
    rule = "|" + " --- |" * len(summary.headings)
    texts = map(_markdown, (f"{summary.title}.", *summary.notes))
    notes = [f"{text}  " for text in texts]  # two blanks end a line
    return "\n".join([head, rule, *lines, "", *notes, ""])


def _markdown(text: str) -> str:
    """Return a text as one line that holds no HTML and ends no cell."""
    line = " ".join(text.split()).replace("&", "&amp;").replace("|", r"\|")
    # A `<` in front of a blank, as in `a < b`, begins no tag.
    return re.sub(r"<(?=\S)", "&lt;", line)


def to_html(summary: Summary) -> str:
    """Return the summary as an HTML table, with its title and its notes."""

    def cells(tag: str, texts: Iterable[str]) -> str:
        starts = chain(repeat(f'{tag} class="words"', summary.words), repeat(tag))
        return "".join(f"<{start}>{t}</{tag}>" for start, t in zip(starts, texts, strict=False))

    # A rule between blocks, since the best is marked within each and not across them.
    blocks = [line.block for line in summary.lines]
    begins = [number > 0 and blocks[number - 1] != block for number, block in enumerate(blocks)]
    marks = _marks(summary, _html, "<strong>{}</strong>")
    lines = "".join(
        f"<tr{' class=begins' * first}>{cells('td', line)}</tr>\n"
        for first, line in zip(begins, marks, strict=True)
    )
    head = cells("th", map(html.escape, summary.headings))
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in summary.notes)
    return (
        f"<h2>{html.escape(summary.title)}</h2>\n<div class=scroll><table class=summary>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}</tbody></table></div>\n"
        f"<div class=notes>{notes}</div>"
    )


def _html(text: str) -> str:
    """Escape a cell's text; an interval may go under its number, in small type.

    They begin after a blank, so that a name with options, `random[a=1]`, stays whole.
    """
    # Escaped first, so that only the tags added here are tags.
    breakable = re.sub(r" (?=[\[(|])", " <wbr>", html.escape(text))
    return re.sub(r"<wbr>(\[.*?\])", r"<wbr><small>\1</small>", breakable)


BESIDE = 3  # characters of a column that are not its text: a space on each side, and a border
_FORMULA = re.compile(r"\s*[=+\-@].", re.DOTALL)
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?(e[+-]?\d+)?")


def best_cells(summary: Summary) -> list[list[bool]]:
    """Return which cells of each line are the best of their column and block."""
    best: dict[tuple[Any, ...], float] = {}
    for line in summary.lines:
        for place, cell in enumerate(line.cells):
            if cell.rank is not None and not math.isnan(cell.rank):
                key = (*line.block, place)
                # Ranks are such that the least is the best, in either direction.
                best[key] = min(best.get(key, cell.rank), cell.rank)
    # Equal ranks are all the best: none of them is the better one.
    return [
        [
            cell.rank is not None and cell.rank == best.get((*line.block, place))
            for place, cell in enumerate(line.cells)
        ]
        for line in summary.lines
    ]


def _marks(summary: Summary, escape: Callable[[str], str], emphasis: str) -> list[list[str]]:
    """Return the lines' texts, escaped, the best of each column of each block emphasised."""
    return [
        [
            emphasis.format(escape(cell.text)) if is_best else escape(cell.text)
            for cell, is_best in zip(line.cells, best, strict=True)
        ]
        for line, best in zip(summary.lines, best_cells(summary), strict=True)
    ]


def to_tables(summary: Summary, width: int) -> list[Table]:
    """Return the summary for a terminal: one table, or several where its columns need more room.

    Each repeats the columns of words. The title stands over the first, the notes under the last.
    """
    # An interval stands under its number, so that the table fits a terminal.
    marks = _marks(summary, lambda t: markup_escape(t.replace(" [", "\n[")), "[bold green]{}[/]")
    tables = [_to_table(summary, marks, part) for part in _share_width(summary, width)]
    tables[0].title = markup_escape(summary.title)
    tables[-1].caption = markup_escape("\n".join(summary.notes))
    return tables


def _to_table(
    summary: Summary, marks: Sequence[Sequence[str]], widths: Mapping[int, int | None]
) -> Table:
    """Return a table of the columns that have a width; None is what a column needs."""
    table = Table(caption_justify="left")
    for column, width in widths.items():
        is_words = column < summary.words
        table.add_column(
            markup_escape(summary.headings[column]),
            justify="left" if is_words else "right",
            no_wrap=is_words,
            width=width,
        )
    for _, block in groupby(zip(summary.lines, marks, strict=True), lambda pair: pair[0].block):
        for _, texts in block:
            table.add_row(*(texts[column] for column in widths))
        table.add_section()
    return table


def _share_width(summary: Summary, width: int) -> list[dict[int, int | None]]:
    """Share the columns among as few tables as have room for them in order.

    Returns:
        The widths of each table's columns. No number is cut, unless the words alone fill the width.
    """
    cells = [
        [line.cells[column].text.replace(" [", "\n[") for line in summary.lines]
        for column in range(len(summary.headings))
    ]
    words: dict[int, int | None] = dict.fromkeys(range(summary.words))
    numbers = range(summary.words, len(cells))
    room = width - 1
    for column in words:
        room -= BESIDE + _widest([summary.headings[column], *cells[column]], str.splitlines)
    # Headings are broken between words.
    heads = [_widest([heading], str.split) for heading in summary.headings]
    least = {c: max(heads[c], _widest(cells[c], str.split)) for c in numbers}
    line_widths = {c: max(heads[c], _widest(cells[c], str.splitlines)) for c in numbers}
    full_width = sum(BESIDE + max(cell_len(summary.headings[c]), line_widths[c]) for c in numbers)
    if not numbers or full_width <= room:
        return [words | dict.fromkeys(numbers)]
    free = room - sum(BESIDE + least[c] for c in numbers)
    if free >= 0:
        widths: dict[int, int | None] = {}
        for column in numbers:
            # Columns from the left get their whole lines, as far as there is room.
            wider = min(free, line_widths[column] - least[column])
            widths[column] = least[column] + wider
            free -= wider
        return [words | widths]
    parts: list[dict[int, int | None]] = []
    for column in numbers:
        if not parts or BESIDE + line_widths[column] > free:
            parts.append({**words})
            free = room
        parts[-1][column] = line_widths[column]
        free -= BESIDE + line_widths[column]
    return parts


def _widest(texts: Iterable[str], split: Callable[[str], list[str]]) -> int:
    """Return the width of a column that breaks its texts no further than into these parts."""
    return max((cell_len(part) for text in texts for part in split(text)), default=0)


def to_text(summary: Summary) -> str:
    """Return the summary as plain text."""
    buffer = io.StringIO()
    # A fixed width: a file must not depend on the terminal.
    _print(summary, Console(file=buffer, width=160, color_system=None))
    return buffer.getvalue()


def show(summary: Summary) -> None:
    """Print the summary to the terminal."""
    # Into a pipe or a log rich would assume 80 columns, and fold every table.
    _print(summary, Console(width=None if os.isatty(1) else 140))


def _print(summary: Summary, console: Console) -> None:
    """Print the tables of a summary."""
    for table in to_tables(summary, console.width):
        console.print(table)
