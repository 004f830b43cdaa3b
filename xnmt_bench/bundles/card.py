"""The system card of a bundle: what was measured, of which systems, and what to know about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xnmt_bench.measuring.alike import origin
from xnmt_bench.measuring.measurement import ScoredRow
from xnmt_bench.measuring.metric import Metric
from xnmt_bench.report.panels import caveats

Scored = Mapping[str, tuple[Metric, Sequence[ScoredRow]]]


def card(scored: Scored, verdicts: Sequence[str], author: str | None) -> str:
    """Return the card as Markdown.

    Args:
        scored: metrics with their rows, by name.
        verdicts: what the rows say, a sentence each.
        author: who publishes the bundle.
    """
    rows = [row for _, rows in scored.values() for row in rows]
    systems = dict.fromkeys(_system(row) for row in rows)
    lines = ["# What was measured", "", f"Published by: {author or 'not given'}.", ""]
    for system in systems:
        lines += [*_about(system, scored), ""]
    if verdicts:
        lines += ["## What the rows say", "", *(f"- {sentence}" for sentence in verdicts), ""]
    if warnings := caveats(row.measurement for row in rows):
        lines += ["## What to know before quoting a number", ""]
        lines += [*(f"- {warning}" for warning in warnings), ""]
    lines += [
        "## Files",
        "",
        "`tables/` for reading; `measurements/` with the units that every number is made from;",
        "`signatures.txt`, `commands.txt` and `configuration/` to make them again;",
        "`every_eval_ever/` as other leaderboards read them. `manifest.json` has their SHA-256.",
        "",
    ]
    return "\n".join(lines)


def _system(row: ScoredRow) -> tuple[str, str, str, str]:
    m = row.measurement
    corpus, pair, name = (str(m.identity[column]) for column in ("corpus", "lang_pair", "nmt"))
    return name, origin(m), corpus, pair


def _about(system: tuple[str, str, str, str], scored: Scored) -> Iterator[str]:
    """Yield the lines on one system: what it is, and what stands in which table."""
    name, model, corpus, pair = system
    yield f"## {name or 'Without a system'} on {corpus} {pair}".rstrip()
    yield ""
    yield f"- fingerprint: {model or 'none: no model was opened'}"
    rows = {
        metric: [row for row in metric_rows if _system(row) == system]
        for metric, (_, metric_rows) in scored.items()
    }
    measured = [row.measurement for of_metric in rows.values() for row in of_metric]
    lineages = [m.facts.lineage for m in measured if m.facts.lineage]
    if lineages:
        lineage = lineages[0]
        started = lineage.get("initial") or "new weights"
        yield f"- trained here: seed {lineage.get('seed')}, from {started}"
    test_sets = {str(m.settings["test set"]) for m in measured if "test set" in m.settings}
    yield f"- test sets: {', '.join(sorted(test_sets)) or 'none'}"
    for metric, of_metric in rows.items():
        if of_metric:
            yield f"- {metric}: {_counted(scored[metric][0], of_metric)}"


def _counted(metric: Metric, rows: Sequence[ScoredRow]) -> str:
    """Return how many rows there are, of what, and how many have no number."""
    parts = [f"{len(rows)} {'row' if len(rows) == 1 else 'rows'}"]
    for blind in (False, True):
        names = {
            str(row.measurement.identity.get("explainer", ""))
            for row in rows
            if bool(row.measurement.facts.blind) == blind
        } - {""}
        if names:
            parts.append(f"{'blind' if blind else 'explainers'}: {', '.join(sorted(names))}")
    if metric.pivot:
        pivots = sorted({str(row.row[metric.pivot]) for row in rows} - {""})
        parts.append(f"{metric.pivot.replace('instantiation', 'judges')}: {', '.join(pivots)}")
    if missing := sum(not row.measurement.ok for row in rows):
        parts.append(f"without a number: {missing}")
    return "; ".join(parts)
