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
    """The tables of a metric by name: one, or with a pivot one for each result with a title.

    Args:
        metric: the metric.
        scored: its rows.
        about: what other metrics say of the systems, a note each.
    """
    shown = [c for c in metric.columns if c.shown and any(c.name in s.values for s in scored)]
    if not shown:  # nothing has a number, and why is all there is to show
        shown = [metric.headline]
    notes = _notes(metric, scored, about)
    if metric.pivot is None:
        yield metric.name, summarise(metric, scored, metric.title, shown, None, notes)
        return
    beside = [column for column in shown if not column.title and column is not metric.headline]
    yield metric.name, summarise(metric, scored, metric.title, beside, metric.headline, notes)
    for column in (c for c in shown if c.title):
        # Comb is chosen by the headline, so it is no row of another result's.
        own = [s for s in scored if column.name in s.values and not s.derived]
        notes = [column.note, *generated_notes(s.measurement for s in own)]
        yield (
            f"{metric.name}_{column.name}",
            summarise(metric, own, column.title, [], column, notes),
        )


def summarise(
    metric: Metric,
    scored: Sequence[Scored],
    title: str,
    columns: Sequence[Column],
    pivoted: Column | None,
    notes: Sequence[str],
) -> Summary:
    """One table.

    Args:
        metric: the metric.
        scored: its rows.
        title: how the title starts.
        columns: results with a column each.
        pivoted: the result with a column for each value of the pivot, if any.
        notes: under the table.
    """
    found = panels(metric, scored)
    told = told_apart(found)
    there = {pivot for panel in found for pivot in panel.rows} - set(metric.csv_only)
    pivots = sorted(there, key=metric.pivot_order) if pivoted else []
    lines = []
    for panel, text in zip(found, told.texts, strict=True):
        for name in sorted(panel.names, key=lambda n: _place(panel, n, pivoted)):
            rows = [s for by_name in panel.rows.values() for s in by_name.get(name, [])]
            cells = [Cell(text[heading]) for heading in told.varying] + [Cell(name)]
            for pivot in pivots:
                own = panel.of(pivot, name)
                # What is n/a for one value of the pivot is so for all: the explainer is silent.
                silent = not any(s.measurement.ok for s in rows)
                status = "" if own or not silent else "n/a"
                cells.append(Cell(*seeds_cell(pivoted, own)) if own and pivoted else Cell(status))
            for column in columns:
                # With a pivot, what is the same for all its values stands once.
                # Why there is no number stands in the first column alone.
                first = column is columns[0] and not pivoted
                having = rows if first else [s for s in rows if column.name in s.values]
                cells.append(Cell(*seeds_cell(column, having, emphasise=pivoted is None)))
            lines.append(Line(tuple(panel.condition.values()), cells))
    thing = "NMT" if metric.compared == "nmt" else metric.compared
    headings = [*told.varying, thing, *map(metric.heading, pivots), *(c.heading for c in columns)]
    return Summary(told.title(title), headings, lines, list(notes), words=len(told.varying) + 1)


def _place(panel: Panel, name: str, pivoted: Column | None) -> tuple[float, str]:
    """Lines of a panel go from the best to the worst."""
    column, metric = pivoted or panel.metric.headline, panel.metric
    ranks = {}
    for pivot in panel.rows:
        value = panel.value(pivot, name, column)
        if value is not None and pivot not in metric.csv_only:
            ranks[pivot] = value if column.better is None else column.rank(value) or 0.0
    return (metric.ranking(ranks) if ranks else float("inf"), name)


def _notes(metric: Metric, scored: Sequence[Scored], about: Sequence[str]) -> list[str]:
    notes = [metric.note, *generated_notes(s.measurement for s in scored)]
    seeds: dict[tuple[object, ...], int] = {}
    for one in scored:
        others = tuple(v for c, v in one.measurement.identity.items() if c != "seed")
        seeds[(*others, one.measurement.model)] = seeds.get((*others, one.measurement.model), 0) + 1
    if max(seeds.values(), default=0) > 1:
        notes[0] += f" {SEEDS}"
    for one in scored:
        row = one.row
        what = metric.reference(row)
        if what is not None and metric.headline.name in row:
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
