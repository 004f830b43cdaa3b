"""The table of any metric: one line for each thing compared, under each condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xnmt_bench.metrics.measurement import FAILED, Scored
from xnmt_bench.metrics.metric import Column, Metric
from xnmt_bench.report.panels import (
    Panel,
    compared_name,
    generated_notes,
    panels,
    seeds_cell,
    system_name,
    told_apart,
)
from xnmt_bench.report.summary import Cell, Line, Summary

SEEDS = "Several seeds: their mean, and the union of their intervals."


def csv_columns(metric: Metric) -> list[str]:
    """Every column of a metric's CSV."""
    results = [
        f"{column.name}{end}"
        for column in metric.columns
        for end in (("", "_low", "_high") if column.interval else ("",))
    ]
    return [*metric.identity, "model", *results, "units", "empty_draws", "status", "signature"]


def tables(
    metric: Metric, scored: Sequence[Scored], about: Sequence[str]
) -> Iterator[tuple[str, Summary]]:
    """The tables of a metric by name: one, or with a pivot one for each result with an interval.

    Args:
        metric: the metric.
        scored: its rows.
        about: what other metrics say of the systems, a note each.
    """
    shown = [c for c in metric.columns if c.shown and any(c.name in s.values for s in scored)]
    if not shown:  # nothing has a number, and why is all there is to show
        shown = [metric.headline]
    if metric.pivot is None:
        yield metric.name, summarise(metric, scored, shown, None, about)
        return
    beside = [column for column in shown if not column.interval]
    for column in shown:
        if column is metric.headline:
            yield metric.name, summarise(metric, scored, beside, column, about)
        elif column.interval:
            yield f"{metric.name}_{column.name}", summarise(metric, scored, [], column, about)


def summarise(
    metric: Metric,
    scored: Sequence[Scored],
    columns: Sequence[Column],
    pivoted: Column | None,
    about: Sequence[str],
) -> Summary:
    """One table.

    Args:
        metric: the metric.
        scored: its rows.
        columns: results with a column each.
        pivoted: the result with a column for each value of the pivot, if any.
        about: further notes on the systems.
    """
    found = panels(metric, scored)
    told = told_apart(found)
    there = {pivot for panel in found for pivot in panel.rows} - set(metric.csv_only)
    pivots = sorted(there, key=metric.pivot_order) if pivoted else []
    if pivoted is not None and pivoted is not metric.headline:
        # A row that was not measured so has no place in this table.
        pivots = [p for p in pivots if _any_number(found, p, pivoted)]
    lines = []
    for panel, text in zip(found, told.texts, strict=True):
        for name in sorted(panel.names, key=lambda n: _place(panel, n)):
            cells = [Cell(text[heading]) for heading in told.varying] + [Cell(name)]
            if pivoted is not None:
                cells += [_pivot_cell(panel, pivot, name, pivoted) for pivot in pivots]
            rows = [s for by_name in panel.rows.values() for s in by_name.get(name, [])]
            for column in columns:
                # With a pivot, what is the same for all its values stands once.
                having = [s for s in rows if column.name in s.values] if pivoted else rows
                cells.append(Cell(*seeds_cell(column, having, emphasise=pivoted is None)))
            lines.append(Line(tuple(panel.condition.values()), cells))
    thing = "NMT" if metric.compared == "nmt" else metric.compared
    headings = [*told.varying, thing, *map(metric.heading, pivots), *(c.heading for c in columns)]
    title = metric.title
    if pivoted is not None and pivoted is not metric.headline:
        title += f", by {pivoted.heading}"
    notes = _notes(metric, scored, about)
    return Summary(told.title(title), headings, lines, notes, words=len(told.varying) + 1)


def _any_number(found: Sequence[Panel], pivot: str, column: Column) -> bool:
    return any(
        panel.value(pivot, name, column) is not None for panel in found for name in panel.names
    )


def _place(panel: Panel, name: str) -> tuple[float, str]:
    """Lines of a panel go from the best to the worst."""
    column, metric = panel.metric.headline, panel.metric
    ranks = {}
    for pivot in panel.rows:
        value = panel.value(pivot, name)
        if value is not None and pivot not in metric.csv_only:
            ranks[pivot] = value if column.better is None else column.rank(value) or 0.0
    return (metric.ranking(ranks) if ranks else float("inf"), name)


def _pivot_cell(panel: Panel, pivot: str, name: str, column: Column) -> Cell:
    rows = panel.of(pivot, name)
    if not rows:
        # What is n/a for one value of the pivot is so for all: it is the explainer that is silent.
        others = [s for by_name in panel.rows.values() for s in by_name.get(name, [])]
        return Cell("n/a" if others and not any(s.measurement.ok for s in others) else "")
    return Cell(*seeds_cell(column, rows))


def _notes(metric: Metric, scored: Sequence[Scored], about: Sequence[str]) -> list[str]:
    notes = [metric.note, *generated_notes(scored)]
    seeds: dict[tuple[object, ...], int] = {}
    for one in scored:
        others = tuple(v for c, v in one.measurement.identity.items() if c != "seed")
        seeds[(*others, one.measurement.model)] = seeds.get((*others, one.measurement.model), 0) + 1
    if max(seeds.values(), default=0) > 1:
        notes[0] += f" {SEEDS}"
    for one in scored:
        row = one.row
        what = metric.reference(row)
        if what is not None and one.measurement.ok:
            kinds = [
                key.phrase.format(key.text(row[key.name]))
                for key in metric.keys
                if key.name not in (metric.pivot, metric.compared, "seed")
                and row[key.name] not in ("", key.usual)
            ]
            value = metric.headline.form(row[metric.headline.name])
            which = ", ".join([str(row[metric.pivot]) if metric.pivot else "", *kinds])
            where = f"{row['corpus']} {row['lang_pair']} {system_name(row, scored)}"
            notes.append(f"{where}: {metric.headline.heading} {value} for {which}: {what}.")
    notes += [*metric.notes(scored), *about]
    for one in (s for s in scored if s.measurement.status.startswith(FAILED)):
        row = one.row
        parts = [compared_name(metric, one, scored), str(row.get(metric.pivot or "", ""))]
        parts += [f"seed {row['seed']}"] if row.get("seed", "") != "" else []
        notes.append(f"{row['nmt']} {' '.join(p for p in parts if p)}: {row['status']}")
    if empty := [s for s in scored if s.values.get("empty_draws")]:
        most = max(s.values["empty_draws"] for s in empty)
        notes.append(
            f"Up to {most:.0f} bootstrap samples of a row held nothing to measure; its interval is "
            "that of the others."
        )
    return notes
