"""Collects a metric's rows, scores them and shows them: the same for every metric."""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from xnmt_bench.measuring.alike import family
from xnmt_bench.measuring.bootstrap import Draws, score
from xnmt_bench.measuring.listing import Listing
from xnmt_bench.measuring.measurement import Measurement, ScoredRow, read
from xnmt_bench.measuring.metric import Metric
from xnmt_bench.report.panels import panels, sortable, sortable_pivot, system_name
from xnmt_bench.report.standing import Standings
from xnmt_bench.report.summary import ShownTable, show
from xnmt_bench.report.table import csv_columns, tables
from xnmt_bench.report.tracking import Tracker
from xnmt_bench.report.verdict import verdict
from xnmt_bench.report.write import write_rows, write_summary

log = logging.getLogger(__name__)


def collect(
    metric: Metric,
    results: Path,
    draws: Draws,
    is_wanted: Callable[[Measurement], bool] = lambda _: True,
) -> list[ScoredRow]:
    """Score the rows of a metric, add the rows made of others, and sort them in reading order.

    Args:
        metric: whose rows.
        results: the folder of results.
        draws: of the intervals.
        is_wanted: says which rows; all, if not given.

    Raises:
        MissingError: there is none.
        StoreError: one is not readable.
    """
    rows = filter(is_wanted, read(metric.name, results, metric.identity))
    scored = [score(metric, m, draws) for m in rows]
    columns = [c for c in (*metric.identity, "model") if c != metric.pivot]

    def place(scored_row: ScoredRow) -> list[object]:
        row = scored_row.row
        # The pivot's values stand together.
        pivot = sortable_pivot(metric.pivot_value(scored_row.measurement)) if metric.pivot else []
        return [*(sortable(row[c]) for c in columns), pivot]

    return sorted([*scored, *metric.combine(scored)], key=place)


def about_systems(
    scored: Mapping[str, tuple[Metric, Sequence[ScoredRow]]], metric: str
) -> list[str]:
    """Return the notes that other metrics give on the systems in a metric's table."""
    metric_rows = scored[metric][1]
    # Of one name and fingerprint, for any corpus of the other metrics.
    systems = {(s.measurement.identity["nmt"], family(s.measurement)) for s in metric_rows}
    notes = []
    for other, rows in (pair for name, pair in scored.items() if name != metric):
        for scored_row in rows:
            row, text = scored_row.row, other.about_system(scored_row.row)
            system = (row["nmt"], family(scored_row.measurement))
            if system in systems and text:
                where = f"{row['corpus']} {row['lang_pair']} {system_name(*system, metric_rows)}"
                notes.append(f"{where}: {text}.")
    return notes


def report(
    metric: Metric,
    scored: Sequence[ScoredRow],
    about: Sequence[str],
    standings: Sequence[Standings],
    results: Path,
    tracker: Tracker,
    notes: Sequence[str] = (),
) -> tuple[list[ShownTable], list[Listing]]:
    """Write and print a metric's tables, draw its figures, and return what the pages show.

    Each table has `notes` under it, beside its own.

    The verdict stands under the table in its files. On the screen it comes last, and on the page
    first, with those of the other metrics.
    """
    # Heavy, and train draws none.
    from xnmt_bench.explanation.figure import heatmap_figures
    from xnmt_bench.report.figure import interval_figure, save_figure, save_parts
    from xnmt_bench.report.heatmap import (
        as_explanation,
        matrix_figure,
        print_weighed,
    )

    rows, columns = [scored_row.row for scored_row in scored], csv_columns(metric)
    write_rows(metric.name, rows, columns, results)
    tracker.table(metric.name, rows, columns)
    svg = None
    if (figure := interval_figure(metric, panels(metric, scored))) is not None:
        svg, png, *_ = save_figure(figure, results / metric.name)
        tracker.figure(metric.name, png)
    measurements = [scored_row.measurement for scored_row in scored if not scored_row.derived]
    for name, metric_figure in metric.figures(measurements):
        save_figure(metric_figure, results / metric.name / name)
    for name, details in metric.details(measurements):
        columns = list(dict.fromkeys(column for row in details for column in row))
        write_rows(name, details, columns, results, metric.reads_details)
    shown: list[ShownTable] = []
    sentences = list(verdict(metric, scored, standings))
    for name, table in tables(metric, scored, about, standings):
        summary = replace(table, notes=[*table.notes, *notes])
        with_verdict = summary.notes if shown else [*sentences, *summary.notes]
        write_summary(name, replace(summary, notes=with_verdict), results)
        show(summary)
        # The figure stands once, with the headline's table.
        shown.append(ShownTable(name, summary, None if shown else svg))
    for caption, sentence in metric.shows(measurements):
        print_weighed(caption, sentence)
        file_name = re.sub(r"\W+", "_", caption.partition("\n")[0])
        figures = heatmap_figures([as_explanation(sentence).panel(file_name.replace("_", " "))])
        save_parts(figures, results / metric.name / file_name)
    # A list, since files are drawn here and the page reads them later.
    listings = list(metric.listings(measurements))
    for listing in listings:
        if listing.files and listing.matrices is not None:
            files = zip(listing.files.items(), listing.matrices(), strict=True)
            for (name, title), (_, matrix) in files:
                save_figure(matrix_figure(title, matrix), results / metric.name / name)
    return shown, listings


def writable(results: Path) -> Path:
    """Return the folder of a report, or another one where nothing may be written there."""
    # Asked before anything is drawn, which takes a while.
    if os.access(results, os.W_OK):
        return results
    elsewhere = Path(tempfile.mkdtemp(prefix="results-"))
    log.warning("%s is read-only: what is written goes to %s", results, elsewhere)
    return elsewhere
