"""Rows that are compared with each other, and how groups of them are distinguished."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import Any

from xnmt_bench.measuring.alike import (
    comparable,
    family,
    group_comparable,
    origin,
    row_key,
    seedless,
    settings_of,
)
from xnmt_bench.measuring.bootstrap import t_interval
from xnmt_bench.measuring.measurement import (
    OK,
    SETTINGS,
    Measurement,
    ScoredRow,
)
from xnmt_bench.measuring.metric import SYSTEM, Column, Key, Metric, PivotValue
from xnmt_bench.store import fingerprint

CAP = "†"  # beside a number whose training ended at its cap


@dataclass
class Panel:
    """What is compared under one condition: explainers on one system, or systems on one test set.

    Attributes:
        metric: of the numbers.
        condition: the columns that all its rows share.
        rows: by value of the pivot (empty without a pivot) and by name of what is
            compared, a row for each seed, and for each system of several trainings.
        references: rows that stand beside them unranked, by value of the pivot: one for each
            system of several trainings.
        altered: rows of altered explainers, which stand in no table, by value of the pivot and by
            the names of the unaltered explainer and of the alteration, and its options.
        ceilings: as `rows`, what searches for the best numbers reach; a table shows them last, and
            no analysis reads them.
        pivot_values: how each value of the pivot stands in tables, of all panels of the metric.
        unranked: why a column ranks nothing, by value of the pivot, as all rows say where only
            some are shown; None where these are all.
    """

    metric: Metric
    condition: dict[str, Any]
    pivot_values: dict[str, PivotValue]
    rows: dict[str, dict[str, list[ScoredRow]]] = field(default_factory=dict)
    references: dict[str, list[ScoredRow]] = field(default_factory=dict)
    altered: dict[str, dict[tuple[str, str, str], list[ScoredRow]]] = field(default_factory=dict)
    ceilings: dict[str, dict[str, list[ScoredRow]]] = field(default_factory=dict)
    unranked: dict[str, str] | None = None

    @property
    def names(self) -> list[str]:
        """What is compared, in alphabetical order."""
        return sorted({name for by_name in self.rows.values() for name in by_name})

    def of(self, pivot: str, name: str) -> list[ScoredRow]:
        """Return every seed's row, also of a ceiling."""
        by_name = self.ceilings.get(pivot, {}) | self.rows.get(pivot, {})
        return by_name.get(name, [])

    def value(self, pivot: str, name: str, column: Column | None = None) -> float | None:
        """Return the mean of the seeds that have a number; None where none has."""
        numbers = pooled(column or self.metric.headline, self.of(pivot, name))
        return numbers[0] if numbers else None

    def rank(self, pivot: str, name: str, column: Column | None = None) -> float | None:
        """Return the value such that the least is the best."""
        value = self.value(pivot, name, column)
        return None if value is None else (column or self.metric.headline).least_first(value)

    @property
    def settings(self) -> dict[str, Any]:
        """What decides its rows' numbers beside their columns; rows of a panel agree in it."""
        return {k: v for scored_row in self.scored() for k, v in settings_of(scored_row).items()}

    def blind(self, name: str) -> bool:
        """Return whether it is an explainer that never asks the model: a point of reference."""
        rows = (s for by_name in self.rows.values() for s in by_name.get(name, ()))
        return any(s.measurement.facts.blind for s in rows)

    def ranked(self, pivot: str, blind: bool = False) -> list[str]:
        """Return the names that have a number, from the best to the worst; blind ones if wanted."""
        names = (n for n in self.names if self.blind(n) <= blind)
        # A name without a number has no place.
        ranks = {n: rank for n in names if (rank := self.rank(pivot, n)) is not None}
        return sorted(ranks, key=ranks.__getitem__)  # stable: ties stay in alphabetical order

    def shared_systems(self, pivot: str, names: Iterable[str]) -> set[str]:
        """Return the systems, or trainings of one, that all of some names have a number of."""
        headline = self.metric.headline.name
        return set.intersection(
            *(
                {origin(s.measurement) for s in self.of(pivot, name) if _number(s, headline)}
                for name in names
            )
        )

    def over_shared_systems(self, names: Sequence[str]) -> Panel:
        """Return the rows of some names, of the systems that all of them share, if there are any.

        A mean over fewer trainings is of other systems, so that its order among them would be too.
        """
        rows: dict[str, dict[str, list[ScoredRow]]] = {}
        for pivot, by_name in self.rows.items():
            systems = self.shared_systems(pivot, names)
            rows[pivot] = {
                name: [s for s in by_name[name] if not systems or origin(s.measurement) in systems]
                for name in names
                if name in by_name
            }
        return replace(self, rows=rows)

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
        by_pivot = {p: self.measured(p, derived, blind) for p in self.rows}
        return {p: by_name for p, by_name in by_pivot.items() if by_name}

    def measurements(self) -> Iterator[tuple[str, Measurement]]:
        """Yield every row under the name of what is compared."""
        for by_name in self.rows.values():
            for name, rows in by_name.items():
                yield from ((name, s.measurement) for s in rows)

    def scored(self) -> Iterator[ScoredRow]:
        """Yield every row."""
        for by_name in self.rows.values():
            for rows in by_name.values():
                yield from rows

    def heading(self, pivot: str) -> str:
        """Return the heading of a value of the pivot; the result's own without a pivot."""
        return self.pivot_values[pivot].heading if pivot else self.metric.headline.heading


