"""One number that compares across corpora and systems: between a floor and the whole context."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from xnmt_bench.analyses.analysis import Analysis, Result, pivoted
from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.bootstrap import Draws, Together, interval
from xnmt_bench.metrics.metric import Row
from xnmt_bench.report.figure import draw_interval, legend_below, style
from xnmt_bench.report.panels import Panel, told_apart
from xnmt_bench.report.summary import Cell

NOTE = (
    "(log {h} of {floor} - log {h}) / (log {h} of {floor} - log {h} of {ceiling}, with its whole "
    "context): 0 is as good as {floor}, 1 as good as the whole context, below 0 worse than {floor}."
    " With 95 % bootstrap intervals over units. Both ends are those of the same system and column, "
    "so that scores compare across corpora and systems."
)


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
        self, floor: str = "random", ceiling: str = "nmt", samples: int = 1000, seed: int = 0
    ) -> None:
        self.floor, self.ceiling, self.draws = floor, ceiling, Draws(samples, seed)

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """One line a thing, one column a value of the pivot; the best first."""
        metric = panels[0].metric
        usable = [
            p for p in panels
            if self.ceiling in p.references and p.references[self.ceiling].measurement.ok
            and any(self.floor in p.measured(pivot) for pivot in p.rows)
        ]  # fmt: skip
        if not metric.headline.log or not usable:
            raise NotApplicable(f"no results of {metric.compared}={self.floor} and {self.ceiling}")
        by_panel = [self._rows(panel) for panel in usable]
        note = NOTE.format(h=metric.headline.heading, floor=self.floor, ceiling=self.ceiling)
        words = {metric.compared: metric.compared}
        title = f"Normalised {metric.name}"
        summary = pivoted(title, usable, by_panel, words, "result", _cell, [note])
        identity = (*usable[0].condition, metric.compared, "result")
        figure = self._figure(metric.compared, by_panel, told_apart(usable).phrases)
        rows = [row for own in by_panel for row in own]
        return Result(rows, identity, ("score", "score_low", "score_high"), summary, figure)

    def _rows(self, panel: Panel) -> list[Row]:
        rows: list[Row] = []
        ceiling = [panel.references[self.ceiling].measurement]
        for pivot in panel.rows:
            measured = panel.measured(pivot)
            floor = measured.pop(self.floor, None)
            for name, own in measured.items() if floor else ():
                together = Together([panel.metric] * 3, [own, floor, ceiling], self.draws)  # type: ignore[list-item]
                value, worst, best = np.log(together.values())
                score = (worst - value) / (worst - best)
                low, high = interval(score[1:])
                rows.append(
                    {**panel.condition, panel.metric.compared: name, "result": pivot,
                     "score": float(score[0]), "score_low": low, "score_high": high}
                )  # fmt: skip
        best_of: dict[str, float] = {}
        for row in rows:
            name = row[panel.metric.compared]
            best_of[name] = max(row["score"], best_of.get(name, row["score"]))
        return sorted(rows, key=lambda row: (-best_of[row[panel.metric.compared]],
                                             row[panel.metric.compared]))  # fmt: skip

    def _figure(
        self, compared: str, by_panel: Sequence[Sequence[Row]], labels: Sequence[str]
    ) -> Figure:
        """Each thing's score by the last column there is, one line of points a panel."""
        names = sorted({row[compared] for own in by_panel for row in own})
        figure, ax = plt.subplots(figsize=(7.5, 1.6 + 0.5 * len(by_panel)))
        for place, own in enumerate(by_panel):
            last = own[-1]["result"] if own else ""
            for row in (row for row in own if row["result"] == last):
                at = place + 0.1 * (names.index(row[compared]) - (len(names) - 1) / 2)
                draw_interval(ax, "x", at, row["score"], row["score_low"], row["score_high"],
                              label=row[compared].replace("_", " "),
                              **style(names, row[compared]))  # fmt: skip
        for end in (0, 1):
            ax.axvline(end, color="black", linewidth=0.8, linestyle="--")
        ax.set_yticks(range(len(by_panel)), labels)
        ax.set_ylim(len(by_panel) - 0.5, -0.5)
        ax.set_xlabel(f"normalised score (0: {self.floor}, 1: the whole context)")
        legend_below(figure, [ax])
        return figure


def _cell(row: Row) -> Cell:
    text = f"{row['score']:.3f} [{row['score_low']:.3f}, {row['score_high']:.3f}]"
    return Cell(text, -row["score"])
