"""Between a floor and the whole context: how much of the way does an explainer's rule go?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import isfinite

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from xnmt_bench.analyses.analysis import Analysis, Result, estimate
from xnmt_bench.analyses.tables import pivoted
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.alike import origin
from xnmt_bench.measuring.bootstrap import Draws, JointBootstrap
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.metric import TableRow
from xnmt_bench.options import Count, Seed, Text
from xnmt_bench.report.figure import Lines, draw_interval, fitting, lay_out, wrapped
from xnmt_bench.report.panels import Panel, distinguish, ends, sort_pivots
from xnmt_bench.report.standing import about_unranked
from xnmt_bench.report.summary import Cell

NOTE = (
    "(log {h} of {floor} - log {h}) / (log {h} of {floor} - log {h} of {ceiling}, with its whole "
    "context): 0 is as good as {floor}, 1 as good as the whole context, below 0 worse than {floor}."
    " With 95 % bootstrap intervals over units. Both ends are those of the same trainings and "
    "column; a row without them has no line. Scores grow with the training sentences, so only "
    "those of one size compare."
)


SCORE = ends("score")


class Normalised(Analysis):
    """How far each value stands between a floor (0) and a reference (1), on a logarithmic scale.

    Args:
        floor: what is compared that counts as 0.
        ceiling: the reference row that counts as 1.
        samples: bootstrap samples.
        seed: of the draws.
    """

    name = "normalised"

    def __init__(
        self, floor: Text = "random", ceiling: Text = "nmt", samples: Count = 1000, seed: Seed = 0
    ) -> None:
        self.floor, self.ceiling, self.draws = floor, ceiling, Draws(samples, seed)

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return one line a thing, one column a value of the pivot; the best first."""
        metric = panels[0].metric
        usable = [
            p
            for p in panels
            if _measured(p, self.ceiling)
            and any(self.floor in by_name for by_name in p.by_pivot(blind=True).values())
        ]
        if not metric.headline.log:
            heading = metric.headline.heading
            raise NotApplicable(
                f"needs a metric that is compared by ratios, such as perplexity; {heading} is not"
            )
        if not usable:
            raise NotApplicable(f"no results of {metric.compared}={self.floor} and {self.ceiling}")
        by_panel = [self._rows(panel) for panel in usable]
        if not any(by_panel):
            raise NotApplicable(f"no row has the trainings of {self.floor} and {self.ceiling}")
        note = NOTE.format(h=metric.headline.heading, floor=self.floor, ceiling=self.ceiling)
        words = {metric.compared: "name"}

        def cell(row: TableRow) -> Cell:
            if not isfinite(row["score"]):  # both ends are one
                return Cell("no number")
            value, low, high = (f"{row[name]:.3f}" for name in SCORE)
            return Cell(f"{value} [{low}, {high}]", None if row["blind"] else -row["score"])

        title = f"Normalised {metric.name}"
        notes = [*about_unranked(usable), note]
        summary = pivoted(title, usable, by_panel, words, "result", cell, notes)
        identity = (*usable[0].condition, metric.compared, "result")
        figure = self._figure(usable, by_panel)
        return Result(list(chain(*by_panel)), identity, SCORE, summary, figure)

    def _rows(self, panel: Panel) -> list[TableRow]:
        rows: list[TableRow] = []
        compared = panel.metric.compared
        ceiling = _measured(panel, self.ceiling)
        for pivot, by_name in panel.by_pivot(blind=True).items():
            # The floor is 0 by definition and has no line.
            floor = by_name.pop(self.floor, [])
            for name, seeds in by_name.items():
                # Both ends are those of the same trainings, since other trainings have other ends.
                trainings = set(map(origin, seeds))
                scale = [[m for m in end if origin(m) in trainings] for end in (floor, ceiling)]
                if any(set(map(origin, end)) != trainings for end in scale):
                    continue
                # Resampled together, since both ends of the scale are estimates too.
                together = JointBootstrap([panel.metric] * 3, [seeds, *scale], self.draws)
                # On one scale of nats: ratios of perplexities compare, their differences do not.
                value_R, worst_R, best_R = np.log(together.values())
                # It is 0 at the floor and 1 at the ceiling, and no number where both are one.
                with np.errstate(divide="ignore", invalid="ignore"):
                    score_R = (worst_R - value_R) / (worst_R - best_R)
                blind = panel.blind(name)
                shown = {"name": name + " (blind)" * blind, "blind": blind}
                row: TableRow = {compared: name, "result": pivot, **shown}
                rows.append(
                    panel.condition | row | dict(zip(SCORE, estimate(score_R), strict=True))
                )
        # Ascending, so that of each thing's scores the greatest stays.
        best = {row[compared]: row["score"] for row in sorted(rows, key=lambda row: row["score"])}
        return sorted(rows, key=lambda row: (row["blind"], -best[row[compared]], row[compared]))

    def _figure(self, shown: Sequence[Panel], by_panel: Sequence[Sequence[TableRow]]) -> Figure:
        """Return each thing's score by the last column there is, one line of points a panel."""
        compared, labels = shown[0].metric.compared, distinguish(shown).phrases
        every_name = sorted({row[compared] for panel_rows in by_panel for row in panel_rows})
        lines = Lines(every_name, f"{compared}s")
        blocks, note = fitting([*zip(by_panel, labels, strict=True)], "blocks", lambda _: 0.5)
        # One column of the table: the points of all of them would cover each other.
        measured = {row["result"] for row in chain(*by_panel)}
        last = next((p for p in reversed(sort_pivots(measured, shown[0].pivot_values))), "")
        figure, ax = plt.subplots(figsize=(7.5, 1.6 + 0.5 * len(blocks)))
        for place, (panel_rows, _) in enumerate(blocks):
            last_rows = (row for row in panel_rows if row["result"] == last)
            for row in (row for row in last_rows if row[compared] in lines.names):
                # Side by side around the line of their panel, since their intervals overlap.
                at = place + 0.1 * (lines.names.index(row[compared]) - (len(lines.names) - 1) / 2)
                numbers = (row[name] for name in SCORE)
                draw_interval(ax, "x", at, *numbers, **lines.look(row[compared]))
        for end in (0, 1):
            ax.axvline(end, color="black", linewidth=0.8, linestyle="--")
        ax.set_yticks(range(len(blocks)), [wrapped(label, 3) for _, label in blocks])
        ax.set_ylim(len(blocks) - 0.5, -0.5)
        ends_named = f"0: {self.floor}, 1: the whole context"
        ax.set_xlabel(f"normalised {shown[0].heading(last)} ({ends_named})")
        lay_out(figure, [ax], note, lines.note)
        return figure


def _measured(panel: Panel, reference: str) -> list[Measurement]:
    """Return what was measured of a reference: one for each training of the system."""
    rows = (s.measurement for s in panel.references.get(reference, []))
    return [m for m in rows if m.ok]