def _number(scored: ScoredRow, column: str) -> bool:
    value = scored.values.get(column)
    return value is not None and value == value  # only NaN differs from itself


def ends(name: str) -> tuple[str, str, str]:
    """Return where a row keeps a result, and the lower and upper end of its interval."""
    return name, f"{name}_low", f"{name}_high"


def pooled(column: Column, rows: Iterable[ScoredRow]) -> tuple[float, float, float] | None:
    """Return the mean of rows and an interval; None where none has a number.

    Of one system, the interval is the union of its seeds' intervals. Of several, the system is the
    unit: a 95 % t-interval over their means, of their logarithms on a scale of ratios.
    """
    name, low, high = ends(column.name)
    by_system: dict[str, list[Mapping[str, Any]]] = {}
    for scored_row in rows:
        if _number(scored_row, name):
            system = origin(scored_row.measurement)
            by_system.setdefault(system, []).append(scored_row.values)
    if not by_system:
        return None
    if len(by_system) > 1:
        means = [mean(v[name] for v in seeds) for seeds in by_system.values()]
        if not column.log or min(means) <= 0:
            return t_interval(means)
        # A perplexity is never negative, and its interval reaches as many times up as down.
        center, low_end, high_end = t_interval([math.log(value) for value in means])
        value = mean(means)
        return value, value * math.exp(low_end - center), value * math.exp(high_end - center)
    [seeds] = by_system.values()
    # The union of intervals is wide on purpose: it holds the spread of seeds too.
    value = mean(v[name] for v in seeds)
    return value, min(v.get(low, value) for v in seeds), max(v.get(high, value) for v in seeds)


def _share_unranked(
    groups: Sequence[tuple[dict[str, Any], list[ScoredRow]]],
) -> list[tuple[dict[str, Any], list[ScoredRow]]]:
    """Return groups in which blind rows and ceilings stand in each group that they fit.

    One that knows nothing of a setting, such as equal scores of the training text, is measured once
    for all its values.
    """
    unranked = [
        row
        for _, group in groups
        for row in group
        if row.measurement.ok and (row.measurement.facts.blind or row.measurement.facts.ceiling)
    ]
    shared = []
    for settings, group in groups:
        common, members = dict(settings), [*group]
        keys = {row_key(row.measurement) for row in group if row.measurement.ok}
        for row in unranked:
            key, row_settings = row_key(row.measurement), settings_of(row)
            if key not in keys and comparable(common, row_settings):
                # As in a group of its own: no second row of its key, or of another setting.
                keys.add(key)
                common |= row_settings
                members.append(row)
        shared.append((common, members))
    return shared


