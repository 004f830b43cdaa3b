"""Where is it lost: a metric by the kind of decision."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from xnmt_bench.analyses.analysis import Analysis, Result, estimate
from xnmt_bench.analyses.tables import pivoted
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.alike import origin
from xnmt_bench.measuring.bootstrap import Draws, average_systems, resample_ratios
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.metric import Metric, TableRow
from xnmt_bench.options import Count, Seed
from xnmt_bench.parquet import read_table
from xnmt_bench.report.figure import Lines, draw_interval, fitting, lay_out, log_scale, wrapped
from xnmt_bench.report.panels import Panel, distinguish, ends
from xnmt_bench.report.standing import about_unranked
from xnmt_bench.report.summary import Cell
from xnmt_bench.rules.decision_kinds import FACETS, FIFTHS, GOLD_LINKS
from xnmt_bench.rules.scores import DecisionScores

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


def kinds_of(panel: Panel) -> dict[str, Kinds]:
    """Return the kind of each test decision in every facet, by system, where that is stored."""
    kinds = {}
    for m in (reference.measurement for reference in panel.references.get(NMT, [])):
        if "facets" in m.files:
            # Kinds are of decisions, not of explainers, so they are kept once, with the NMT
            # model's row. Several trainings have labels of their own, and so kinds of their own.
            table = read_table(m.file("facets"), ("sentence", "step", *FACETS))
            columns = table.column_names
            kinds[origin(m)] = {n: table[n].to_numpy(zero_copy_only=False) for n in columns}
    return kinds


class Facets(Analysis):
    """The headline on each kind of decision: by place, frequency, piece of a word, gold link.

    Args:
        samples: bootstrap samples.
        seed: of the draws.
    """

    name = "facets"

    def __init__(self, samples: Count = 1000, seed: Seed = 0) -> None:
        self.draws = Draws(samples, seed)

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return one line a kind of decision, by the last value of the pivot there is."""
        kinds = [(panel, panel_kinds) for panel in panels if (panel_kinds := kinds_of(panel))]
        by_panel = [list(self._rows(panel, panel_kinds)) for panel, panel_kinds in kinds]
        rows = list(chain(*by_panel))
        if not rows:
            raise NotApplicable("the results lack the kinds of decisions")
        usable, metric = [panel for panel, _ in kinds], panels[0].metric
        column, distinction = metric.headline, distinguish(usable)
        last = ", ".join(dict.fromkeys(usable[0].heading(row["result"]) for row in rows))

        def cell(row: TableRow) -> Cell:
            return Cell(column.cell(*(row[name] for name in ends(column.name))))

        words = {name: name for name in ("kind", "category", "decisions")}
        title, note = f"Where {metric.name} is lost ({last})", NOTE.format(heading=column.heading)
        notes = [*about_unranked(usable, list({row["result"]: None for row in rows})), note]
        summary = pivoted(title, usable, by_panel, words, "explainer", cell, notes, distinction)
        identity = (*usable[0].condition, "result", "facet", "category", "explainer")
        figure = _figure(metric, by_panel, distinction.phrases)
        return Result(rows, identity, ("decisions", *ends(column.name)), summary, figure)

    def _rows(self, panel: Panel, kinds: Mapping[str, Kinds]) -> Iterator[TableRow]:
        by_pivot = panel.by_pivot(blind=True)
        # Only references were measured in this panel.
        if not by_pivot:
            return
        # One judge: kinds times explainers fill the table already.
        last, predictors = list(by_pivot.items())[-1]
        # The system's own row shows how hard each kind of decision is.
        predictors[WHOLE] = [
            s.measurement for s in panel.references[NMT] if "facets" in s.measurement.files
        ]
        aligned = {
            name: [
                (scores, system)
                for m in seeds
                if (system := origin(m)) in kinds
                and (scores := _aligned(m, kinds[system])) is not None
            ]
            for name, seeds in predictors.items()
        }
        for facet in FACETS:
            kind_N = np.concatenate([of_system[facet] for of_system in kinds.values()])
            for category in _ordered(facet, kind_N):
                for name, seeds in aligned.items():
                    chosen = [
                        (scores.take(chosen_N), system)
                        for scores, system in seeds
                        if (chosen_N := kinds[system][facet] == category).any()
                    ]
                    if not chosen:
                        continue
                    numbers = estimate(self._resample_perplexity(chosen))
                    yield {
                        **panel.condition,
                        "result": last,
                        "facet": facet,
                        "kind": TITLES[facet],
                        "category": category,
                        "decisions": round((kind_N == category).sum() / len(kinds)),
                        "explainer": name,
                        **dict(zip(ends(panel.metric.headline.name), numbers, strict=True)),
                    }

    def _resample_perplexity(self, rows: Sequence[tuple[DecisionScores, str]]) -> np.ndarray:
        """Return the mean perplexity of some decisions, whole and on each sample; (1 + R,).

        Args:
            rows: of each seed the decisions, and the system whose they are.
        """
        # Trainings decide otherwise, so that a kind may be of other sentences in each.
        sums = [(s.sentence_N, s.log_likelihood_N, np.ones(len(s.sentence_N))) for s, _ in rows]
        perplexities = np.exp(-resample_ratios(sums, self.draws))
        return average_systems([*perplexities], [system for _, system in rows])


