"""Does a metric pass over noise, and notice exchanged words? After Hedström et al. (2023)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xnmt_bench.analyses.agreement import kendall_tau
from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws, JointBootstrap, interval
from xnmt_bench.measuring.measurement import ScoredRow
from xnmt_bench.measuring.metric import Column, Row
from xnmt_bench.options import Count, Seed
from xnmt_bench.report.panels import Panel, distinguish, ends, least_first
from xnmt_bench.report.summary import Cell, Line, Summary

NOISY, EXCHANGED = "noisy", "exchanged"
ALTERATIONS = (NOISY, EXCHANGED)
LEAST = 3  # explainers of a ranking
NOTE = (
    "How much worse an explainer's number is when its relevance is altered: by a little noise "
    "(explainer=noisy), which should change next to nothing, and by giving a decision's scores to "
    "other words of the same side (explainer=exchanged), which should cost much{log}. With 95 % "
    "bootstrap intervals, paired over units. Noise, share: what noise changes, of what the "
    "exchange does."
)


@dataclass(frozen=True)
class Change:
    """How much worse a number is; the least is the best, so that worse is above 0."""

    value: float
    low: float
    high: float

    def text(self, form: str = "{:+.3f}") -> str:
        """Return it with its interval."""
        return f"{form} [{form}, {form}]".format(self.value, self.low, self.high)


class Meta(Analysis):
    """How altering the relevance of explainers changes a metric's numbers.

    Args:
        samples: bootstrap samples.
        seed: of the draws.
    """

    name = "meta"

    def __init__(self, samples: Count = 1000, seed: Seed = 0) -> None:
        self.draws = Draws(samples, seed)

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return a line for each explainer with altered rows, and a verdict on each result."""
        metric, distinction = panels[0].metric, distinguish(panels)
        column = metric.headline
        rows: list[Row] = []
        lines: list[Line] = []
        notes: list[str] = []
        for panel, texts, phrase in zip(
            panels, distinction.texts, distinction.phrases, strict=True
        ):
            for pivot in panel.rows:
                heading = panel.heading(pivot)
                changes_by_name = dict(self._changes(panel, pivot))
                for name, changes in changes_by_name.items():
                    rows.append(panel.condition | {"result": pivot} | _row(name, changes))
                    cells = [*texts, heading, name, *_texts(changes)]
                    lines.append(Line((*panel.condition.values(), pivot), list(map(Cell, cells))))
                if changes_by_name:
                    under = f"{phrase}: " if phrase else ""
                    verdict = self._verdict(panel, pivot, changes_by_name)
                    notes.append(f"{under}{heading}: {verdict}")
        if not rows:
            raise NotApplicable(
                "no explainer stands beside its altered form; add explainer=exchanged,noisy "
                "explainer.phi.of=NAME"
            )
        head = [*distinction.varying, "result", metric.compared]
        headings = [*head, "noise", "exchange", "noise, share %"]
        log = "; logarithms of the numbers are compared" if column.log else ""
        title = distinction.title(f"Noise and exchanged words, by {column.heading}")
        summary = Summary(title, headings, lines, [NOTE.format(log=log), *notes], len(head))
        measured = [end for alteration in ALTERATIONS for end in ends(alteration)]
        identity = (*panels[0].condition, "result", "explainer")
        return Result(rows, identity, (*measured, "share"), summary)

    def _changes(self, panel: Panel, pivot: str) -> Iterator[tuple[str, dict[str, Change]]]:
        """Yield explainers with what each alteration of theirs changes."""
        altered = panel.altered.get(pivot, {})
        for name, seeds in panel.rows[pivot].items():
            changes = {
                alteration: change
                for alteration in ALTERATIONS
                if (rows := altered.get((name, alteration)))
                and (change := self._change(panel, seeds, rows))
            }
            if changes:
                yield name, changes

    def _change(
        self, panel: Panel, unaltered: Sequence[ScoredRow], altered: Sequence[ScoredRow]
    ) -> Change | None:
        column = panel.metric.headline
        both = [[s.measurement for s in rows if s.measurement.ok] for rows in (unaltered, altered)]
        if not all(both):
            return None
        value_2R = JointBootstrap([panel.metric] * 2, both, self.draws).values()
        before_R, after_R = _comparable(column, value_2R)
        change_R = after_R - before_R
        if np.isnan(change_R[0]):
            return None
        return Change(float(change_R[0]), *interval(change_R[1:]))

    def _verdict(
        self, panel: Panel, pivot: str, changes_by_name: dict[str, dict[str, Change]]
    ) -> str:
        """Return a sentence on how a result of the metric answers alterations."""
        sentences = []
        all_changes = changes_by_name.values()
        exchanged = [changes[EXCHANGED] for changes in all_changes if EXCHANGED in changes]
        if exchanged:
            noticed = sum(change.low > 0 for change in exchanged)
            sentences.append(f"it notices exchanged words of {noticed} of {len(exchanged)}")
        shares = [share for changes in all_changes if (share := _share(changes)) is not None]
        if shares:
            sentences.append(f"noise changes at most {100 * max(shares):.1f} % of that")
        if (tau := self._order(panel, pivot)) is not None:
            sentences.append(f"Kendall's tau of the order with noise and without is {tau:.2f}")
        return "; ".join(sentences) + "."

    def _order(self, panel: Panel, pivot: str) -> float | None:
        """Return how noise changes the order of explainers; None for fewer than three."""
        column = panel.metric.headline
        pairs = []
        for (name, alteration), rows in panel.altered.get(pivot, {}).items():
            before = panel.rank(pivot, name)
            after = [s.values[column.name] for s in rows if column.name in s.values]
            if alteration == NOISY and before is not None and after:
                pairs.append((before, least_first(column, float(np.mean(after)))))
        if len(pairs) < LEAST:
            return None
        return float(kendall_tau(*np.array(pairs).T[:, :, None])[0])


def _comparable(column: Column, values: np.ndarray) -> np.ndarray:
    """Return numbers whose differences compare, the least the best."""
    return np.asarray(least_first(column, np.log(values) if column.log else values))


def _share(changes: dict[str, Change]) -> float | None:
    """Return what noise changes, as a share of what the exchange does; None without either."""
    if not set(ALTERATIONS) <= changes.keys() or not changes[EXCHANGED].value:
        return None
    return abs(changes[NOISY].value / changes[EXCHANGED].value)


def _row(name: str, changes: dict[str, Change]) -> dict[str, Any]:
    row: dict[str, Any] = {"explainer": name}
    for alteration in ALTERATIONS:
        change = changes.get(alteration)
        numbers = ("", "", "") if change is None else (change.value, change.low, change.high)
        row |= dict(zip(ends(alteration), numbers, strict=True))
    share = _share(changes)
    return row | {"share": "" if share is None else share}


def _texts(changes: dict[str, Change]) -> list[str]:
    texts = [changes[a].text() if a in changes else "" for a in ALTERATIONS]
    share = _share(changes)
    return [*texts, "" if share is None else f"{100 * share:.1f}"]
