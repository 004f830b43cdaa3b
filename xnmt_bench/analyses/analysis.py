"""What an analysis is: a question asked of a metric's panels, and the table that answers it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import interval
from xnmt_bench.measuring.measurement import signature
from xnmt_bench.measuring.metric import TableRow
from xnmt_bench.report.panels import Panel, caveats
from xnmt_bench.report.summary import ShownTable, Summary, show
from xnmt_bench.report.tracking import Tracker
from xnmt_bench.report.write import write_rows, write_summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Result:
    """One analysis, ready to be shown: every number for the CSV, and a readable table."""

    rows: Sequence[TableRow]
    identity: Sequence[str]  # the columns that tell a row from others, which its signature repeats
    measured: Sequence[str]  # the columns of what was found
    summary: Summary
    figure: Figure | None = None


class Analysis:
    """Base of every analysis. Options are arguments of `__init__`, each with a default.

    Attributes:
        name: as in `analysis=[name]`.
    """

    name: ClassVar[str]

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Answer the question for one metric, of which there is at least one panel.

        A question that takes several metrics together overrides `results` instead.

        Raises:
            NotApplicable: the question has no meaning for these, and what it would take.
        """
        raise NotImplementedError

    def results(self, by_metric: Mapping[str, Sequence[Panel]]) -> Iterator[tuple[str, Result]]:
        """Yield the answer for each metric that the question fits, behind the name of its files.

        Raises:
            NotApplicable: it fits none.
        """
        reasons = []
        for metric, panels in by_metric.items():
            try:
                yield f"{metric}_{self.name}", self.analyse(panels)
            except NotApplicable as error:
                # Not logged: an analysis goes over all metrics, and most questions fit one of them.
                reasons.append(f"{metric}: {error}")
        # One metric that the question fits is an answer.
        if len(reasons) == len(by_metric):
            raise NotApplicable("; ".join(reasons) or "no metric has results")


def estimate(values_R: np.ndarray) -> tuple[float, float, float]:
    """Return a value and the ends of its 95 % interval: of all units, then of each sample."""
    return float(values_R[0]), *interval(values_R[1:])


def publish(
    name: str,
    result: Result,
    by_metric: Mapping[str, Sequence[Panel]],
    made_from: Mapping[str, Any],
    results: Path,
    tracker: Tracker,
) -> ShownTable:
    """Write an analysis's table and figure under its name, log them and print the table.

    A number's signature has the row's identity and `made_from`, all it takes to make it again.
    """
    rows = [
        row | {"signature": signature(name, {c: row[c] for c in result.identity}, made_from)}
        for row in result.rows
    ]
    columns = (*result.identity, *result.measured, "signature")
    corpora = {row["corpus"] for row in rows}
    shown_panels = [
        p for panels in by_metric.values() for p in panels if p.condition["corpus"] in corpora
    ]
    # An analysis of generated data may be read without its metric's table.
    notes = caveats(m for panel in shown_panels for _, m in panel.measurements())
    summary = replace(result.summary, notes=[*result.summary.notes, *notes])
    write_rows(name, rows, columns, results)
    write_summary(name, summary, results)
    tracker.table(name, rows, columns)
    svg = None
    if result.figure is not None:
        from xnmt_bench.report.figure import save_figure  # heavy, and not all draw one

        svg, png, *_ = save_figure(result.figure, results / name)
        tracker.figure(name, png)
    show(summary)
    return ShownTable(name, summary, svg)
