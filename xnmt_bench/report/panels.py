"""Rows that are compared with each other, and how groups of them are distinguished."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

from xnmt_bench.measuring.measurement import (
    BLIND,
    CAPPED,
    DOUBTS,
    OK,
    VERSIONS,
    Measurement,
    ScoredRow,
)
from xnmt_bench.measuring.metric import SYSTEM, Column, Key, Metric, PivotValue

CAP = "†"  # beside a number whose training ended at its cap


@dataclass
class Panel:
    """What is compared under one condition: explainers on one system, or systems on one test set.

    Attributes:
        metric: of the numbers.
        condition: the columns that all its rows share.
        rows: by value of the pivot (empty without a pivot) and by name of what is
            compared, a row for each seed.
        references: rows that stand beside them unranked, by value of the pivot.
        pivot_values: how each value of the pivot stands in tables, of all panels of the metric.
    """

    metric: Metric
    condition: dict[str, Any]
    pivot_values: dict[str, PivotValue]
    rows: dict[str, dict[str, list[ScoredRow]]] = field(default_factory=dict)
    references: dict[str, ScoredRow] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """What is compared, in alphabetical order."""
        return sorted({name for by_name in self.rows.values() for name in by_name})

    def of(self, pivot: str, name: str) -> list[ScoredRow]:
        """Return every seed's row."""
        return self.rows.get(pivot, {}).get(name, [])

    def value(self, pivot: str, name: str, column: Column | None = None) -> float | None:
        """Return the mean of the seeds that have a number; None where none has."""
        numbers = pooled(column or self.metric.headline, self.of(pivot, name))
        return numbers[0] if numbers else None

    def rank(self, pivot: str, name: str, column: Column | None = None) -> float | None:
        """Return the value such that the least is the best."""
        value = self.value(pivot, name, column)
        return None if value is None else least_first(column or self.metric.headline, value)

    def blind(self, name: str) -> bool:
        """Return whether it is an explainer that never asks the model: a point of reference."""
        return any(m.facts.get(BLIND) for row_name, m in self.measurements() if row_name == name)

    def ranked(self, pivot: str) -> list[str]:
        """Return the names that have a number and are not blind, from the best to the worst."""
        names = (n for n in self.names if not self.blind(n))
        ranks = {n: rank for n in names if (rank := self.rank(pivot, n)) is not None}
        return sorted(ranks, key=ranks.__getitem__)  # stable: ties stay in alphabetical order

    def measured(
        self, pivot: str, derived: bool = False, blind: bool = False
    ) -> dict[str, list[Measurement]]:
        """Return what can be resampled: the measurements of each name's seeds, by name.

        Rows that were made of others are left out unless `derived`, blind ones unless `blind`.
        """
        headline = self.metric.headline.name
        by_name = {
            name: [s.measurement for s in rows if _number(s, headline) and s.derived <= derived]
            for name, rows in sorted(self.rows.get(pivot, {}).items())
        }
        return {n: seeds for n, seeds in by_name.items() if seeds and self.blind(n) <= blind}

    def by_pivot(
        self, derived: bool = False, blind: bool = False
    ) -> dict[str, dict[str, list[Measurement]]]:
        """Return `measured` for each value of the pivot that has any."""
        return {p: by_name for p in self.rows if (by_name := self.measured(p, derived, blind))}

    def measurements(self) -> Iterator[tuple[str, Measurement]]:
        """Yield every row under the name of what is compared."""
        for by_name in self.rows.values():
            for name, rows in by_name.items():
                yield from ((name, s.measurement) for s in rows)

    def heading(self, pivot: str) -> str:
        """Return the heading of a value of the pivot; the result's own without a pivot."""
        return self.pivot_values[pivot].heading if pivot else self.metric.headline.heading


def _number(scored: ScoredRow, column: str) -> bool:
    value = scored.values.get(column)
    return value is not None and value == value  # only NaN differs from itself


def least_first(column: Column, value: Any) -> Any:
    """Return a value or an array of them such that the least is the best."""
    return -value if column.better == "higher" else value


