"""Which differences are differences: a paired test of every two, and how seeds differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations

from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.analyses.tables import pivoted
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.comparing import compare, holm
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.metric import Column, TableRow
from xnmt_bench.options import Count, Seed, Share
from xnmt_bench.report.panels import Panel, compared_heading, ends
from xnmt_bench.report.standing import about_unranked, exceeds_seeds, seed_spread
from xnmt_bench.report.summary import Cell

NOTE = (
    "{effect} of the first {thing} {preposition} that of the second, with its 95 % interval by a "
    "bootstrap over units{paired} (at least {samples:,} samples): {below}. p-values are by "
    "exchange of the two at each unit (Riezler and Maxwell 2005){unpaired}; of several trainings "
    "(nmt.seed) intervals and p-values are by t over trainings, by Welch's t where the two share "
    "none. n.s.: not significant at {level:g}, p-values corrected for the number of pairs (Holm). "
    "seeds: within the spread of the seeds, so not called a difference."
)
ONE_SEED = (
    "Some rows have one seed only, so how much seeds differ is unknown; sweep seed=0,1,2 to "
    "measure it."
)


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
        metric, by_panel = panels[0].metric, [list(self._rows(panel)) for panel in panels]
        rows = list(chain(*by_panel))
        if not rows:
            raise NotApplicable("fewer than two rows can be compared")
        column, compared = metric.headline, compared_heading(metric)
        shown = replace(column, form="{:.2f}".format) if column.log else column
        effect = _effect(column)

        def cell(row: TableRow) -> Cell:
            marks = [] if row["verdict"] == "different" else [row["verdict"]]
            marks += [] if row["paired"] else ["unpaired"]
            return Cell(" ".join([shown.cell(*(row[name] for name in effect)), *marks]))

        notes = [*about_unranked(panels), self._note(column, compared, rows)]
        if any(_has_one_seed(panel) for panel in panels):
            notes.append(ONE_SEED)
        title = f"Significance of differences in {column.heading}"
        words = {compared: "first", "than": "second"}
        summary = pivoted(title, panels, by_panel, words, "result", cell, notes)
        identity = (*panels[0].condition, "result", "first", "second")
        measured = [name for name in rows[0] if name not in identity]
        return Result(rows, identity, measured, summary)

    def _rows(self, panel: Panel) -> Iterator[TableRow]:
        metric, column = panel.metric, panel.metric.headline
        effect = _effect(column)
        # Blind rows too: whether a method is better than one of them is the first question.
        by_pivot = panel.by_pivot(blind=True)
        by_pivot = {pivot: tested for pivot, tested in by_pivot.items() if len(tested) > 1}
        # The better by the last value of the pivot stands first; behind them what it has no row of.
        ranked = chain(*(panel.ranked(pivot, blind=True) for pivot in reversed(by_pivot)))
        order = list(dict.fromkeys(ranked))
        pairs = list(combinations(order, 2))
        # The least p-value there can be, corrected for all pairs, has to be able to pass.
        draws = Draws(max(self.samples, math.ceil(4 * len(pairs) / self.level)), self.seed)
        for pivot, seeds in by_pivot.items():
            tested = [(a, b) for a, b in pairs if a in seeds and b in seeds]
            differences = [compare(metric, seeds[a], seeds[b], draws) for a, b in tested]
            corrected = holm([d.p for d in differences])
            for (a, b), d, p in zip(tested, differences, corrected, strict=True):
                beyond = exceeds_seeds(panel, pivot, (a, b), d)
                verdict = "n.s." if p >= self.level else "different" if beyond else "seeds"
                yield {
                    **panel.condition,
                    "result": pivot,
                    "first": a,
                    "second": b,
                    **dict(zip(effect, (d.effect, d.low, d.high), strict=True)),
                    "p": d.p,
                    "p_corrected": float(p),
                    "samples": draws.samples,
                    "paired": d.paired,
                    "units": d.units,
                    "seeds": min(_count_seeds(seeds[name]) for name in (a, b)),
                    "seed_spread": seed_spread(panel, pivot, (a, b)),
                    "verdict": verdict,
                }

    def _note(self, column: Column, compared: str, rows: Sequence[TableRow]) -> str:
        side = "above" if column.better == "higher" else "below"
        better = "better" if column.better else "less"
        below = f"{side} {1 if column.log else 0} the first is {better}"
        paired = ", the same draws for both" if all(r["paired"] for r in rows) else ""
        return NOTE.format(
            effect=column.heading,
            thing=compared,
            paired=paired,
            unpaired="" if paired else ", of unpaired rows by the bootstrap",
            below=below,
            samples=self.samples,
            level=self.level,
            preposition="over" if column.log else "less",
        )


def _has_one_seed(panel: Panel) -> bool:
    """Return whether something that depends on a seed was measured with only one."""
    return any(
        _count_seeds(rows) == 1 and rows[0].identity.get("seed", "") != ""
        for by_name in panel.by_pivot().values()
        for rows in by_name.values()
    )


def _count_seeds(rows: Sequence[Measurement]) -> int:
    return len({row.identity.get("seed", "") for row in rows})


def _effect(column: Column) -> tuple[str, str, str]:
    return ends("ratio" if column.log else "difference")