def panels(metric: Metric, scored: Sequence[ScoredRow]) -> list[Panel]:
    """Group rows by condition, sorted by it.

    Rows of one condition that differ in a setting, such as the test set, are never ranked together.
    """
    # Of all rows, so that columns have one order in every panel.
    pivot_values = pivot_values_of(metric, scored)
    references = [s for s in scored if metric.reference(s.row) is not None]
    rows = [s for s in scored if metric.reference(s.row) is None]
    built = []
    for condition, members in _by_condition(metric, rows):
        # A row without settings, such as a failed one, joins the first group.
        ordered = sorted(members, key=lambda row: not settings_of(row))
        groups = _share_unranked(group_comparable(ordered, settings_of, _key_of_measured))
        phrases = _phrases([settings for settings, _ in groups])
        for (settings, group), phrase in zip(groups, phrases, strict=True):
            panel = Panel(metric, condition | {SETTINGS: phrase}, pivot_values)
            for scored_row in group:
                pivot = scored_row.row[metric.pivot] if metric.pivot else ""
                if alters := scored_row.measurement.facts.alters:
                    of, by, options = alters
                    by_names = panel.altered.setdefault(pivot, {})
                    by_names.setdefault((of, by, options), []).append(scored_row)
                    continue
                name = compared_name(metric, scored_row, scored)
                ceiling = scored_row.measurement.facts.ceiling
                kind = panel.ceilings if ceiling else panel.rows
                kind.setdefault(pivot, {}).setdefault(name, []).append(scored_row)
            panel.rows = {p: panel.rows[p] for p in sort_pivots(panel.rows, pivot_values)}
            # A reference that knows nothing of a column stands beside every value of it.
            for reference in references:
                pairs = ((_value_of(reference, c), v) for c, v in condition.items())
                fits = all(reference_value in ("", value) for reference_value, value in pairs)
                if metric.pivot and fits and comparable(settings, settings_of(reference)):
                    panel.references.setdefault(reference.row[metric.pivot], []).append(reference)
            built.append(panel)
    order = {key.name: list(key.order) for key in metric.keys}

    def place(panel: Panel) -> list[Any]:
        return [
            (order[c].index(v), "") if v in order.get(c, ()) else sortable(v)
            for c, v in panel.condition.items()
        ]

    return sorted(built, key=place)


def _value_of(scored_row: ScoredRow, column: str) -> Any:
    """Return a row's value of a column of a condition, in which a system stands by its family."""
    return family(scored_row.measurement) if column == "model" else scored_row.row[column]


def _by_condition(
    metric: Metric, rows: Sequence[ScoredRow]
) -> list[tuple[dict[str, Any], list[ScoredRow]]]:
    """Return rows by the columns that are neither compared nor the pivot nor the seed."""
    inside = {metric.compared, metric.pivot, "seed"}
    inside |= {"model"} if metric.compared == "nmt" else set()  # it is part of a system's name
    columns = ["corpus", "lang_pair", "nmt", "model", *(key.name for key in metric.keys)]
    columns = [column for column in columns if column not in inside]
    grouped: dict[tuple[Any, ...], list[ScoredRow]] = {}
    for scored_row in rows:
        row = scored_row.row | {"model": family(scored_row.measurement)}
        values = tuple(row[column] for column in columns)
        grouped.setdefault(values, []).append(scored_row)
    shared = [columns.index(key.name) for key in metric.keys if key.shared]
    # A row without any value of the shared columns belongs beside each of their values.
    general_rows = {values for values in grouped if shared and not any(values[n] for n in shared)}

    def matches(general: tuple[Any, ...], special: tuple[Any, ...]) -> bool:
        return special not in general_rows and all(
            g == s or n in shared for n, (g, s) in enumerate(zip(general, special, strict=True))
        )

    for general in general_rows:
        if special := [values for values in grouped if matches(general, values)]:
            members = grouped.pop(general)
            for values in special:
                grouped[values] += members
    return [(dict(zip(columns, values, strict=True)), rows) for values, rows in grouped.items()]


