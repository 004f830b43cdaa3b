"""Which rows are the same row, and which numbers compare.

Tables, panels, analyses and bundles all ask here. Two rows are the same row where `row_key` is
equal; numbers are ranked together where `comparable` is true of their settings.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from xnmt_bench.measuring.measurement import Measurement, ScoredRow
from xnmt_bench.store import fingerprint

T = TypeVar("T")


def row_key(measurement: Measurement) -> str:
    """Return the fingerprint of what tells a row from others, its settings left out."""
    m = measurement
    return fingerprint({"columns": m.identity, "model": m.model, "content": m.content})


def comparable(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether two settings have the same value wherever both have one."""
    return all(first[name] == second[name] for name in first.keys() & second.keys())


def same_decisions(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether columns of two metrics are of the same explained decisions.

    What judges learn from changes none, so that the names of their corpora may differ.
    """
    return all(first.get(c) == second.get(c) for c in ("lang_pair", "nmt", "model", "k"))


def group_comparable(
    things: Iterable[T],
    settings: Callable[[T], Mapping[str, Any]],
    key: Callable[[T], Hashable | None],
) -> list[tuple[dict[str, Any], list[T]]]:
    """Return groups of comparable things, each with the settings of all its members.

    Args:
        things: each joins the first group that it fits.
        settings: of a thing.
        key: of a thing. Two of one key are never in one group; None may be in any.
    """
    groups: list[tuple[dict[str, Any], list[T], set[Hashable]]] = []
    for thing in things:
        thing_settings, keys = settings(thing), {key(thing)} - {None}
        fitting = (g for g in groups if comparable(g[0], thing_settings) and not keys & g[2])
        common, members, taken = group = next(fitting, ({}, [], set()))
        if not members:
            groups.append(group)
        common.update(thing_settings)
        members.append(thing)
        taken |= keys
    return [(common, members) for common, members, _ in groups]


def settings_of(scored_row: ScoredRow) -> dict[str, Any]:
    """Return what decides a row's numbers besides its columns; nothing without a number."""
    m = scored_row.measurement
    settings: dict[str, Any] = m.settings if m.ok else {}
    return settings


def seedless(scored_row: ScoredRow) -> tuple[Any, ...]:
    """Return what rows share that differ only in their seed, or in what their files hold."""
    m = scored_row.measurement
    columns = tuple(value for column, value in m.identity.items() if column != "seed")
    return (*columns, origin(m), str(settings_of(scored_row)))


def family(measurement: Measurement) -> str:
    """Return what systems share that differ only in `nmt.seed`; else the system's own."""
    return str(measurement.facts.lineage.get("family") or origin(measurement))


def origin(measurement: Measurement) -> str:
    """Return the fingerprint of the system, or of the file that replaces it."""
    if measurement.model or not measurement.identity["nmt"]:
        return measurement.model
    files = (measurement.content.get(kind, "") for kind in ("outputs", "scores", "relevance"))
    return next(filter(None, files), "")


def paired(
    before: Sequence[Measurement],
    after: Sequence[Measurement],
    start: Callable[[Measurement], str | None] = origin,
) -> list[tuple[Measurement, Measurement]]:
    """Return each row with the row of the same seed that it is compared with.

    Args:
        before: rows of which one stands first in each pair. Without a seed it fits each seed, as
            that of an explainer that draws nothing.
        after: those that stand second.
        start: the system whose row stands first, by the row that stands second; the same system,
            if not given.
    """
    return [
        (first, second)
        for second in after
        for first in before
        if origin(first) == start(second)
        and first.identity.get("seed", "") in ("", second.identity.get("seed", ""))
    ]
