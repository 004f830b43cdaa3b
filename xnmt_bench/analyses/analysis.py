"""What an analysis is: a question asked of a metric's panels, and the table that answers it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.measurement import signature
from xnmt_bench.metrics.metric import Row
from xnmt_bench.report.panels import Panel, Told, generated_notes, told_apart
from xnmt_bench.report.summary import (
    Cell,
    Line,
    Shown,
    Summary,
    show,
    write_rows,
    write_summary,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from xnmt_bench.report.tracking import Tracker


@dataclass(frozen=True)
class Result:
    """One analysis, ready to be shown.

    Attributes:
        rows: every number, for the CSV.
        identity: the columns that tell a row from others, which its signature repeats.
        measured: the columns of what was found.
        summary: the table as it is read.
        figure: a figure that could stand in a paper, where one helps.
    """

    rows: Sequence[Row]
    identity: Sequence[str]
    measured: Sequence[str]
    summary: Summary
    figure: Figure | None = None


class Analysis(ABC):
    """Base of every analysis. Options are arguments of `__init__`, each with a default.

    Attributes:
        name: as in `analysis=[name]`.
    """

    name: ClassVar[str]

    @abstractmethod
    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Answers the question for one metric.

        Args:
            panels: every condition of the metric, at least one.

        Raises:
            NotApplicable: the question has no meaning for these, and what it would take.
        """

    def results(self, by_metric: Mapping[str, Sequence[Panel]]) -> Iterator[tuple[str, Result]]:
        """Every answer, with the name of its files: of each metric that the question fits.

        Raises:
            NotApplicable: it fits none.
        """
        reasons = []
        for metric, panels in by_metric.items():
            try:
                result = self.analyse(panels)
            except NotApplicable as error:
                reasons.append(f"{metric}: {error}")
            else:
                yield f"{metric}_{self.name}", result
        if len(reasons) == len(by_metric):
            raise NotApplicable("; ".join(reasons) or "no metric has results")


def pivoted(
    title: str,
    panels: Sequence[Panel],
    by_panel: Sequence[Sequence[Row]],
    words: Mapping[str, str],
    across: str,
    cell: Callable[[Row], Cell],
    notes: Sequence[str],
    told: Told | None = None,
    order: Sequence[Any] | None = None,
) -> Summary:
    """Rows as a table with one line for each combination of words, one column a value.

    Args:
        title: how the title starts.
        panels: the conditions.
        by_panel: the rows of each, in reading order.
        words: headings of the lines' words, and the rows' columns that hold them.
        across: the rows' column whose values are the table's columns.
        cell: what a row says.
        notes: under the table.
        told: how the panels are told apart, where not by all of their condition.
        order: of the values; that of the rows, if not given.
    """
    told = told or told_apart(panels)
    values = order or list(dict.fromkeys(row[across] for own in by_panel for row in own))

    def text(column: str, value: Any) -> str:
        if column == "result":
            return panels[0].heading(value)
        return f"{value:,}" if isinstance(value, int) else str(value)

    lines = []
    for panel, own, told_text in zip(panels, by_panel, told.texts, strict=True):
        by_line: dict[tuple[Any, ...], dict[Any, Row]] = {}
        for row in own:
            by_line.setdefault(tuple(row[c] for c in words.values()), {})[row[across]] = row
        for key, of_line in by_line.items():
            start = [told_text[heading] for heading in told.varying]
            start += [text(c, value) for c, value in zip(words.values(), key, strict=True)]
            cells = [cell(of_line[v]) if v in of_line else Cell("") for v in values]
            block = [v for c, v in zip(words.values(), key, strict=True) if c == "result"]
            lines.append(Line((*panel.condition.values(), *block), [*map(Cell, start), *cells]))
    headings = [*told.varying, *words, *(text(across, value) for value in values)]
    width = len(told.varying) + len(words)
    return Summary(told.title(title), headings, lines, list(notes), width)


def publish(
    name: str,
    result: Result,
    by_metric: Mapping[str, Sequence[Panel]],
    made_from: Mapping[str, Any],
    results: Path,
    tracker: Tracker,
) -> Shown:
    """Writes table and figure of an analysis, and shows the table.

    Args:
        name: of its files.
        result: the answer.
        by_metric: what it was asked of.
        made_from: what its numbers take to be made again, beside a row's identity.
        results: the folder where the files go.
        tracker: who else is told.
    """
    rows = []
    for row in result.rows:
        who = {column: row[column] for column in result.identity}
        rows.append(row | {"signature": signature(name, who, made_from)})
    columns = (*result.identity, *result.measured, "signature")
    corpora = {row["corpus"] for row in rows}
    measured = [
        m
        for panels in by_metric.values()
        for panel in panels
        for _, m in panel.measurements()
        if m.identity["corpus"] in corpora
    ]
    summary = replace(result.summary, notes=[*result.summary.notes, *generated_notes(measured)])
    write_rows(name, rows, columns, results)
    write_summary(name, summary, results)
    tracker.table(name, rows, columns)
    svg = None
    if result.figure is not None:
        from xnmt_bench.report.figure import save_figure

        svg, png = save_figure(result.figure, results / name)
        tracker.figure(name, png)
    show(summary)
    return Shown(name, summary, svg)
