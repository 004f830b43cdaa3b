"""Rows that are compared with each other, and how groups of them are told apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

from xnmt_bench.metrics.measurement import OK, Measurement, Scored
from xnmt_bench.metrics.metric import Column, Metric


@dataclass
class Panel:
    """What is compared under one condition: explainers on one system, or systems on one test set.

    Attributes:
        metric: of the numbers.
        condition: the columns that all its rows share.
        rows: by value of the pivot (empty where the metric has none) and by name of what is
            compared, a row for each seed.
        references: rows that stand beside them unranked, by value of the pivot.
    """

    metric: Metric
    condition: dict[str, Any]
    rows: dict[str, dict[str, list[Scored]]] = field(default_factory=dict)
    references: dict[str, Scored] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """What is compared, in alphabetical order."""
        return sorted({name for by_name in self.rows.values() for name in by_name})

    def value(self, pivot: str, name: str, column: Column | None = None) -> float | None:
        """The mean of the seeds that have a number; None where none has."""
        wanted = (column or self.metric.headline).name
        values = [s.values[wanted] for s in self.of(pivot, name) if _number(s, wanted)]
        return mean(values) if values else None

    def of(self, pivot: str, name: str) -> list[Scored]:
        """Every seed's row."""
        return self.rows.get(pivot, {}).get(name, [])

    def measured(self, pivot: str, derived: bool = False) -> dict[str, list[Measurement]]:
        """What can be resampled: the measurements of each name's seeds, by name.

        Args:
            pivot: which.
            derived: rows made of others count too.
        """
        headline = self.metric.headline.name
        found = {
            name: [s.measurement for s in rows if _number(s, headline) and s.derived <= derived]
            for name, rows in sorted(self.rows.get(pivot, {}).items())
        }
        return {name: rows for name, rows in found.items() if rows}

    def measurements(self) -> Iterator[tuple[str, Measurement]]:
        """Every row under the name of what is compared."""
        for by_name in self.rows.values():
            for name, rows in by_name.items():
                yield from ((name, s.measurement) for s in rows)

    def ranked(self, pivot: str) -> list[str]:
        """The names that have a number, from the best to the worst."""
        column = self.metric.headline
        values = {name: self.value(pivot, name) for name in self.names}
        ranks = {
            n: column.rank(v) if column.better else v for n, v in values.items() if v is not None
        }
        return sorted(ranks, key=lambda name: (ranks[name] or 0.0, name))

    def heading(self, pivot: str) -> str:
        """The heading of a value of the pivot; the result's own where there is no pivot."""
        return self.metric.heading(pivot) if pivot else self.metric.headline.heading


def _number(scored: Scored, column: str) -> bool:
    value = scored.values.get(column)
    return value is not None and value == value


def condition_columns(metric: Metric) -> list[str]:
    """The columns in which panels of a metric differ."""
    inside = {metric.compared, metric.pivot, "seed"}
    if metric.compared == "nmt":
        inside.add("model")
    columns = ["corpus", "lang_pair", "nmt", "model", *(key.name for key in metric.keys)]
    return [column for column in columns if column not in inside]


def panels(metric: Metric, scored: Sequence[Scored]) -> list[Panel]:
    """Groups rows by condition, sorted by it; a stored row of any type can be sorted."""
    columns = condition_columns(metric)
    by_condition: dict[tuple[Any, ...], Panel] = {}
    references = [s for s in scored if metric.reference(s.row) is not None]
    for one in scored:
        if metric.reference(one.row) is not None:
            continue
        condition = {column: one.row[column] for column in columns}
        key = tuple(condition.values())
        panel = by_condition.setdefault(key, Panel(metric, condition))
        pivot = one.row[metric.pivot] if metric.pivot else ""
        name = compared_name(metric, one, scored)
        panel.rows.setdefault(pivot, {}).setdefault(name, []).append(one)
    order = {key.name: list(key.order) for key in metric.keys if key.order}

    def place(panel: Panel) -> list[Any]:
        return [
            (order[c].index(v), "") if v in order.get(c, ()) else sortable(v)
            for c, v in panel.condition.items()
        ]

    found = sorted(by_condition.values(), key=place)
    for panel in found:
        panel.rows = {p: panel.rows[p] for p in sorted(panel.rows, key=metric.pivot_order)}
        for reference in references:
            # A reference that knows nothing of a column stands beside every value of it.
            told = {c: reference.row[c] for c in columns if reference.row[c] != ""}
            if told.items() <= panel.condition.items() and metric.pivot:
                panel.references[reference.row[metric.pivot]] = reference
    return found