def _key_of_measured(scored_row: ScoredRow) -> str | None:
    """Return the key of a row with numbers: the same row with fewer settings is no seed of it."""
    of_own = scored_row.measurement.ok and not scored_row.derived
    return row_key(scored_row.measurement) if of_own else None


def _phrases(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the settings in which each of some groups differs; empty where there is one group."""
    names = dict.fromkeys(name for settings in groups for name in settings)

    def phrase(settings: Mapping[str, Any], differing: Iterable[str]) -> str:
        return ", ".join(f"{name}: {settings[name]}" for name in differing if name in settings)

    unlike = [
        n
        for n in names
        if not all(comparable({n: s[n]}, other) for s in groups if n in s for other in groups)
    ]
    phrases = [phrase(settings, unlike) for settings in groups]
    if len(set(phrases)) == len(phrases):
        return phrases
    # Rows may lack some settings, in which alone they differ from others.
    lacking = [n for n in names if not all(n in settings for settings in groups)]
    return [phrase(settings, [*unlike, *lacking]) for settings in groups]


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
    m = scored_row.measurement
    name = str(m.identity[metric.compared])
    if metric.compared == "nmt":
        name = system_name(name, family(m), scored)
    content = _name_content(metric, m, scored)
    return f"{name} {content}" if content else name


def _name_content(metric: Metric, m: Measurement, scored: Sequence[ScoredRow]) -> str:
    """Return what tells a row from others that differ only in what their files hold."""
    # Files of two systems are others of necessity.
    same_name = [
        s
        for s in scored
        if s.row[metric.compared] == m.identity[metric.compared] and s.measurement.model == m.model
    ]
    if all(s.measurement.content == m.content for s in same_name):
        return ""
    by_row: dict[str, list[Mapping[str, str]]] = {}
    for s in same_name:
        by_row.setdefault(str(seedless(s)), []).append(s.measurement.content)
    differing = {
        kind
        for contents in by_row.values()
        for kind in set().union(*contents)
        if len({content.get(kind) for content in contents}) > 1
    }
    # Relevance of one name is two explanations where the bytes differ, under any conditions.
    if len({s.measurement.content.get("relevance") for s in same_name}) > 1:
        differing.add("relevance")
    parts = [m.content[kind] for kind in sorted(differing) if kind in m.content]
    return "".join(parts)[:6] if len(parts) < 2 else fingerprint({"content": parts})[:6]


def system_name(name: str, family_name: str, scored: Iterable[ScoredRow]) -> str:
    """Return a system's name, with that of its family where several families share the name."""
    same_name = (s.measurement for s in scored if s.measurement.identity["nmt"] == name)
    several = len({family(other) for other in same_name}) > 1
    return f"{name} {family_name[:6]}" if several else name


def name_of_all(panel: Panel, name: str, every: Sequence[ScoredRow]) -> str:
    """Return what a panel's row compares by a name that is the same in all metrics.

    Args:
        panel: the panel.
        name: in it.
        every: rows of all metrics. Systems of two trainings may share a name, each in one metric.
    """
    measurement = next(m for row_name, m in panel.measurements() if row_name == name)
    if panel.metric.compared != "nmt" or not measurement.model:
        return name
    systems = (s for s in every if s.measurement.model)
    name = system_name(measurement.identity["nmt"], family(measurement), systems)
    content = _name_content(panel.metric, measurement, list(panel.scored()))
    return f"{name} {content}" if content else name


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
    keys.append(Key(SETTINGS, "settings"))  # empty where all rows agree
    keys = [key for key in keys if key.name in shown[0].condition and key.name not in but]
    texts = []
    for panel in shown:
        columns = dict(panel.condition)
        columns["corpus"] = f"{columns['corpus']} {columns['lang_pair']}".strip()
        if "nmt" in columns:
            columns["nmt"] = system_name(columns["nmt"], columns["model"], every)
        texts.append({key.name: key.text(columns[key.name]) for key in keys})
    keys = [_name_setting(texts) if key.name == SETTINGS else key for key in keys]
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


def _name_setting(texts: Sequence[dict[str, str]]) -> Key:
    """Return the key of settings: where all panels differ in one, its name is the heading."""
    names, marks, values = zip(*(text[SETTINGS].partition(": ") for text in texts), strict=True)
    if len({*names}) > 1 or not all(marks) or any(": " in value for value in values):
        return Key(SETTINGS, "settings")
    for text, value in zip(texts, values, strict=True):
        text[SETTINGS] = value
    return Key(SETTINGS, names[0], f"{names[0]}: {{}}")


def caveats(measurements: Iterable[Measurement]) -> list[str]:
    """Return which corpora are generated, whose numbers mean little, and unlike versions.

    Beside them, which altered explainers stand in no table.
    """
    measurements = [*measurements]
    generated, left_out = set(), dict[str, None]()
    altered = set()
    versions: dict[str, set[str]] = {}
    for m in measurements:
        for library, numbers in m.facts.versions.items():
            versions.setdefault(library, set()).add(" and ".join(numbers))
        left_out |= dict.fromkeys(m.facts.omissions)
        if m.facts.alters and m.identity["explainer"]:
            altered.add(m.identity["explainer"])
        if m.facts.generated:
            generated.add(f"The {m.identity['corpus']} corpus is generated data.")
    unlike = [
        f"Rows were made by different versions of {library}: {', '.join(sorted(numbers))}."
        for library, numbers in sorted(versions.items())
        if len(numbers) > 1
    ]
    quick = [f"Left out to be quick: {sentence}." for sentence in left_out]
    names = ", ".join(sorted(altered))
    unshown = [f"In no table, and compared by analysis=[meta]: {names}."] if altered else []
    return [*sorted(generated), *doubts_about(measurements), *quick, *unlike, *unshown]


def doubts_about(measurements: Iterable[Measurement]) -> list[str]:
    """Return why numbers of a system on a corpus mean little, a sentence each."""
    doubts = set()
    for m in measurements:
        where = " ".join(m.identity[c] for c in SYSTEM if m.identity[c])
        doubts |= {f"Caution: {where}: {text}." for text in m.facts.doubts}
    return sorted(doubts)


def capped(rows: Iterable[ScoredRow]) -> bool:
    """Return whether a training behind some rows ended at its cap of epochs."""
    return any(s.measurement.facts.capped for s in rows)


def seeds_cell(
    column: Column, rows: Sequence[ScoredRow], emphasise: bool = True
) -> tuple[str, float | None]:
    """Return `pooled` as text and its rank; a count of seeds where some have no number."""
    numbers = pooled(column, rows)
    if numbers is None:
        status = rows[0].measurement.status.split(":")[0] if rows else OK
        return ("" if status == OK else status), None

    # A row that failed may stand beside the same row of an earlier run, which has a number.
    def trained(rows: Iterable[ScoredRow]) -> set[tuple[str, Any]]:
        return {(origin(s.measurement), s.row.get("seed", "")) for s in rows}

    every, having = trained(rows), trained(s for s in rows if _number(s, column.name))
    counted = "seeds" if len({system for system, _ in every}) == 1 else "trainings"
    some = "" if having == every else f" ({len(having)} of {len(every)} {counted})"
    text = column.cell(*numbers if column.interval else numbers[:1]) + some
    if column.interval and capped(rows):
        text = text.replace(" [", f" {CAP} [")
    return text, column.rank(numbers[0]) if emphasise else None
