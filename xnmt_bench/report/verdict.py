"""What the rows of a metric say about its explainers, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xnmt_bench.measuring.measurement import ScoredRow
from xnmt_bench.measuring.metric import Column, Metric
from xnmt_bench.report.panels import Panel, distinguish, panels, pivot_values_of, pooled

NOTHING_BLIND = "no blind row stands beside the explainers, so nothing says what they have to beat"


def verdict(metric: Metric, scored: Sequence[ScoredRow]) -> Iterator[str]:
    """Yield a sentence for each judge and system: who beats every blind row, and who does not.

    An explainer beats a blind row where it is better and the two intervals do not overlap.

    Args:
        metric: whose headline is compared; without a direction there is nothing to say.
        scored: its rows.
    """
    # Where numbers do not depend on which words are named, blind rows are beaten by construction.
    if metric.compared != "explainer" or metric.headline.better is None or not metric.of_words:
        return
    shown = [
        panel
        for panel in panels(metric, scored)
        # A row without an explainer, as of people among themselves, has nothing to beat.
        if any(map(panel.ranked, panel.rows)) and panel.names != [""]
    ]
    distinction = distinguish(shown)
    for panel, phrase in zip(shown, distinction.phrases, strict=True):
        for pivot in panel.rows:
            if pivot not in metric.csv_only and panel.ranked(pivot):
                start = ", ".join(filter(None, [f"By {panel.heading(pivot)}", phrase]))
                yield f"{start}: {_compare_with_blind(panel, pivot)}."


def definitions(scored: Iterable[tuple[Metric, Sequence[ScoredRow]]]) -> dict[str, str]:
    """Return what each column of the tables is, by its heading.

    A heading that two metrics give to unlike columns stands with the metric's name, from the second
    on.
    """
    texts: dict[str, str] = {}
    for metric, rows in scored:
        for heading, text in _definitions(metric, rows).items():
            fits = texts.get(heading, text) == text
            texts[heading if fits else f"{heading} ({metric.name})"] = text
    return texts


def _definitions(metric: Metric, scored: Sequence[ScoredRow]) -> dict[str, str]:
    texts = {}
    pivots = {pivot for panel in panels(metric, scored) for pivot in panel.rows} - {""}
    values = pivot_values_of(metric, scored) if pivots else {}
    for value in (v for name, v in values.items() if name not in metric.csv_only):
        if value.meaning:
            # Under a pivot the tables show its values in the place of the column's own heading.
            texts[value.heading] = f"{metric.headline.meaning}: {_lowered(value.meaning)}"
    headline = [] if pivots else [metric.headline]
    beside = [c for c in metric.columns if c.shown and c is not metric.headline]
    for column in (*headline, *beside):
        if column.meaning and any(column.name in s.values for s in scored):
            texts[column.heading] = column.meaning + _direction(column)
    return texts


def _lowered(text: str) -> str:
    """Return a text with a small first letter, unless its first word is a name."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _direction(column: Column) -> str:
    return f"; {column.better} is better" if column.better else ""


def _compare_with_blind(panel: Panel, pivot: str) -> str:
    blind = [
        name
        for name in panel.names
        if panel.blind(name)
        and panel.comparable(pivot, name)
        and panel.value(pivot, name) is not None
    ]
    if not blind:
        return NOTHING_BLIND
    column = panel.metric.headline
    # Named is the strongest blind row, though every one of them has to be beaten.
    best = min(blind, key=lambda name: panel.rank(pivot, name) or 0.0)
    groups: dict[str, list[str]] = {"beats": [], "ahead": [], "not": []}
    for name in panel.ranked(pivot):
        groups[_standing(panel, pivot, name, blind)].append(name)
    value = pooled(column, panel.of(pivot, best))
    assert value is not None
    strongest = f"{best} ({column.form(value[0])})"
    parts = []
    if names := groups["beats"]:
        parts.append(f"{_listed(names)} {_verb(names, 'beats', 'beat')} every blind row")
    if names := groups["ahead"]:
        verb = _verb(names, "is", "are")
        parts.append(f"{_listed(names)} {verb} ahead of every blind row, within the intervals")
    if names := groups["not"]:
        verb = _verb(names, "does", "do")
        parts.append(f"{_listed(names)} {verb} not beat {strongest}, which never asks the model")
    return "; ".join(parts)


def _standing(panel: Panel, pivot: str, name: str, blind: Sequence[str]) -> str:
    """Return how an explainer stands to all blind rows: `beats`, `ahead` or `not`."""
    column = panel.metric.headline
    own_numbers = pooled(column, panel.of(pivot, name))
    blind_numbers = [numbers for n in blind if (numbers := pooled(column, panel.of(pivot, n)))]
    assert own_numbers is not None
    # By the values alone first: whether it is ahead; the intervals then say how surely.
    if not all(
        column.least_first(own_numbers[0]) < column.least_first(row[0]) for row in blind_numbers
    ):
        return "not"
    # A blind row that is not the best may have the wider interval.
    lower = column.better == "lower"
    apart = all(
        own_numbers[2] < row[1] if lower else own_numbers[1] > row[2] for row in blind_numbers
    )
    return "beats" if apart else "ahead"


def _verb(names: Sequence[str], singular: str, several: str) -> str:
    return singular if len(names) == 1 else several


def _listed(names: Sequence[str]) -> str:
    """Return names as a list in words."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