def ends(name: str) -> tuple[str, str, str]:
    """Return where a row keeps a result, and the lower and upper end of its interval."""
    return name, f"{name}_low", f"{name}_high"


def pooled(column: Column, rows: Iterable[ScoredRow]) -> tuple[float, float, float] | None:
    """Return the mean over seeds and the union of their intervals; None where none has a number."""
    name, low, high = ends(column.name)
    seeds = [s.values for s in rows if _number(s, name)]
    if not seeds:
        return None
    value = mean(v[name] for v in seeds)
    return value, min(v.get(low, value) for v in seeds), max(v.get(high, value) for v in seeds)


def panels(metric: Metric, scored: Sequence[ScoredRow]) -> list[Panel]:
    """Return groups rows by condition, sorted by it; a stored row of any type can be sorted."""
    inside = {metric.compared, metric.pivot, "seed"}
    inside |= {"model"} if metric.compared == "nmt" else set()  # it is part of a system's name
    columns = ["corpus", "lang_pair", "nmt", "model", *(key.name for key in metric.keys)]
    columns = [column for column in columns if column not in inside]
    by_condition: dict[tuple[Any, ...], Panel] = {}
    references = []
    pivot_values = pivot_values_of(metric, scored)
    for scored_row in scored:
        row = scored_row.row
        if metric.reference(row) is not None:
            references.append(scored_row)
            continue
        condition = {column: row[column] for column in columns}
        panel = Panel(metric, condition, pivot_values)
        panel = by_condition.setdefault(tuple(condition.values()), panel)
        by_name = panel.rows.setdefault(row[metric.pivot] if metric.pivot else "", {})
        by_name.setdefault(compared_name(metric, scored_row, scored), []).append(scored_row)
    for panel in by_condition.values():
        panel.rows = {p: panel.rows[p] for p in sort_pivots(panel.rows, pivot_values)}
        # A reference that knows nothing of a column stands beside every value of it.
        panel.references = {
            scored_row.row[metric.pivot]: scored_row
            for scored_row in references
            if metric.pivot
            and all(scored_row.row[c] in ("", v) for c, v in panel.condition.items())
        }
    order = {key.name: list(key.order) for key in metric.keys}

    def place(panel: Panel) -> list[Any]:
        return [
            (order[c].index(v), "") if v in order.get(c, ()) else sortable(v)
            for c, v in panel.condition.items()
        ]

    return sorted(by_condition.values(), key=place)


def pivot_values_of(metric: Metric, scored: Iterable[ScoredRow]) -> dict[str, PivotValue]:
    """Return how each value of a metric's pivot stands in tables; empty without a pivot."""
    if metric.pivot is None:
        return {}
    return {s.row[metric.pivot]: metric.pivot_value(s.measurement) for s in scored}


def sort_pivots(pivots: Iterable[str], pivot_values: Mapping[str, PivotValue]) -> list[str]:
    """Return values of a pivot in reading order."""
    return sorted(pivots, key=lambda pivot: sortable_pivot(pivot_values[pivot]) if pivot else [])


def sortable_pivot(pivot: PivotValue) -> list[tuple[int, Any]]:
    """Return a key that sorts values of a pivot, also those of rows written without an order."""
    return [sortable(part) for part in pivot.order]


def sortable(value: Any) -> tuple[int, Any]:
    """Return a key that sorts empty values first, then numbers, then everything else as text."""
    if value == "":
        return (0, "")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return (1, value) if number else (2, str(value))


def compared_heading(metric: Metric) -> str:
    """Return the heading of what is compared."""
    return "NMT" if metric.compared == "nmt" else metric.compared


def compared_name(metric: Metric, scored_row: ScoredRow, scored: Sequence[ScoredRow]) -> str:
    """Return what a row compares: an explainer's name, or a system's."""
    row = scored_row.row
    return system_name(row, scored) if metric.compared == "nmt" else str(row[metric.compared])


