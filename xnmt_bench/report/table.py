"""The table of any metric: one line for each thing compared, under each condition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat

from xnmt_bench.measuring.alike import family, origin, seedless, settings_of
from xnmt_bench.measuring.measurement import FAILED, ScoredRow
from xnmt_bench.measuring.metric import Column, Metric, PivotValue
from xnmt_bench.report.panels import (
    CAP,
    Panel,
    capped,
    caveats,
    compared_heading,
    compared_name,
    distinguish,
    ends,
    panels,
    pivot_values_of,
    seeds_cell,
    sort_pivots,
    system_name,
)
from xnmt_bench.report.standing import Standing, Standings
from xnmt_bench.report.summary import Cell, Line, Summary

CAPPED_NOTE = f"{CAP} training ended at its cap of epochs, not by itself."
# Beside a number that is not better than every blind row.
MARKS = {"worse": "‡", "alike": "≈"}
MARKS_NOTES = {
    "worse": "‡ worse than a row that never asks the model.",
    "alike": "≈ not told apart from a row that never asks the model.",
}
MARKS_LEGEND = {"worse": "‡ worse than a blind row", "alike": "≈ not told apart from a blind row"}
OF_EVERY_ROW = ("units", "empty_draws", "status", "remarks", "signature", "rerun")
SEEDS = "Several seeds: their mean, and the union of their intervals."
SYSTEMS = (
    "Several trainings of a system (nmt.seed), {counts}: their mean, with a 95 % t-interval over "
    "the trainings, of logarithms where differences are ratios."
)
ONE_SYSTEM = (
    "Each system is one training, and intervals hold the test set alone; sweep nmt.seed=0,1,2 to "
    "see how trainings differ."
)


def csv_columns(metric: Metric) -> list[str]:
    """Return every column of a metric's CSV."""
    results = [n for c in metric.columns for n in (ends(c.name) if c.interval else (c.name,))]
    return [*metric.identity, "model", *results, *OF_EVERY_ROW]


def tables(
    metric: Metric,
    scored: Sequence[ScoredRow],
    about: Sequence[str],
    standings: Sequence[Standings] = (),
) -> Iterator[tuple[str, Summary]]:
    """Yield the tables of a metric by name: one, or with a pivot one for each result with a title.

    Args:
        metric: the metric.
        scored: its rows.
        about: what other metrics say about the systems, a note each, under the first table.
        standings: how explainers stand to blind rows, for each panel; see `standings_of`.
    """
    shown = [column for column in metric.columns if column.is_shown(scored)]
    shown = shown or [metric.headline]  # without a number, why is all there is to show
    notes = _notes(metric, scored, about)
    if metric.pivot is None:
        yield metric.name, summarise(metric, scored, metric.title, shown, [], notes, standings)
        return
    beside = [column for column in shown if not column.title and column is not metric.headline]
    yield (
        metric.name,
        summarise(metric, scored, metric.title, beside, [metric.headline], notes, standings),
    )
    for title in dict.fromkeys(c.title for c in shown if c.title):
        together = [c for c in shown if c.title == title]
        # Comb is chosen by the headline, so it has no row for another result.
        own_rows = [s for s in scored if together[0].name in s.values and not s.derived]
        notes = [together[0].note, *_remarks(s for s in own_rows)]
        summary = summarise(metric, own_rows, title, [], together, notes)
        yield f"{metric.name}_{together[0].name}", summary


