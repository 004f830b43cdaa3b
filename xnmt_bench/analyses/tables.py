"""Tables of an analysis, laid out from its rows: a line each, or values side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from xnmt_bench.measuring.measurement import SETTINGS
from xnmt_bench.measuring.metric import Form, TableRow
from xnmt_bench.report.panels import Distinction, Panel, distinguish
from xnmt_bench.report.summary import Cell, Line, Summary

# Columns in which rows of one table may differ besides those that its title names.
FURTHER = ("prefix", "scenario", "learned_from", "train_sentences", "model", SETTINGS)


def varying_words(
    title: str, rows: Sequence[TableRow], phrases: Mapping[str, str]
) -> tuple[list[str], str]:
    """Return the columns in which rows differ, those of `FURTHER` last, and the title.

    The title says what they share of the others.

    Args:
        title: how it starts.
        rows: of the table.
        phrases: of each column, how the title shows its value, such as `k = {}`.
    """
    values = {name: {row[name] for row in rows} for name in phrases}
    varying = [name for name in phrases if len(values[name]) > 1]
    shared = [phrases[n].format(*values[n]) for n in phrases if n not in varying]
    further = [n for n in FURTHER if n in rows[0] and len({str(row[n]) for row in rows}) > 1]
    return varying + further, title + (f" ({', '.join(shared)})" if shared else "")


# The block of a line, its words, and the row that its numbers are of.
RowLine = tuple[Iterable[Any], Iterable[str], TableRow]
# A heading, and what makes the text of a row's cell, such as `"{change:+.2f}".format_map`.
ShownColumn = tuple[str, Callable[[TableRow], str]]


def listed(
    title: str,
    words: Sequence[str],
    lines: Iterable[RowLine],
    columns: Iterable[ShownColumn],
    notes: Sequence[str],
) -> Summary:
    """Lay out rows as a table of a line each.

    Args:
        title: the whole of it.
        words: headings of the lines' words.
        lines: in reading order.
        columns: the others.
        notes: under the table.
    """
    columns = list(columns)
    laid_out = [
        Line((*block,), [*map(Cell, texts), *(Cell(text(row)) for _, text in columns)])
        for block, texts, row in lines
    ]
    headings = [*words, *(heading for heading, _ in columns)]
    return Summary(title, headings, laid_out, list(notes), len(words))


def lines_of(
    rows: Iterable[TableRow], block: Iterable[str], words: Iterable[str]
) -> Iterator[RowLine]:
    """Yield rows as lines, whose block and words are columns of theirs."""
    for row in rows:
        yield [row[name] for name in block], [str(row[name]) for name in words], row


def written(form: Callable[[Any], str], *names: str) -> Callable[[TableRow], str]:
    """Return what writes a number of a row, which may be empty; of three, one with its interval."""
    text = "{} [{}, {}]" if len(names) == 3 else "{}"

    def write(row: TableRow) -> str:
        numbers = [row[name] for name in names]
        return "" if numbers[0] == "" else text.format(*map(form, numbers))

    return write


def if_known(form: Form) -> Form:
    """Return a form that leaves NaN empty."""
    return lambda value: "" if value != value else form(value)  # only NaN differs from itself


def yes_or_no(value: bool) -> str:
    """Return a verdict as tables show it."""
    return "yes" if value else "no"


def beside(
    rows: Iterable[TableRow], names: Iterable[str], across: str
) -> dict[tuple[Any, ...], dict[Any, TableRow]]:
    """Return rows by their values of some columns, and then by that of the column `across`."""
    by_line: dict[tuple[Any, ...], dict[Any, TableRow]] = {}
    for row in rows:
        # A dictionary keeps the order in which lines first come.
        by_line.setdefault(tuple(row[name] for name in names), {})[row[across]] = row
    return by_line


def pivoted(
    title: str,
    panels: Sequence[Panel],
    by_panel: Sequence[Sequence[TableRow]],
    words: Mapping[str, str],
    across: str,
    cell: Callable[[TableRow], Cell],
    notes: Sequence[str],
    distinction: Distinction | None = None,
    order: Sequence[Any] | None = None,
) -> Summary:
    """Lay out each panel's rows as a table: a line for each combination of words, a column a value.

    Args:
        title: how it starts.
        panels: the conditions.
        by_panel: the rows of each, in reading order.
        words: headings of the lines' words, and the rows' columns that hold them.
        across: the rows' column that holds the values.
        cell: what a row says.
        notes: under the table.
        distinction: how the panels differ, where not by all of their condition.
        order: of the values; that of the rows, if not given.
    """
    distinction = distinction or distinguish(panels)
    values = order or list(dict.fromkeys(row[across] for rows in by_panel for row in rows))

    def text(column: str, value: Any) -> str:
        if column == "result":
            return panels[0].heading(value)
        return f"{value:,}" if isinstance(value, int) else str(value)

    lines = []
    for panel, rows, condition in zip(panels, by_panel, distinction.texts, strict=True):
        for key, by_value in beside(rows, words.values(), across).items():
            line_words = dict(zip(words.values(), key, strict=True))
            cells = [Cell(t) for t in (*condition, *(text(c, v) for c, v in line_words.items()))]
            cells += [cell(by_value[v]) if v in by_value else Cell("") for v in values]
            # Values of one result compare, those of two do not, even in equal columns.
            result = [line_words["result"]] if "result" in line_words else []
            lines.append(Line((*panel.condition.values(), *result), cells))
    headings = [*distinction.varying, *words, *(text(across, value) for value in values)]
    width = len(distinction.varying) + len(words)
    return Summary(distinction.title(title), headings, lines, list(notes), width)
