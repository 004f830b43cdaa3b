"""What a page is about: its systems and test sets, and the four words that its tables use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from xnmt_bench.measuring.alike import family
from xnmt_bench.measuring.measurement import DECISIONS, ScoredRow
from xnmt_bench.measuring.metric import SYSTEM, Metric, count
from xnmt_bench.report.panels import pivot_values_of, sort_pivots, sortable
from xnmt_bench.report.table import test_sentences

System = tuple[str, str, str, str]  # corpus, language pair, name, family
RowsByMetric = list[tuple[Metric, list[ScoredRow]]]
UNMEASURED = "no row of it is here; add quality to metric=[...] for BLEU, chrF and TER"
# What each word means; behind it stands what a page has of it.
DECISION = (
    "one step of a translation: the model has read the source and the words before, and chooses "
    "the next word"
)
EXPLAINER = "says of every word that the model has read how relevant it is to the decision"
RULE = (
    "the words that an explainer finds most relevant to a decision: {k} of the source and {k} of "
    "the translation so far"
)
JUDGE = (
    "predicts every decision from its rule alone; the better it predicts, the more the words of "
    "the rule say about the decision"
)
BLIND = (
    "an explainer that never asks the model; a method that is not better than every blind row has "
    "shown nothing about the model"
)


@dataclass(frozen=True)
class Overview:
    """What a page says before its tables.

    Attributes:
        systems: of each system on a test set, what is known of it, by what it is.
        words: what each word means that the tables use.
    """

    systems: list[dict[str, str]]
    words: dict[str, str]


def overview(scored: Iterable[tuple[Metric, Sequence[ScoredRow]]]) -> Overview:
    """Return what the rows of all metrics are about."""
    by_metric = [*scored]
    systems = [describe_system(*group) for group in by_system(by_metric)]
    return Overview(systems, explain_words(by_metric))


def by_system(
    scored: Iterable[tuple[Metric, Sequence[ScoredRow]]],
) -> Iterator[tuple[System, RowsByMetric]]:
    """Yield the rows of each system on each corpus; one system has one vocabulary."""
    groups: dict[System, dict[str, tuple[Metric, list[ScoredRow]]]] = {}
    for metric, rows in scored:
        for row in rows:
            m = row.measurement
            corpus, pair, name = (str(m.identity[column]) for column in SYSTEM)
            by_metric = groups.setdefault((corpus, pair, name, family(m)), {})
            by_metric.setdefault(metric.name, (metric, []))[1].append(row)
    for system, by_metric in sorted(groups.items()):
        # Explainers first; what the system itself can do stands behind them.
        pairs = sorted(by_metric.values(), key=lambda pair: pair[0].compared != "explainer")
        yield system, pairs


def describe_system(system: System, scored: RowsByMetric) -> dict[str, str]:
    """Return what is known of a system on a test set, by what it is; what is unknown is left out.

    Args:
        system: as `by_system` has it.
        scored: its rows, by metric.
    """
    corpus, pair, name, _ = system
    rows = [row for _, of_metric in scored for row in of_metric]
    sentences = {text.partition(" ")[0] for row in rows if (text := test_sentences(row))}
    counted = f"{' or '.join(sorted(sentences, key=_size))} sentences" if sentences else ""
    decisions = max((row.values.get(DECISIONS, 0) for row in rows), default=0)
    described = {
        "model": ", ".join(filter(None, [name, _origin(name, rows)])),
        "test set": ", ".join(filter(None, [corpus, pair, counted])),
        "decisions": count(decisions) if decisions else "",
        "translation quality": _quality(scored),
    }
    return {term: text for term, text in described.items() if text}


def _size(counted: str) -> int:
    return int(counted.replace(",", ""))


def _origin(name: str, rows: Sequence[ScoredRow]) -> str:
    """Return where a system comes from: a path, a training, or files of its translations."""
    measurements = [row.measurement for row in rows]
    models = sorted({m.model[:6] for m in measurements if m.model})
    if not models:
        return "known from files; no model was opened"
    opened = sorted({m.facts.opened for m in measurements if m.facts.opened})
    parts = [f"opened from {path}" if path != name else "opened by this name" for path in opened]
    lineages = [m.facts.lineage for m in measurements if m.facts.lineage.get("family")]
    if seeds := sorted({lineage["seed"] for lineage in lineages}):
        parts.append(f"trained here with nmt.seed={','.join(map(str, seeds))}")
    initial = sorted({lineage["initial"][:6] for lineage in lineages if lineage.get("initial")})
    parts += [f"from the weights of {fingerprint}" for fingerprint in initial]
    return ", ".join([*parts, f"fingerprint {' and '.join(models)}"])


def _quality(scored: RowsByMetric) -> str:
    """Return how well a system translates, as the metrics of systems have it."""
    texts = dict.fromkeys(
        text
        for metric, rows in scored
        for row in rows
        if (text := metric.about_system(row.row)) is not None
    )
    # Of files without references it cannot be measured.
    has_model = any(row.measurement.model for _, rows in scored for row in rows)
    return "; ".join(texts).removeprefix("its translations have ") or UNMEASURED * has_model


def explain_words(scored: Sequence[tuple[Metric, Sequence[ScoredRow]]]) -> dict[str, str]:
    """Return what each word means that the tables of these rows use, and what they have of it."""
    rows = [row for _, of_metric in scored for row in of_metric]
    judged = [row for row in rows if row.measurement.facts.judge]
    sizes = sorted({row.row["k"] for row in judged if row.row.get("k")}, key=sortable)
    of_page = [
        ("decision", DECISION, [] if any(row.values.get(DECISIONS) for row in rows) else None),
        ("explainer", EXPLAINER, _explainers(rows, blind=False)),
        ("rule", RULE.format(k=" or ".join(map(str, sizes))), [] if sizes else None),
        ("judge", JUDGE, _judges(scored)),
        ("blind row", BLIND, _explainers(rows, blind=True)),
    ]
    return {
        word: f"{meaning}{'. Here: ' if names else ''}{', '.join(names)}"
        for word, meaning, names in of_page
        if names is not None
    }


def _judges(scored: Sequence[tuple[Metric, Sequence[ScoredRow]]]) -> list[str] | None:
    """Return the headings of the judges, in the order of the tables; None without any."""
    headings: dict[str, None] = {}
    for metric, rows in scored:
        values = pivot_values_of(metric, (row for row in rows if row.measurement.facts.judge))
        shown = sort_pivots(values.keys() - {*metric.csv_only}, values)
        headings |= dict.fromkeys(values[name].heading for name in shown)
    return [*headings] or None


def _explainers(rows: Sequence[ScoredRow], blind: bool) -> list[str] | None:
    """Return the names of explainers that ask the model, or of blind ones; None without any."""
    names = {
        str(row.row.get("explainer", ""))
        for row in rows
        if row.measurement.facts.blind == blind and not row.measurement.facts.alters
    }
    return sorted(names - {""}) or None