def _aligned(measurement: Measurement, kinds: Kinds) -> DecisionScores | None:
    """Return the scores of a predictor in the order of the kinds; None where of other decisions.

    A row that counts only some decisions is left out, since its file has scores of all of them.
    """
    if measurement.partial:
        log.warning("left out: %s: it covers only some decisions", measurement.path)
        return None
    scores = DecisionScores.load(measurement.file("decisions"))
    # Both sides are sorted by sentence and step, and compared row by row.
    order = np.lexsort((scores.step_N, scores.sentence_N))
    kinds_order = np.lexsort((kinds["step"], kinds["sentence"]))
    columns = ((scores.sentence_N, kinds["sentence"]), (scores.step_N, kinds["step"]))
    if not all(
        np.array_equal(score_column[order], kinds_column[kinds_order])
        for score_column, kinds_column in columns
    ):
        log.warning("left out: %s: its scores are of other decisions", measurement.path)
        return None
    return scores.take(order[np.argsort(kinds_order)])  # argsort inverts a permutation


def _ordered(facet: str, values: np.ndarray) -> list[str]:
    """Return the categories that occur, in reading order; the empty one is left out."""
    names = set(values) - {""}
    if facet == "frequency":  # such as 1,001-10,000 or > 10,000
        return sorted(names, key=lambda name: int(name.strip("> ").split("-")[0].replace(",", "")))
    order = {"place": FIFTHS, "link": GOLD_LINKS}.get(facet) or sorted(names)
    return [name for name in order if name in names]


def _figure(
    metric: Metric, by_panel: Sequence[Sequence[TableRow]], labels: Sequence[str]
) -> Figure:
    """Return one row of axes a panel, one column a facet."""
    column = metric.headline
    every_name = list(dict.fromkeys(row["explainer"] for row in chain(*by_panel)))
    lines = Lines(every_name, "explainers")
    blocks, note = fitting([*zip(by_panel, labels, strict=True)], "blocks", lambda _: 2.9)
    shown = [facet for facet in FACETS if any(r["facet"] == facet for r in chain(*by_panel))]
    figure, axes = plt.subplots(
        len(blocks),
        len(shown),
        sharey="row",
        squeeze=False,
        figsize=(3.0 * len(shown), 0.9 + 2.9 * len(blocks)),
    )
    for number, (panel_rows, label) in enumerate(blocks):
        for ax, facet in zip(axes[number], shown, strict=True):
            rows = [row for row in panel_rows if row["facet"] == facet]
            categories = list(dict.fromkeys(row["category"] for row in rows))
            line = "-" if facet in ("place", "frequency") else "none"  # the others have no order
            for name in lines.names:
                points = [row for row in rows if row["explainer"] == name]
                x = [categories.index(row["category"]) for row in points]
                y = (np.array([row[end] for row in points]) for end in ends(column.name))
                look = lines.look(name, markersize=4, linewidth=1, linestyle=line)
                draw_interval(ax, "y", x, *y, **look)
            ax.set_xticks(range(len(categories)), categories, rotation=35, ha="right", fontsize=8)
            # Intervals at both ends would touch the frame.
            ax.margins(x=0.15)
            if column.log:
                log_scale(ax, "y")
            ax.grid(axis="y", which="both", linewidth=0.3, alpha=0.6)
        heading = column.heading + (", log scale" if column.log else "")
        axes[number, 0].set_ylabel(f"{wrapped(label, 2.9)}\n{heading}" if label else heading)
    for ax, facet in zip(axes[0], shown, strict=True):
        ax.set_title(TITLES[facet], fontsize=9)
    lay_out(figure, axes[:, 0], note, lines.note)
    return figure
