"""Collects a metric's rows, scores them and shows them: the same for every metric."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xnmt_bench.metrics.bootstrap import Draws, score
from xnmt_bench.metrics.measurement import Scored, read
from xnmt_bench.metrics.metric import Metric
from xnmt_bench.report.panels import panels, sortable, system_name
from xnmt_bench.report.summary import Shown, show, write_rows, write_summary
from xnmt_bench.report.table import csv_columns, tables

if TYPE_CHECKING:
    from xnmt_bench.report.tracking import Tracker

log = logging.getLogger(__name__)


def collect(metric: Metric, results: Path, draws: Draws) -> list[Scored]:
    """Every row of a metric with its numbers, those made of others included, in reading order.

    Raises:
        MissingError: there is none.
        StoreError: one is not readable.
    """
    rows = [score(metric, m, draws) for m in read(metric.name, results, metric.identity)]
    rows += metric.combine(rows)

    def place(one: Scored) -> list[object]:
        columns = [c for c in metric.identity if c != metric.pivot]
        values = [sortable(one.row[c]) for c in (*columns, "model")]
        pivot = metric.pivot_order(one.row[metric.pivot]) if metric.pivot else ()
        return [*values, pivot]

    return sorted(rows, key=place)


def about_systems(scored: Mapping[str, tuple[Metric, Sequence[Scored]]], metric: str) -> list[str]:
    """What other metrics say of the systems in a metric's table, a note each.

    Args:
        scored: every metric that has rows, by name.
        metric: whose table it is for.
    """
    own = scored[metric][1]
    systems = {(s.measurement.identity["nmt"], s.measurement.model): s.row for s in own}
    notes = []
    for name, (other, rows) in scored.items():
        for one in rows if name != metric else ():
            identity = one.measurement.identity
            row = systems.get((identity["nmt"], one.measurement.model))
            text = other.about_system(one.row)
            if row is not None and text:
                where = f"{identity['corpus']} {identity['lang_pair']} {system_name(row, own)}"
                notes.append(f"{where}: {text}.")
    return notes


def report(
    metric: Metric,
    scored: Sequence[Scored],
    about: Sequence[str],
    results: Path,
    tracker: Tracker,
) -> list[Shown]:
    """Writes and prints a metric's tables, draws its figures; gives back what the page shows."""
    from xnmt_bench.report.figure import interval_figure, save_figure  # heavy, and train draws none

    rows, columns = [one.row for one in scored], csv_columns(metric)
    write_rows(metric.name, rows, columns, results)
    tracker.table(metric.name, rows, columns)
    svg = None
    if (figure := interval_figure(metric, panels(metric, scored))) is not None:
        svg, png = save_figure(figure, results / metric.name)
        tracker.figure(metric.name, png)
    measurements = [one.measurement for one in scored if not one.derived]
    for name, own in metric.figures(measurements):
        save_figure(own, results / metric.name / name)
    shown: list[Shown] = []
    for name, summary in tables(metric, scored, about):
        write_summary(name, summary, results)
        show(summary)
        first = not shown
        sections = metric.sections(measurements) if first else []
        shown.append(Shown(name, summary, svg if first else None, sections))
    return shown