def summarise(
    metric: Metric,
    scored: Sequence[ScoredRow],
    title: str,
    columns: Sequence[Column],
    pivoted: Sequence[Column],
    notes: Sequence[str],
    standings: Sequence[Standings] = (),
) -> Summary:
    """Return one table: of `pivoted` a column each for each value of the pivot, then the `columns`.

    Blind explainers stand behind the others of their panel, unranked, and ceilings last. The best
    of those that are better than every blind row is bold; marks say which others are not.
    """
    conditions = panels(metric, scored)
    distinction = distinguish(conditions)
    measured = {pivot for panel in conditions for pivot in panel.rows} - set(metric.csv_only)
    pivot_values = pivot_values_of(metric, scored)
    pivots = sort_pivots(measured, pivot_values) if pivoted else []
    spread = [(column, pivot) for column in pivoted for pivot in pivots]
    lines = []
    for panel, texts, of_panel in zip(
        conditions, distinction.texts, standings or repeat({}, len(conditions)), strict=True
    ):
        names = sorted(panel.names, key=lambda n: _place(panel, n, pivoted))
        counts = {name: _count_draws(panel, name) for name in panel.names}
        ceilings = {name for by_name in panel.ceilings.values() for name in by_name}
        for name in (*names, *sorted(ceilings)):
            # Of all values of the pivot.
            rows = [s for pivot in (panel.ceilings | panel.rows) for s in panel.of(pivot, name)]
            remark = "blind" if panel.blind(name) else "ceiling" if name in ceilings else ""
            unranked = bool(remark)
            # A row of fewer seeds or trainings than its block is another mean.
            for drawn, count in counts.get(name, {}).items():
                if 0 < count < (most := max(of_name[drawn] for of_name in counts.values())):
                    remark = ", ".join(filter(None, [remark, f"{count} of {most} {drawn}"]))
            cells = [Cell(text) for text in (*texts, f"{name} ({remark})" if remark else name)]
            for column, pivot in spread:
                seeds = panel.of(pivot, name)
                cell = Cell(*seeds_cell(column, seeds, not unranked)) if seeds else Cell("")
                cells.append(_marked(cell, column, metric, of_panel.get(pivot, {}).get(name)))
            for column in columns:
                # With a pivot, what is the same for all its values stands once.
                # The reason for a missing number stands in the first column alone.
                first = column is columns[0] and not pivoted
                having = rows if first else [s for s in rows if column.name in s.values]
                emphasise = not (pivoted or unranked)
                cell = Cell(*seeds_cell(column, having, emphasise))
                cells.append(_marked(cell, column, metric, of_panel.get("", {}).get(name)))
            lines.append(Line((*panel.condition.values(), unranked), cells))
    words = [*distinction.varying, compared_heading(metric)]
    headings = list(words)
    headings += [_heading(metric, c, pivot_values[p], len(pivots)) for c, p in spread]
    headings += [c.heading for c in columns]
    numbers = [cell.text for line in lines for cell in line.cells[len(words) :]]
    marked = [word for word, mark in MARKS.items() if any(mark in text for text in numbers)]
    notes = [*notes, *(MARKS_NOTES[word] for word in marked)]
    tested = any(chain(*(of_panel.values() for of_panel in standings)))
    return Summary(
        distinction.title(title),
        headings,
        lines,
        notes,
        len(words),
        _size(scored),
        [*_legend(metric, lines, tested), *(MARKS_LEGEND[word] for word in marked)],
    )


def _size(scored: Sequence[ScoredRow]) -> str:
    """Return how many test sentences, or units of a test set, rows are of; empty if unknown."""
    ranked = [s for s in scored if s.values]
    sentences = {test_sentences(s).partition(" (")[0] for s in ranked} - {""}
    units = {f"{s.values['units']:,.0f}" for s in ranked if "units" in s.values}
    counts, noun = (sentences, "test sentences") if sentences else (units, "units of the test set")
    return f"{' or '.join(sorted(counts))} {noun}" if counts else ""


def _legend(metric: Metric, lines: Sequence[Line], tested: bool) -> Iterator[str]:
    """Yield what the cells of a table mean, in phrases for a caption."""
    cells = [cell for line in lines for cell in line.cells]
    texts = [cell.text for cell in cells]
    if metric.headline.better:
        yield f"{metric.headline.better} is better"
    if any(cell.rank is not None for cell in cells):
        better = f", of {metric.headline.heading} only if better than every blind row"
        yield f"bold: the best of its column and block{better * tested}"
    if any("(blind" in text for text in texts):
        yield "blind rows never ask the model"
    if any(" [" in text for text in texts):
        yield "brackets: 95 % intervals"
    if any(CAP in text for text in texts):
        yield f"{CAP} training ended at its cap of epochs"


def _count_draws(panel: Panel, name: str) -> dict[str, int]:
    """Return how many seeds a row has numbers of, 0 if it draws nothing, and how many trainings."""
    rows = [s for pivot in panel.rows for s in panel.of(pivot, name) if s.measurement.ok]
    seeds = {s.row.get("seed", "") for s in rows}
    # A file, people and chance were not trained here, and do not count.
    trainings = {origin(s.measurement) for s in rows if s.measurement.facts.lineage}
    return {"seeds": len(seeds - {""}), "trainings": len(trainings)}


def _marked(cell: Cell, column: Column, metric: Metric, standing: Standing | None) -> Cell:
    """Return a cell of the headline with the mark of its standing, and bold only if it is better.

    The mark stands behind the number, in front of its interval.
    """
    if column is not metric.headline or standing is None or standing.word == "better":
        return cell
    number, blank, interval = cell.text.partition(" [")
    mark = f" {MARKS[standing.word]}" if standing.word in MARKS else ""
    return Cell(f"{number}{mark}{blank}{interval}", None)


