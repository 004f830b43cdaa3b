"""Which differences are differences: a paired bootstrap (Koehn 2004), beside the seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations

import numpy as np

from xnmt_bench.analyses.analysis import Analysis, Result, pivoted
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws, JointBootstrap, interval
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.metric import Column, Metric, Row
from xnmt_bench.options import Count, Seed, Share
from xnmt_bench.report.panels import Panel, compared_heading, ends
from xnmt_bench.report.summary import Cell

NOTE = (
    "{effect} of the first {thing} {preposition} that of the second, with its 95 % interval by a "
    "bootstrap over units{paired} (at least {samples:,} samples): {below}. n.s.: not significant "
    "at {level:g}, p-values corrected for the number of pairs (Holm). seeds: smaller than the "
    "spread of the seeds, or of the trainings (nmt.seed), so not called a difference."
)
ONE_SEED = (
    "Some rows have one seed, so nothing is known of the spread of their seeds; sweep seed=0,1,2 "
    "to know it."
)


@dataclass(frozen=True)
class Difference:
    """Two values, compared on the same resampled units where they share any."""

    effect: float  # the first over the second on a logarithmic scale, else less the second
    low: float  # its 95 % bootstrap interval
    high: float
    p: float  # two-sided: how often resampling turns the difference around, twice, at most 1
    paired: bool  # both are of the same units, so that each draw is the same for both


def compare(
    metric: Metric, first: Sequence[Measurement], second: Sequence[Measurement], draws: Draws
) -> Difference:
    """Compare two things by a metric's headline, averaged over the measurements of their seeds."""
    together = JointBootstrap([metric, metric], [first, second], draws)
    first_R, second_R = together.values()
    log = metric.headline.log
    # A ratio on a logarithmic scale, where it is symmetric around 0.
    difference = np.log(first_R / second_R) if log else first_R - second_R
    drawn_R = difference[1:][~np.isnan(difference[1:])]
    # The sample itself counts as one of the draws, so that no p is 0 (Davison and Hinkley 1997).
    # The smaller tail, doubled below for a two-sided test.
    turned = min((drawn_R <= 0).sum(), (drawn_R >= 0).sum())
    p = min(1.0, 2 * (turned + 1) / (len(drawn_R) + 1))
    both_ends = interval(drawn_R)
    effect, low, high = (float(np.exp(x) if log else x) for x in (difference[0], *both_ends))
    return Difference(effect, low, high, float(p), together.paired)


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Return P-values corrected for their number (Holm 1979), in the given order."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    # The least p times n, the next times n - 1, and never below the one before.
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.minimum(stepped, 1.0)[np.argsort(order)]  # the inverse of a permutation


class Significance(Analysis):
    """Compares every two things of every panel, within each value of the pivot.

    Args:
        samples: bootstrap samples, at the least.
        seed: of the draws.
        level: of significance.
    """

    name = "significance"

    def __init__(self, samples: Count = 1000, seed: Seed = 0, level: Share = 0.05) -> None:
        self.samples, self.seed, self.level = samples, seed, level

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return one line a pair, the better one first; one column a value of the pivot."""
        metric, by_panel = panels[0].metric, [self._rows(panel) for panel in panels]
        rows = list(chain(*by_panel))
        if not rows:
            raise NotApplicable("there are no two to compare")
        column, compared = metric.headline, compared_heading(metric)
        shown = replace(column, form="{:.2f}".format) if column.log else column
        effect = _effect(column)

        def cell(row: Row) -> Cell:
            marks = [] if row["verdict"] == "different" else [row["verdict"]]
            marks += [] if row["paired"] else ["unpaired"]
            return Cell(" ".join([shown.cell(*(row[name] for name in effect)), *marks]))

        notes = [self._note(column, compared, rows)]
        if any(_has_one_seed(panel) for panel in panels):
            notes.append(ONE_SEED)
        title = f"Significance of differences in {column.heading}"
        words = {compared: "first", "than": "second"}
        summary = pivoted(title, panels, by_panel, words, "result", cell, notes)
        measured = (
            *effect,
            "p",
            "p_corrected",
            "samples",
            "paired",
            "seeds",
            "seed_spread",
            "verdict",
        )
        return Result(rows, (*panels[0].condition, "result", "first", "second"), measured, summary)

    def _rows(self, panel: Panel) -> list[Row]:
        metric, column = panel.metric, panel.metric.headline
        effect, effect_low, effect_high = _effect(column)

        def spread(pivot: str, name: str) -> float:
            # One value for each seed.
            values = [s.row[column.name] for s in panel.of(pivot, name) if column.name in s.row]
            return max(values) / min(values) if column.log else max(values) - min(values)

        by_pivot = {pivot: tested for pivot, tested in panel.by_pivot().items() if len(tested) > 1}
        # The better by the last value of the pivot stands first; behind them what it has no row of.
        ranked = chain(*(panel.ranked(pivot) for pivot in reversed(by_pivot)))
        order = list(dict.fromkeys(ranked))
        pairs = list(combinations(order, 2))
        # The least p-value there can be, corrected for all pairs, has to be able to pass.
        draws = Draws(max(self.samples, math.ceil(4 * len(pairs) / self.level)), self.seed)
        rows: list[Row] = []
        for pivot, seeds in by_pivot.items():
            tested = [(a, b) for a, b in pairs if a in seeds and b in seeds]
            differences = [compare(metric, seeds[a], seeds[b], draws) for a, b in tested]
            corrected = holm([d.p for d in differences])
            for (a, b), d, p in zip(tested, differences, corrected, strict=True):
                widest = max(spread(pivot, a), spread(pivot, b))
                size = max(d.effect, 1 / d.effect) if column.log else abs(d.effect)
                # Resampling of units knows nothing of seeds, so a difference has to exceed their
                # spread too.
                verdict = "n.s." if p >= self.level else "seeds" if size <= widest else "different"
                rows.append(
                    {
                        **panel.condition,
                        "result": pivot,
                        "first": a,
                        "second": b,
                        effect: d.effect,
                        effect_low: d.low,
                        effect_high: d.high,
                        "p": d.p,
                        "p_corrected": float(p),
                        "samples": draws.samples,
                        "paired": d.paired,
                        "seeds": min(len(seeds[a]), len(seeds[b])),
                        "seed_spread": widest,
                        "verdict": verdict,
                    }
                )
        return rows

    def _note(self, column: Column, compared: str, rows: Sequence[Row]) -> str:
        side = "above" if column.better == "higher" else "below"
        better = "better" if column.better else "less"
        below = f"{side} {1 if column.log else 0} the first is {better}"
        paired = ", the same draws for both" if all(r["paired"] for r in rows) else ""
        return NOTE.format(
            effect=column.heading,
            thing=compared,
            paired=paired,
            below=below,
            samples=self.samples,
            level=self.level,
            preposition="over" if column.log else "less",
        )


def _has_one_seed(panel: Panel) -> bool:
    """Return whether something that depends on a seed was measured with one alone."""
    return any(
        len(rows) == 1 and rows[0].identity.get("seed", "") != ""
        for by_name in panel.by_pivot().values()
        for rows in by_name.values()
    )


def _effect(column: Column) -> tuple[str, str, str]:
    return ends("ratio" if column.log else "difference")
