"""Which differences are differences: a paired bootstrap (Koehn 2004), beside the seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from xnmt_bench.analyses.analysis import Analysis, Result, pivoted
from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.bootstrap import Draws, Together
from xnmt_bench.metrics.measurement import Measurement
from xnmt_bench.metrics.metric import Column, Metric, Row
from xnmt_bench.report.panels import Panel
from xnmt_bench.report.summary import Cell

NOTE = (
    "{effect} of the first {thing} {preposition} that of the second, with its 95 % interval by a "
    "bootstrap over units{paired} (at least {samples:,} samples): {below}. n.s.: not significant "
    "at {level:g}, p-values corrected for the number of pairs (Holm). seeds: smaller than the "
    "spread of the seeds, so not called a difference."
)
ONE_SEED = (
    "These proxies were trained with one seed, so nothing is known of the spread of seeds; sweep "
    "seed=0,1,2 to know it."
)


@dataclass(frozen=True)
class Difference:
    """Two values, compared on the same resampled units where they share any.

    Attributes:
        effect: the first over the second on a logarithmic scale, else the first less the second.
        low: lower end of its 95 % bootstrap interval.
        high: its upper end.
        p: two-sided: how often resampling turns the difference around, twice, at most 1.
        paired: whether both are of the same units, so that each draw is the same for both.
    """

    effect: float
    low: float
    high: float
    p: float
    paired: bool


def compare(
    metric: Metric, first: Sequence[Measurement], second: Sequence[Measurement], draws: Draws
) -> Difference:
    """Compares two things by a metric's headline.

    Args:
        metric: the metric.
        first: the measurement of each of its seeds, whose values are averaged.
        second: the same of the other.
        draws: how often and from which seed.
    """
    together = Together([metric, metric], [first, second], draws)
    values = together.values()
    log = metric.headline.log
    difference = np.log(values[0] / values[1]) if log else values[0] - values[1]
    drawn_R = difference[1:][~np.isnan(difference[1:])]
    low, high = np.percentile(drawn_R, [2.5, 97.5]) if len(drawn_R) else (np.nan, np.nan)
    # The sample itself counts as one of the draws, so that no p is 0 (Davison and Hinkley 1997).
    turned = min((drawn_R <= 0).sum(), (drawn_R >= 0).sum())
    p = min(1.0, 2 * (turned + 1) / (len(drawn_R) + 1))
    effect, low, high = (float(np.exp(x) if log else x) for x in (difference[0], low, high))
    return Difference(effect, low, high, float(p), together.paired)


def holm(p_values: Sequence[float]) -> np.ndarray:
    """P-values corrected for their number (Holm 1979), in the given order."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


class Significance(Analysis):
    """Compares every two things of every panel, within each value of the pivot.

    Args:
        samples: bootstrap samples, at the least.
        seed: of the draws.
        level: of significance.
    """

    name = "significance"

    def __init__(self, samples: int = 1000, seed: int = 0, level: float = 0.05) -> None:
        self.samples, self.seed, self.level = samples, seed, level

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """One line a pair, the better one first; one column a value of the pivot."""
        metric, by_panel = panels[0].metric, [self._rows(panel) for panel in panels]
        rows = [row for own in by_panel for row in own]
        if not rows:
            raise NotApplicable("there are no two to compare")
        thing = "NMT" if metric.compared == "nmt" else metric.compared
        notes = [self._note(metric.headline, thing, rows)]
        if any(row["seeds"] == 1 for row in rows) and "seed" in metric.identity:
            notes.append(ONE_SEED)
        title = f"Significance of differences in {metric.headline.heading}"
        words = {thing: "first", "than": "second"}
        summary = pivoted(
            title, panels, by_panel, words, "result", partial(_cell, metric.headline), notes
        )
        effect = _effect(metric.headline)
        measured = (effect, f"{effect}_low", f"{effect}_high", "p", "p_corrected", "samples",
                    "paired", "seeds", "seed_spread", "verdict")  # fmt: skip
        return Result(rows, (*panels[0].condition, "result", "first", "second"), measured, summary)

    def _rows(self, panel: Panel) -> list[Row]:
        metric, column = panel.metric, panel.metric.headline
        effect = _effect(column)
        measured = {pivot: panel.measured(pivot) for pivot in panel.rows}
        measured = {pivot: found for pivot, found in measured.items() if len(found) > 1}
        if not measured:
            return []
        # The better by the last value of the pivot stands first.
        order = panel.ranked(list(measured)[-1])
        pairs = list(combinations(order, 2))
        # The least p-value there can be, corrected for all pairs, has to be able to pass.
        samples = max(self.samples, math.ceil(4 * len(pairs) / self.level))
        rows: list[Row] = []
        for pivot, found in measured.items():
            own = [(a, b) for a, b in pairs if a in found and b in found]
            draws = Draws(samples, self.seed)
            differences = [compare(metric, found[a], found[b], draws) for a, b in own]
            corrected = holm([d.p for d in differences])
            for (a, b), d, p in zip(own, differences, corrected, strict=True):
                widest = max(self._spread(panel, pivot, name) for name in (a, b))
                size = max(d.effect, 1 / d.effect) if column.log else abs(d.effect)
                verdict = "n.s." if p >= self.level else "seeds" if size <= widest else "different"
                rows.append(
                    {**panel.condition, "result": pivot, "first": a, "second": b,
                     effect: d.effect, f"{effect}_low": d.low, f"{effect}_high": d.high, "p": d.p,
                     "p_corrected": float(p), "samples": samples, "paired": d.paired,
                     "seeds": min(len(found[a]), len(found[b])), "seed_spread": widest,
                     "verdict": verdict}
                )  # fmt: skip
        return rows

    def _spread(self, panel: Panel, pivot: str, name: str) -> float:
        """How far the seeds lie apart: as a ratio on a logarithmic scale, else as a difference."""
        column = panel.metric.headline
        values = [s.row[column.name] for s in panel.of(pivot, name) if column.name in s.row]
        return max(values) / min(values) if column.log else max(values) - min(values)

    def _note(self, column: Column, thing: str, rows: Sequence[Row]) -> str:
        side, good = {"lower": ("below", "better"), "higher": ("above", "better")}.get(
            column.better or "", ("below", "less")
        )
        return NOTE.format(
            effect=column.heading,
            thing=thing,
            preposition="over" if column.log else "less",
            paired=", the same draws for both" if all(r["paired"] for r in rows) else "",
            samples=self.samples,
            below=f"{side} {1 if column.log else 0} the first is {good}",
            level=self.level,
        )


def _effect(column: Column) -> str:
    return "ratio" if column.log else "difference"


def _cell(column: Column, row: Row) -> Cell:
    marks = [] if row["verdict"] == "different" else [row["verdict"]]
    marks += [] if row["paired"] else ["unpaired"]
    shown = replace(column, form="{:.2f}".format) if column.log else column
    text = shown.cell(*(row[f"{_effect(column)}{end}"] for end in ("", "_low", "_high")))
    return Cell(" ".join([text, *marks]))
