"""What an analysis is: a question asked of a metric's panels, and the table that answers it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.measurement import signature
from xnmt_bench.metrics.metric import Row
from xnmt_bench.report.panels import Panel, generated_notes
from xnmt_bench.report.summary import Shown, Summary, show, write_rows, write_summary

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
        parts = {column: row[column] for column in result.identity} | dict(made_from)
        rows.append(row | {"signature": signature(name.upper(), **parts)})
    columns = (*result.identity, *result.measured, "signature")
    corpora = {row.get("corpus") for row in rows}
    scored = [
        s
        for panels in by_metric.values()
        for panel in panels
        if panel.condition["corpus"] in corpora
        for by_name in panel.rows.values()
        for seeds in by_name.values()
        for s in seeds
    ]
    summary = replace(result.summary, notes=[*result.summary.notes, *generated_notes(scored)])
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
