"""Does a metric pass over noise, and notice exchanged words? After Hedström et al. (2023)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xnmt_bench.analyses.agreement import kendall_tau
from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws, JointBootstrap, interval
from xnmt_bench.measuring.measurement import Measurement, ScoredRow
from xnmt_bench.measuring.metric import Column, Row
from xnmt_bench.options import Count, Seed
from xnmt_bench.report.panels import Panel, distinguish, ends, origin
from xnmt_bench.report.summary import Cell, Line, Summary

NOISY, EXCHANGED = "noisy", "exchanged"
ALTERATIONS = (NOISY, EXCHANGED)
LEAST = 3  # explainers of a ranking
NOTE = (
    "How much worse an explainer's number is when its relevance is altered: by a little noise "
    "(explainer=noisy), which should change next to nothing, and by giving a decision's scores to "
    "other words of the same side (explainer=exchanged), which should cost much{log}. With 95 % "
    "bootstrap intervals, paired over units. Noise, share: what noise changes, of what the "
    "exchange does, where that costs anything. Rows of the same seed and system are compared."
)
Changes = Mapping[str, "Change"]  # by alteration
Pair = tuple[Measurement, Measurement]  # unaltered and altered


@dataclass(frozen=True)
class Change:
    """How much worse a number is; the least is the best, so that worse is above 0."""

    value: float
    low: float
    high: float

    def text(self) -> str:
        """Return it with its interval."""
        return f"{self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


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
        """Return a line for each explainer with altered rows, and a verdict on each result.

        Raises:
            NotApplicable: no explainer has altered rows beside its own, or the metric's numbers do
                not depend on which words an explainer names, or neither end is the better one.
        """
        metric, distinction = panels[0].metric, distinguish(panels)
        if not metric.of_words:
            raise NotApplicable("its numbers do not depend on which words are named")
        column = metric.headline
        if column.better is None:
            raise NotApplicable("neither more nor less of it is better")
        rows: list[Row] = []
        lines: list[Line] = []
        notes: list[str] = []
        for panel, texts, phrase in zip(
            panels, distinction.texts, distinction.phrases, strict=True
        ):
            for pivot in panel.altered:
                heading = panel.heading(pivot)
                all_changes = list(self._changes(panel, pivot))
                for name, noise, changes in all_changes:
                    row = {"result": pivot, "explainer": name, "options": noise}
                    rows.append(panel.condition | row | _numbers(changes))
                    shown = f"{name} ({noise})" if noise else name
                    cells = [*texts, heading, shown, *_texts(changes)]
                    lines.append(Line((*panel.condition.values(), pivot), list(map(Cell, cells))))
                if all_changes:
                    under = f"{phrase}: " if phrase else ""
                    verdict = self._verdict(panel, pivot, all_changes)
                    notes.append(f"{under}{heading}: {verdict}")
        if not rows:
            raise NotApplicable(_missing(panels))
        head = [*distinction.varying, "result", metric.compared]
        headings = [*head, "noise", "exchange", "noise, share %"]
        log = "; logarithms of the numbers are compared" if column.log else ""
        title = distinction.title(f"Noise and exchanged words, by {column.heading}")
        summary = Summary(title, headings, lines, [NOTE.format(log=log), *notes], len(head))
        measured = [end for alteration in ALTERATIONS for end in ends(alteration)]
        identity = (*panels[0].condition, "result", "explainer", "options")
        return Result(rows, identity, (*measured, "share"), summary)

    def _changes(self, panel: Panel, pivot: str) -> Iterator[tuple[str, str, Changes]]:
        """Yield explainers, options of the noise, and what alterations change."""
        altered = panel.altered[pivot]
        for name, unaltered in panel.rows.get(pivot, {}).items():
            change_of = {
                (by, options): change
                for (of, by, options), rows in altered.items()
                if of == name and (change := self._change(panel, _partners(unaltered, rows)))
            }
            exchange = change_of.get((EXCHANGED, ""))
            exchanges = {} if exchange is None else {EXCHANGED: exchange}
            noises = sorted(options for by, options in change_of if by == NOISY)
            for options in noises:
                yield name, options, {NOISY: change_of[NOISY, options]} | exchanges
            if exchanges and not noises:
                yield name, "", exchanges

    def _change(self, panel: Panel, pairs: Sequence[Pair]) -> Change | None:
        """Return how much worse the second rows of pairs are; None where there are none."""
        if not pairs:
            return None
        together = JointBootstrap([panel.metric] * 2, list(zip(*pairs, strict=True)), self.draws)
        before_R, after_R = _comparable(panel.metric.headline, together.values())
        change_R = after_R - before_R
        if np.isnan(change_R[0]):  # a row without a number
            return None
        return Change(float(change_R[0]), *interval(change_R[1:]))

    def _verdict(
        self, panel: Panel, pivot: str, all_changes: Sequence[tuple[str, str, Changes]]
    ) -> str:
        """Return a sentence on how a result of the metric answers alterations."""
        sentences = []
        # By name, since several amounts of noise stand beside one exchange.
        exchanged = {name: c[EXCHANGED] for name, _, c in all_changes if EXCHANGED in c}
        if exchanged:
            noticed = sum(change.low > 0 for change in exchanged.values())
            sentences.append(f"it notices exchanged words of {noticed} of {len(exchanged)}")
        shares = [share for *_, c in all_changes if (share := _share(c)) is not None]
        if shares:
            sentences.append(f"noise changes at most {100 * max(shares):.1f} % of that")
        if (tau := self._order(panel, pivot)) is not None:
            sentences.append(f"Kendall's tau of the order with noise and without is {tau:.2f}")
        return "; ".join(sentences or ["too few rows for a verdict"]) + "."

    def _order(self, panel: Panel, pivot: str) -> float | None:
        """Return how noise of the usual amount changes the order; None for fewer than three."""
        names_and_rows = [
            (of, rows)
            for (of, by, options), rows in panel.altered[pivot].items()
            if by == NOISY and not options
        ]
        pairs = [
            pair for of, rows in names_and_rows if (pair := _partners(panel.of(pivot, of), rows))
        ]
        if len(pairs) < LEAST:
            return None
        members = [list(side) for pair in pairs for side in zip(*pair, strict=True)]
        metrics = [panel.metric] * len(members)
        value_M = JointBootstrap(metrics, members, Draws(1, 0)).values()[:, :1]
        before_E1, after_E1 = (
            panel.metric.headline.least_first(value_M).reshape(-1, 2, 1).swapaxes(0, 1)
        )
        return float(kendall_tau(before_E1, after_E1)[0])


def _partners(unaltered: Sequence[ScoredRow], altered: Sequence[ScoredRow]) -> list[Pair]:
    """Return rows of the same system and seed; an explainer that draws nothing has no seed."""
    return [
        (first.measurement, second.measurement)
        for second in altered
        for first in unaltered
        if first.measurement.ok
        and second.measurement.ok
        and origin(first.measurement) == origin(second.measurement)
        and first.row.get("seed", "") in ("", second.row.get("seed", ""))
    ]


def _missing(panels: Sequence[Panel]) -> str:
    """Return why there is nothing to compare."""
    names = {of for panel in panels for by_names in panel.altered.values() for of, *_ in by_names}
    if not names:
        return "no altered explainer has rows; add explainer=exchanged,noisy explainer.phi.of=NAME"
    return (
        f"no unaltered row of {', '.join(sorted(names))} stands beside its altered form, with its "
        "default options and the same seed and system"
    )


def _comparable(column: Column, values: np.ndarray) -> np.ndarray:
    """Return numbers whose differences compare, the least the best."""
    return np.asarray(column.least_first(np.log(values) if column.log else values))


def _share(changes: Changes) -> float | None:
    """Return what noise changes, as a share of the exchange; None where that costs nothing."""
    if not set(ALTERATIONS) <= changes.keys() or changes[EXCHANGED].low <= 0:
        return None
    return abs(changes[NOISY].value) / changes[EXCHANGED].value


def _numbers(changes: Changes) -> Row:
    row: Row = {}
    for alteration in ALTERATIONS:
        change = changes.get(alteration)
        numbers = ("", "", "") if change is None else (change.value, change.low, change.high)
        row |= dict(zip(ends(alteration), numbers, strict=True))
    share = _share(changes)
    return row | {"share": "" if share is None else share}


def _texts(changes: Changes) -> list[str]:
    texts = [changes[a].text() if a in changes else "" for a in ALTERATIONS]
    share = _share(changes)
    return [*texts, "" if share is None else f"{100 * share:.1f}"]