def system_name(row: Mapping[str, Any], scored: Iterable[ScoredRow]) -> str:
    """Return the system's name, with its fingerprint where several share the name."""
    models = {s.measurement.model for s in scored if s.measurement.identity["nmt"] == row["nmt"]}
    return f"{row['nmt']} {row['model'][:6]}" if len(models) > 1 else str(row["nmt"])


@dataclass(frozen=True)
class Distinction:
    """How panels are distinguished."""

    varying: list[str]  # headings of the columns in which they differ
    common: list[str]  # what all share, as phrases for a title
    texts: list[list[str]]  # of each panel, its text in each of the varying columns
    phrases: list[str]  # of each panel, its difference from the others, in words

    def title(self, start: str) -> str:
        """Return a title that ends with what all panels share."""
        return ", ".join([start, *self.common])


def distinguish(shown: Sequence[Panel], but: Sequence[str] = ()) -> Distinction:
    """Find what all panels of a metric share and the columns in which they differ, `but` some."""
    if not shown:
        return Distinction([], [], [], [])
    every = [s for p in shown for names in p.rows.values() for rows in names.values() for s in rows]
    keys = [Key("corpus", "corpus"), Key("nmt", "NMT"), *shown[0].metric.keys]
    keys = [key for key in keys if key.name in shown[0].condition and key.name not in but]
    texts = []
    for panel in shown:
        columns = dict(panel.condition)
        columns["corpus"] = f"{columns['corpus']} {columns['lang_pair']}".strip()
        if "nmt" in columns:
            columns["nmt"] = system_name(columns, every)
        texts.append({key.name: key.text(columns[key.name]) for key in keys})
    varying = [key for key in keys if len({text[key.name] for text in texts}) > 1]
    common = [key for key in keys if key not in varying]

    def phrases(text: Mapping[str, str], keys: Iterable[Key]) -> list[str]:
        # What is usual goes without saying, also where it tells one panel from others.
        shown_keys = [key for key in keys if text[key.name] not in ("", key.text(key.usual))]
        return [key.phrase.format(text[key.name]) for key in shown_keys]

    return Distinction(
        [key.heading for key in varying],
        phrases(texts[0], common),
        [[text[key.name] for key in varying] for text in texts],
        [", ".join(phrases(text, varying)) for text in texts],
    )


def caveats(measurements: Iterable[Measurement]) -> list[str]:
    """Return which corpora are generated, whose numbers mean little, and unlike versions."""
    generated, doubts = set(), set()
    versions: dict[str, set[str]] = {}
    for m in measurements:
        for library, numbers in m.facts.get(VERSIONS, {}).items():
            versions.setdefault(library, set()).add(" and ".join(numbers))
        if m.facts.get("generated"):
            generated.add(f"The {m.identity['corpus']} corpus is generated data.")
        where = " ".join(m.identity[c] for c in SYSTEM if m.identity[c])
        doubts |= {f"Of little meaning: {where}: {text}." for text in m.facts.get(DOUBTS, [])}
    unlike = [
        f"Rows were made by different versions of {library}: {', '.join(sorted(numbers))}."
        for library, numbers in sorted(versions.items())
        if len(numbers) > 1
    ]
    return [*sorted(generated), *sorted(doubts), *unlike]


def capped(rows: Iterable[ScoredRow]) -> bool:
    """Return whether a training behind some rows ended at its cap of epochs."""
    return any(s.measurement.facts.get(CAPPED) for s in rows)


def seeds_cell(
    column: Column, rows: Sequence[ScoredRow], emphasise: bool = True
) -> tuple[str, float | None]:
    """Return `pooled` as text and its rank; a count of seeds where some have no number."""
    numbers = pooled(column, rows)
    if numbers is None:
        status = rows[0].measurement.status.split(":")[0] if rows else OK
        return ("" if status == OK else status), None
    having = sum(_number(s, column.name) for s in rows)
    some = "" if having == len(rows) else f" ({having} of {len(rows)} seeds)"
    text = column.cell(*numbers if column.interval else numbers[:1]) + some
    if column.interval and capped(rows):
        text = text.replace(" [", f" {CAP} [")
    return text, column.rank(numbers[0]) if emphasise else None
