"""The table of any metric: one line for each thing compared, under each condition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from xnmt_bench.metrics.measurement import FAILED, Scored
from xnmt_bench.metrics.metric import Column, Metric
from xnmt_bench.report.panels import (
    Panel,
    caveats,
    compared_heading,
    compared_name,
    ends,
    panels,
    seeds_cell,
    system_name,
    told_apart,
)
from xnmt_bench.report.summary import Cell, Line, Summary

SEEDS = "Several seeds: their mean, and the union of their intervals."


def csv_columns(metric: Metric) -> list[str]:
    """Every column of a metric's CSV."""
    results = [n for c in metric.columns for n in (ends(c.name) if c.interval else (c.name,))]
    return [*metric.identity, "model", *results, "units", "empty_draws", "status", "signature"]


def tables(
    metric: Metric, scored: Sequence[Scored], about: Sequence[str]
) -> Iterator[tuple[str, Summary]]:
    """The tables of a metric by name: one, or with a pivot one for each result with a title.

    What other metrics say `about` the systems, a note each, stands under the first.
    """
    shown = [c for c in metric.columns if c.shown and any(c.name in s.values for s in scored)]
    shown = shown or [metric.headline]  # without a number, why is all there is to show
    notes = _notes(metric, scored, about)
    if metric.pivot is None:
        yield metric.name, summarise(metric, scored, metric.title, shown, None, notes)
        return
    beside = [column for column in shown if not column.title and column is not metric.headline]
    yield metric.name, summarise(metric, scored, metric.title, beside, metric.headline, notes)
    for column in (c for c in shown if c.title):
        # Comb is chosen by the headline, so it is no row of another result's.
        own = [s for s in scored if column.name in s.values and not s.derived]
        notes = [column.note, *caveats(s.measurement for s in own)]
        summary = summarise(metric, own, column.title, [], column, notes)
        yield f"{metric.name}_{column.name}", summary


def summarise(
    metric: Metric,
    scored: Sequence[Scored],
    title: str,
    columns: Sequence[Column],
    pivoted: Column | None,
    notes: Sequence[str],
) -> Summary:
    """One table: of `pivoted` a column for each value of the pivot, then the `columns`."""
    conditions = panels(metric, scored)
    told = told_apart(conditions)
    measured = {pivot for panel in conditions for pivot in panel.rows} - set(metric.csv_only)
    pivots = sorted(measured, key=metric.pivot_order) if pivoted else []
    lines = []
    for panel, texts in zip(conditions, told.texts, strict=True):
        for name in sorted(panel.names, key=lambda n: _place(panel, n, pivoted)):
            rows = [s for by_name in panel.rows.values() for s in by_name.get(name, [])]
            cells = [Cell(text) for text in (*texts, name)]
            # What is n/a for one value of the pivot is so for all: the explainer is silent.
            absent = Cell("" if any(s.measurement.ok for s in rows) else "n/a")
            for pivot in pivots:
                own = panel.of(pivot, name)
                cells.append(Cell(*seeds_cell(pivoted, own)) if own and pivoted else absent)
            for column in columns:
                # With a pivot, what is the same for all its values stands once.
                # Why there is no number stands in the first column alone.
                first = column is columns[0] and not pivoted
                having = rows if first else [s for s in rows if column.name in s.values]
                cells.append(Cell(*seeds_cell(column, having, emphasise=pivoted is None)))
            lines.append(Line(tuple(panel.condition.values()), cells))
    words = [*told.varying, compared_heading(metric)]
    headings = [*words, *map(metric.heading, pivots), *(c.heading for c in columns)]
    return Summary(told.title(title), headings, lines, list(notes), len(words))


def _place(panel: Panel, name: str, pivoted: Column | None) -> tuple[float, str]:
    """Lines of a panel go from the best to the worst."""
    pivots = [pivot for pivot in panel.rows if pivot not in panel.metric.csv_only]
    ranks = {p: rank for p in pivots if (rank := panel.rank(p, name, pivoted)) is not None}
    return (panel.metric.ranking(ranks) if ranks else float("inf"), name)


def _notes(metric: Metric, scored: Sequence[Scored], about: Sequence[str]) -> list[str]:
    notes = [metric.note, *caveats(s.measurement for s in scored)]
    seeds = Counter(
        (*(v for c, v in m.identity.items() if c != "seed"), m.model)
        for m in (s.measurement for s in scored)
    )
    if max(seeds.values(), default=0) > 1:
        notes[0] += f" {SEEDS}"
    headline = metric.headline
    for one in scored:
        row = one.row
        what = metric.reference(row)
        if what is not None and headline.name in row:
            kinds = [
                key.phrase.format(key.text(row[key.name]))
                for key in metric.keys
                if key.name not in (metric.pivot, metric.compared, "seed")
                and row[key.name] not in ("", key.usual)
            ]
            which = ", ".join([str(row[metric.pivot]) if metric.pivot else "", *kinds])
            where = f"{row['corpus']} {row['lang_pair']} {system_name(row, scored)}"
            value = f"{headline.heading} {headline.form(row[headline.name])}"
            notes.append(f"{where}: {value} for {which}: {what}.")
    notes += [*metric.notes(scored), *about]
    for one in (s for s in scored if s.measurement.status.startswith(FAILED)):
        row = one.row
        parts = [compared_name(metric, one, scored), str(row.get(metric.pivot or "", ""))]
        parts += [f"seed {row['seed']}"] if row.get("seed", "") != "" else []
        notes.append(f"{row['nmt']} {' '.join(filter(None, parts))}: {row['status']}")
    if most := max((s.values.get("empty_draws", 0) for s in scored), default=0):
        notes.append(
            f"Up to {most:.0f} bootstrap samples of a row held nothing to measure; its interval is "
            "that of the others."
        )
    return notes
