"""Where is it lost: a metric by the kind of decision."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from xnmt_bench.analyses.analysis import Analysis, Result, pivoted
from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.bootstrap import Draws, interval, resample
from xnmt_bench.metrics.measurement import Measurement
from xnmt_bench.metrics.metric import Metric, Row
from xnmt_bench.metrics.units import Units, by_unit
from xnmt_bench.parquet import read_table
from xnmt_bench.report.figure import draw_interval, legend_below, style
from xnmt_bench.report.panels import Panel, told_apart
from xnmt_bench.report.summary import Cell
from xnmt_bench.rules.facets import FACETS, FIFTHS, GOLD_LINKS
from xnmt_bench.rules.scores import DecisionScores
from xnmt_bench.store import verified

log = logging.getLogger(__name__)
TITLES = {
    "place": "place in the sentence",
    "frequency": "label's frequency in the training targets",
    "piece": "the label",
    "link": "gold link of the target word",
}
NMT, WHOLE = "nmt", "NMT itself"
NOTE = (
    "{heading} on the decisions of each kind, with its 95 % bootstrap interval over sentences; NMT "
    "itself: the NMT model with its whole context."
)
Kinds = dict[str, np.ndarray]


def kinds_of(panel: Panel) -> Kinds | None:
    """The kind of each test decision in every facet, where that is stored."""
    reference = panel.references.get(NMT)
    if reference is None or "facets" not in reference.measurement.files:
        return None
    path = verified(Path(reference.measurement.files["facets"]))
    table = read_table(path, ("sentence", "step", *FACETS))
    return {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}


class Facets(Analysis):
    """The headline on each kind of decision: by place, frequency, piece of a word, gold link.

    Args:
        samples: bootstrap samples.
        seed: of the draws.
    """

    name = "facets"

    def __init__(self, samples: int = 1000, seed: int = 0) -> None:
        self.draws = Draws(samples, seed)

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """One line a kind of decision, by the last value of the pivot there is."""
        kinds = [(panel, found) for panel in panels if (found := kinds_of(panel)) is not None]
        if not kinds:
            raise NotApplicable("the results say nothing of the kinds of decisions")
        usable, metric = [panel for panel, _ in kinds], panels[0].metric
        by_panel = [self._rows(panel, found) for panel, found in kinds]
        rows = [row for own in by_panel for row in own]
        column, told = metric.headline, told_apart(usable)
        last = ", ".join(dict.fromkeys(usable[0].heading(row["result"]) for row in rows))

        def cell(row: Row) -> Cell:
            return Cell(column.cell(*(row[f"{column.name}{end}"] for end in ("", "_low", "_high"))))

        words = {"kind": "kind", "category": "category", "decisions": "decisions"}
        title, note = f"Where {metric.name} is lost ({last})", NOTE.format(heading=column.heading)
        summary = pivoted(title, usable, by_panel, words, "explainer", cell, [note], told)
        identity = (*usable[0].condition, "result", "facet", "category", "explainer")
        measured = ("decisions", column.name, f"{column.name}_low", f"{column.name}_high")
        names = list(dict.fromkeys(row["explainer"] for row in rows))
        figure = _figure(metric, by_panel, told.phrases, names)
        return Result(rows, identity, measured, summary, figure)

    def _rows(self, panel: Panel, kinds: Kinds) -> list[Row]:
        pivots = [pivot for pivot in panel.rows if panel.measured(pivot)]
        if not pivots:
            return []
        predictors = panel.measured(pivots[-1])
        predictors[WHOLE] = [panel.references[NMT].measurement]
        aligned = {
            name: [scores for m in seeds if (scores := _aligned(m, kinds)) is not None]
            for name, seeds in predictors.items()
        }
        rows: list[Row] = []
        for facet in FACETS:
            for category in _ordered(facet, kinds[facet]):
                chosen_N = kinds[facet] == category
                for name, seeds in ((n, s) for n, s in aligned.items() if s):
                    values = self._values(panel.metric, seeds, chosen_N)
                    low, high = interval(values[1:])
                    headline = panel.metric.headline.name
                    rows.append(
                        {**panel.condition, "result": pivots[-1], "facet": facet,
                         "kind": TITLES[facet],
                         "category": category, "decisions": int(chosen_N.sum()), "explainer": name,
                         headline: float(values[0]), f"{headline}_low": low,
                         f"{headline}_high": high}
                    )  # fmt: skip
        return rows

    def _values(
        self, metric: Metric, seeds: Sequence[DecisionScores], chosen_N: np.ndarray
    ) -> np.ndarray:
        """The headline on some decisions, whole and resampled; (1 + R,)."""
        parts = []
        for scores in (s.take(chosen_N) for s in seeds):
            number_U, sums = by_unit(
                scores.sentence_N,
                log_likelihood=scores.log_likelihood_N,
                correct=scores.correct_N,
            )
            resampled = resample(metric, Units("", number_U, sums), self.draws)
            parts.append(resampled[metric.headline.name])
        return np.asarray(np.mean(parts, axis=0))


def _aligned(measurement: Measurement, kinds: Kinds) -> DecisionScores | None:
    """The scores of a predictor in the order of the kinds; None where of other decisions."""
    scores = DecisionScores.load(verified(Path(measurement.files["decisions"])))
    order = np.lexsort((scores.step_N, scores.sentence_N))
    wanted = np.lexsort((kinds["step"], kinds["sentence"]))
    own, known = (scores.sentence_N[order], scores.step_N[order]), (
        kinds["sentence"][wanted], kinds["step"][wanted])  # fmt: skip
    if not all(np.array_equal(a, b) for a, b in zip(own, known, strict=True)):
        log.warning("left out: %s: scores of other decisions", measurement.files["decisions"])
        return None
    place = np.empty_like(order)
    place[wanted] = order
    return scores.take(place)


def _ordered(facet: str, values: np.ndarray) -> list[str]:
    """The categories that occur, in reading order; the empty one tells nothing."""
    there = set(values) - {""}
    known = {"place": FIFTHS, "link": GOLD_LINKS}.get(facet)
    if known:
        return [name for name in known if name in there]
    if facet == "frequency":
        return sorted(there, key=lambda name: int(name.strip("> ").split("-")[0].replace(",", "")))
    return sorted(there)


def _figure(
    metric: Metric, by_panel: Sequence[Sequence[Row]], labels: Sequence[str], names: Sequence[str]
) -> Figure:
    """One row of axes a panel, one column a facet."""
    column = metric.headline
    shown = [facet for facet in FACETS if any(r["facet"] == facet for own in by_panel for r in own)]
    figure, axes = plt.subplots(len(by_panel), len(shown), sharey="row", squeeze=False,
                                figsize=(3.0 * len(shown), 0.9 + 2.9 * len(by_panel)))  # fmt: skip
    for number, (own, label) in enumerate(zip(by_panel, labels, strict=True)):
        for ax, facet in zip(axes[number], shown, strict=True):
            inside = [row for row in own if row["facet"] == facet]
            categories = list(dict.fromkeys(row["category"] for row in inside))
            for name in names:
                points = [row for row in inside if row["explainer"] == name]
                y, low, high = (
                    np.array([r[f"{column.name}{end}"] for r in points])
                    for end in ("", "_low", "_high")
                )
                x = [categories.index(row["category"]) for row in points]
                draw_interval(ax, "y", x, y, low, high, markersize=4, linewidth=1,
                              label=name.replace("_", " "),
                              linestyle="-" if facet in ("place", "frequency") else "none",
                              **style(names, name))  # fmt: skip
            ax.set_xticks(range(len(categories)), categories, rotation=35, ha="right", fontsize=8)
            ax.margins(x=0.15)
            if column.log:
                ax.set_yscale("log")
                ax.yaxis.set_major_formatter("{x:,g}")
            ax.grid(axis="y", which="both", linewidth=0.3, alpha=0.6)
            if number == 0:
                ax.set_title(TITLES[facet], fontsize=9)
        heading = column.heading + (", log scale" if column.log else "")
        axes[number, 0].set_ylabel(f"{label}\n{heading}" if label else heading)
    legend_below(figure, axes[:, 0])
    return figure
