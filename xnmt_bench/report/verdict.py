"""What the rows of a metric say about its explainers, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from xnmt_bench.measuring.measurement import ScoredRow
from xnmt_bench.measuring.metric import SYSTEM, Column, Metric, percent
from xnmt_bench.report.panels import Panel, distinguish, doubts_about, panels, pivot_values_of
from xnmt_bench.report.standing import LEAST_UNITS, LEVEL, Standing, Standings

# The order of the words, and the text of each.
PHRASES = {
    "better": (0, "better than every blind row"),
    "alike": (1, "not told apart from {against}"),
    "worse": (2, "worse than {against}"),
    "untested": (3, "not tested, since it shares {units} units with {against}, fewer than {least}"),
}
NOTHING_BLIND = "no blind row stands beside the explainers, so nothing says what they have to beat"


def verdict(
    metric: Metric, scored: Sequence[ScoredRow], standings: Sequence[Standings]
) -> Iterator[str]:
    """Yield what was found: how good each system is, then a sentence for each judge and block.

    Args:
        metric: whose headline is compared; without a direction there is nothing to say.
        scored: its rows.
        standings: of each of their panels; see `standings_of`.
    """
    if metric.compared != "explainer" or metric.headline.better is None or not metric.of_words:
        return
    shown = [
        (panel, of_panel)
        for panel, of_panel in zip(panels(metric, scored), standings, strict=True)
        # A row without an explainer, as of people among themselves, has nothing to beat.
        if any(map(panel.ranked, panel.rows)) and panel.names != [""] and explains_system(panel)
    ]
    if shown:
        yield from doubts_about(s.measurement for s in scored)
        yield from agreements(scored)
    distinction = distinguish([panel for panel, _ in shown])
    for (panel, of_panel), phrase in zip(shown, distinction.phrases, strict=True):
        for pivot in panel.rows:
            if pivot not in metric.csv_only and panel.ranked(pivot):
                start = ", ".join(filter(None, [panel.heading(pivot), phrase]))
                of_pivot = of_panel.get(pivot, {})
                if why := _why_unranked(of_pivot):
                    yield f"{start}{',' * bool(phrase)} {why}{_name_judges(panel, of_panel)}."
                else:
                    text = _describe(metric.headline, of_pivot) or NOTHING_BLIND
                    yield f"By {start}: {text}."


def explains_system(panel: Panel) -> bool:
    """Return whether a panel has explanations of a system; aligners and files of links are none."""
    rows = (s.measurement for by_name in panel.rows.values() for of in by_name.values() for s in of)
    return any(m.model or "relevance" in m.content for m in rows)


def _why_unranked(standings: Mapping[str, Standing]) -> str:
    """Return why a column ranks nothing; empty where it ranks."""
    return next((standing.why for standing in standings.values()), "")


def _name_judges(panel: Panel, of_panel: Standings) -> str:
    """Return which columns of a panel rank its rows, in words; empty where none does."""
    shown = [p for p in panel.rows if p not in panel.metric.csv_only and panel.ranked(p)]
    judges = [panel.heading(p) for p in shown if not _why_unranked(of_panel.get(p, {}))]
    return f"; what judges here: {'; '.join(judges)}" if judges else ""


def agreements(scored: Sequence[ScoredRow]) -> list[str]:
    """Return how often each system says the reference's own word, a sentence each."""
    sentences = dict[str, None]()
    for m in (s.measurement for s in scored):
        if shares := m.facts.agreement:
            where = " ".join(m.identity[c] for c in SYSTEM if m.identity[c])
            right, constant = (percent(shares[name]) for name in ("right", "constant"))
            sentences[
                f"{where}: the system says the reference's own word in {right} of the decisions; a "
                f"constant guess would in {constant}."
            ] = None
    return [*sentences]


def _describe(column: Column, standings: Mapping[str, Standing]) -> str:
    """Return the standings in words, those that are better than every blind row first."""
    by_word: dict[tuple[int, str], list[str]] = {}
    for name, standing in standings.items():
        place, words = PHRASES[standing.word]
        phrase = words.format(against=standing.against, units=standing.units, least=LEAST_UNITS)
        by_word.setdefault((place, phrase), []).append(f"{name}{_size(column, standing)}")
    return "; ".join(
        f"{phrase}: {', '.join(names)}" for (_, phrase), names in sorted(by_word.items())
    )


def _size(column: Column, standing: Standing) -> str:
    """Return how far a row is from the blind row, with interval and p, in brackets."""
    if (difference := standing.difference) is None:
        return ""
    ends = (difference.effect, difference.low, difference.high)
    if column.log:
        effect, low, high = (f"{x:.2f}" for x in ends)
        size = f"{effect} [{low}, {high}] times {standing.against}"
    else:
        effect, low, high = (_signed(column, x) for x in ends)
        size = f"{effect} [{low}, {high}] beside {standing.against}"
    return f" ({size}, {_write_p(standing.p)})"


def _write_p(p: float) -> str:
    """Return a p-value; with four digits where three would read as the level of the test."""
    if p < 0.001:
        return "p < 0.001"
    rounded_up = p < LEVEL <= round(p, 3)
    return f"p = {p:.{4 if rounded_up else 3}f}"


def _signed(column: Column, value: float) -> str:
    return f"{'+' if value > 0 else ''}{column.form(value)}"


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
    beside = [c for c in metric.columns if c.is_shown(scored) and c is not metric.headline]
    for column in (*headline, *beside):
        if column.meaning and any(column.name in s.values for s in scored):
            texts[column.heading] = column.meaning + _direction(column)
    return texts


def _lowered(text: str) -> str:
    """Return a text with a small first letter, unless its first word is a name."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _direction(column: Column) -> str:
    return f"; {column.better} is better" if column.better else ""