def _heading(metric: Metric, column: Column, pivot: PivotValue, pivots: int) -> str:
    """Return the heading of a value of the pivot, or of one result of several."""
    if column is metric.headline or not column.title:
        return pivot.heading
    same_title = [c for c in metric.columns if c.title == column.title]
    if len(same_title) == 1:
        return pivot.heading
    return f"{pivot.heading}: {column.heading}" if pivots > 1 else column.heading


def _place(panel: Panel, name: str, pivoted: Sequence[Column]) -> tuple[bool, float, str]:
    """Return a key that sorts lines of a panel from the best to the worst, blind ones behind."""
    pivots = [pivot for pivot in panel.rows if pivot not in panel.metric.csv_only]
    by = pivoted[0] if pivoted else None
    ranks = {p: rank for p in pivots if (rank := panel.rank(p, name, by)) is not None}
    precedence = {p: panel.pivot_values[p].precedence for p in ranks if p}
    first = max(precedence.values(), default=0)
    # Values of the greatest precedence order the lines; the best of them counts.
    leading = (rank for p, rank in ranks.items() if precedence.get(p, first) == first)
    return (panel.blind(name), min(leading, default=float("inf")), name)


def _remarks(scored: Iterable[ScoredRow]) -> list[str]:
    """Return the remarks on the rows of any table."""
    rows = list(scored)
    cap = [CAPPED_NOTE] if capped(s for s in rows if s.values) else []
    return [*caveats(s.measurement for s in rows), *cap]


def test_sentences(scored_row: ScoredRow) -> str:
    """Return which test sentences a row is of, such as `60 (3fa2c1)`; empty where it is unknown."""
    return str(settings_of(scored_row).get("test sentences", ""))


def about_trainings(scored: Iterable[ScoredRow]) -> str:
    """Return how many trainings rows are of; empty where no system was trained here."""
    trainings: dict[str, set[str]] = {}
    for m in (s.measurement for s in scored if s.measurement.facts.lineage):
        trainings.setdefault(family(m), set()).add(origin(m))
    counts = sorted({len(systems) for systems in trainings.values()})
    if max(counts, default=1) > 1:
        return SYSTEMS.format(counts=" or ".join(map(str, counts)))
    return ONE_SYSTEM if counts else ""


def _notes(metric: Metric, scored: Sequence[ScoredRow], about: Sequence[str]) -> list[str]:
    notes = [metric.note, *_remarks(scored)]
    seeds = Counter((*seedless(s), str(sorted(s.measurement.content.items()))) for s in scored)
    if max(seeds.values(), default=0) > 1:
        notes[0] += f" {SEEDS}"
    if trained := about_trainings(scored):
        notes.append(trained)
    headline = metric.headline
    several_tests = len({test_sentences(s) for s in scored} - {""}) > 1
    for scored_row in scored:
        row = scored_row.row
        description = metric.reference(row)
        if description is not None and headline.name in row:
            kinds = [
                key.phrase.format(key.text(row[key.name]))
                for key in metric.keys
                if key.name not in (metric.pivot, metric.compared, "seed")
                and row[key.name] not in ("", key.usual)
            ]
            kinds += [f"test sentences: {test_sentences(scored_row)}"] if several_tests else []
            which = ", ".join([str(row[metric.pivot]) if metric.pivot else "", *kinds])
            system = system_name(row["nmt"], family(scored_row.measurement), scored)
            where = f"{row['corpus']} {row['lang_pair']} {system}"
            value = f"{headline.heading} {headline.form(row[headline.name])}"
            value += f" {CAP}" if capped([scored_row]) else ""
            notes.append(f"{where}: {value} for {which}: {description}.")
    notes += [*metric.notes(scored), *about]
    for scored_row in (s for s in scored if s.measurement.status.startswith(FAILED)):
        row = scored_row.row
        parts = [compared_name(metric, scored_row, scored), str(row.get(metric.pivot or "", ""))]
        parts += [f"seed {row['seed']}"] if row.get("seed", "") != "" else []
        notes.append(f"{row['nmt']} {' '.join(filter(None, parts))}: {row['status']}")
    if most := max((s.values.get("empty_draws", 0) for s in scored), default=0):
        notes.append(
            f"Up to {most:.0f} bootstrap samples of a row held nothing to measure; its interval is "
            "that of the others."
        )
    # A reference of rows of some decisions says what that of all decisions says.
    return [*dict.fromkeys(notes)]