def sortable(value: Any) -> tuple[int, Any]:
    """What is empty first, then numbers in their order, then everything else by its text."""
    if value == "":
        return (0, "")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return (1, value) if number else (2, str(value))


def compared_name(metric: Metric, one: Scored, scored: Sequence[Scored]) -> str:
    """What is compared: an explainer's name, or a system's."""
    if metric.compared == "nmt":
        return system_name(one.row, scored)
    return str(one.row[metric.compared])


def system_name(row: Mapping[str, Any], scored: Iterable[Scored]) -> str:
    """The system's name, with its fingerprint where several share the name."""
    models = {s.measurement.model for s in scored if s.measurement.identity["nmt"] == row["nmt"]}
    return f"{row['nmt']} {row['model'][:6]}" if len(models) > 1 else str(row["nmt"])


@dataclass(frozen=True)
class Told:
    """How panels are told apart.

    Attributes:
        varying: headings of the columns in which they differ.
        common: what all share, as phrases for a title.
        texts: of each panel, by heading.
        phrases: of each panel, what tells it from the others, in words.
    """

    varying: list[str]
    common: list[str]
    texts: list[dict[str, str]]
    phrases: list[str]

    def title(self, start: str) -> str:
        """A title that ends with what all panels share."""
        return ", ".join([start, *self.common])


def told_apart(found: Sequence[Panel], but: Iterable[str] = ()) -> Told:
    """Splits what is to say of panels into what they share and what tells them apart.

    Args:
        found: the panels, of one metric.
        but: columns that are not told.
    """
    every = [
        s for p in found for by_name in p.rows.values() for rows in by_name.values() for s in rows
    ]
    left_out = set(but)
    phrase_of: dict[str, str] = {"corpus": "{}", "NMT": "{}"}
    usual_of: dict[str, str] = {}
    texts: list[dict[str, str]] = []
    for panel in found:
        c, text = panel.condition, {}
        if "corpus" not in left_out:
            text["corpus"] = f"{c['corpus']} {c['lang_pair']}".strip()
        if "nmt" in c and "nmt" not in left_out:
            text["NMT"] = system_name(c, every)
        for key in panel.metric.keys:
            if key.name in c and key.name not in left_out:
                text[key.heading] = key.text(c[key.name])
                phrase_of[key.heading] = key.phrase
                usual_of[key.heading] = key.text(key.usual)
        texts.append(text)
    headings = list(texts[0]) if texts else []
    varying = [h for h in headings if len({text[h] for text in texts}) > 1]

    def phrases(text: Mapping[str, str], wanted: Iterable[str]) -> list[str]:
        said = [h for h in wanted if text[h] not in ("", usual_of.get(h))]
        return [phrase_of[h].format(text[h]) for h in said]

    shared = phrases(texts[0], [h for h in headings if h not in varying]) if texts else []
    return Told(varying, shared, texts, [", ".join(phrases(text, varying)) for text in texts])


def generated_notes(measurements: Iterable[Measurement]) -> list[str]:
    """Says which corpora nobody spoke or wrote."""
    names = {m.identity["corpus"] for m in measurements if m.facts.get("generated")}
    return [f"The {name} corpus is generated data." for name in sorted(names)]


def seeds_cell(
    column: Column, rows: Sequence[Scored], emphasise: bool = True
) -> tuple[str, float | None]:
    """The mean over seeds with the union of their intervals, and its rank.

    Where some seeds have no number, it says how many have.
    """
    numbers = [s for s in rows if _number(s, column.name)]
    if not numbers:
        status = rows[0].measurement.status.split(":")[0] if rows else ""
        return ("" if status == OK else status), None
    value = mean(s.values[column.name] for s in numbers)
    low = high = None
    if column.interval:
        low = min(s.values[f"{column.name}_low"] for s in numbers)
        high = max(s.values[f"{column.name}_high"] for s in numbers)
    text = column.cell(value, low, high)
    if len(numbers) < len(rows):
        text += f" ({len(numbers)} of {len(rows)} seeds)"
    return text, column.rank(value) if emphasise else None
