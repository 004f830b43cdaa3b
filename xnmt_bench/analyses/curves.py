"""A metric against one of its conditions (Li et al. 2020, Figures 1 and 2, Table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.metric import Column, Row
from xnmt_bench.report.figure import legend_below, log_scale, style
from xnmt_bench.report.panels import Panel, seeds_cell, sortable, told_apart
from xnmt_bench.report.summary import Cell, Line, Summary


class Curve(Analysis):
    """The headline of panels that differ in one condition alone.

    Attributes:
        columns: of the condition, which make up the axis.
        label: of the axis.
        sweep: what a user has to sweep.
        log: whether the axis is logarithmic.
    """

    columns: ClassVar[tuple[str, ...]]
    label: ClassVar[str]
    sweep: ClassVar[str]
    log: ClassVar[bool] = False

    def text(self, panel: Panel) -> str:
        """A panel's place on the axis, in words."""
        keys = {key.name: key for key in panel.metric.keys}
        phrases = [
            keys[c].phrase.format(keys[c].text(panel.condition[c]))
            for n, c in enumerate(self.columns)
            if n == 0 or panel.condition[c] not in ("", keys[c].usual)
        ]
        return ", ".join(phrases)

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """One line a thing and value of the pivot, one column a place on the axis."""
        metric = panels[0].metric
        if not set(self.columns) <= set(panels[0].condition):
            raise NotApplicable(f"its rows have no {self.columns[0]}")
        others = [c for c in panels[0].condition if c not in self.columns]
        groups: dict[tuple[Any, ...], list[Panel]] = {}
        for panel in panels:
            groups.setdefault(tuple(panel.condition[c] for c in others), []).append(panel)
        groups = {key: group for key, group in groups.items() if len(group) > 1}
        if not groups:
            raise NotApplicable(f"there is one {self.columns[0]} alone; sweep {self.sweep}")
        told = told_apart([group[0] for group in groups.values()], but=self.columns)
        axis = {self.text(p): self._place(p) for group in groups.values() for p in group}
        places = sorted(axis, key=lambda text: [sortable(v) for v in axis[text]])
        rows: list[Row] = []
        lines = []
        for group, text in zip(groups.values(), told.texts, strict=True):
            at = {self.text(panel): panel for panel in group}
            pivots = dict.fromkeys(pivot for panel in group for pivot in panel.rows)
            for pivot in (p for p in pivots if p not in metric.csv_only):
                for name in sorted({n for panel in group for n in panel.measured(pivot)}):
                    head = [*(text[heading] for heading in told.varying), name]
                    head.append(group[0].heading(pivot))
                    cells = [_cell(at.get(place), pivot, name) for place in places]
                    block = (*(group[0].condition[c] for c in others), pivot)
                    lines.append(Line(block, [*map(Cell, head), *cells]))
                    rows += [_row(panel, pivot, name) for panel in group
                             if panel.value(pivot, name) is not None]  # fmt: skip
        heads = [*told.varying, metric.compared, "result", *places]
        title = told.title(f"{metric.headline.heading} against {self.label}")
        summary = Summary(title, heads, lines, [metric.note], len(told.varying) + 2)
        identity = (*panels[0].condition, "result", metric.compared)
        measured = [f"{metric.headline.name}{end}" for end in ("", "_low", "_high")]
        figure = self._figure(list(groups.values()), told.phrases, places)
        return Result(rows, identity, measured, summary, figure)

    def _place(self, panel: Panel) -> tuple[Any, ...]:
        return tuple(panel.condition[c] for c in self.columns)

    def _figure(
        self, groups: Sequence[Sequence[Panel]], titles: Sequence[str], places: Sequence[str]
    ) -> Figure:
        """One axes a group, by the last value of the pivot there is."""
        metric = groups[0][0].metric
        column = metric.headline
        names = sorted({name for group in groups for panel in group for name in panel.names})
        figure, axes = plt.subplots(1, len(groups), figsize=(1 + 3.4 * len(groups), 3.6),
                                    squeeze=False, sharey=True)  # fmt: skip
        for ax, group, title in zip(axes[0], groups, titles, strict=True):
            pivots = [p for p in group[0].rows if group[0].measured(p)]
            pivot = pivots[-1] if pivots else ""
            values = sorted({self._place(panel)[0] for p in groups for panel in p}, key=sortable)
            named = any(isinstance(value, str) for value in values) or len(self.columns) > 1
            for name in names:
                points = []
                for panel in group:
                    if (value := panel.value(pivot, name)) is not None:
                        x = places.index(self.text(panel)) if named else self._place(panel)[0]
                        points.append((x, value, *_ends(panel, pivot, name, column)))
                if points:
                    x, y, low, high = np.asarray(sorted(points), dtype=float).T
                    # Places without an order of their own are not joined by a line.
                    ax.errorbar(x, y, yerr=np.maximum(0, [y - low, high - y]), capsize=2,
                                markersize=5, linewidth=1.2, linestyle="none" if named else "-",
                                label=name.replace("_", " "), **style(names, name))  # fmt: skip
            heading = group[0].heading(pivot)
            ax.set_title(f"{title} ({heading})" if title else heading, fontsize=10)
            if column.log:
                log_scale(ax, "y")
            if named:
                ax.set_xticks(range(len(places)), [p.replace(", ", ",\n") for p in places])
                ax.set_xlim(-0.5, len(places) - 0.5)
            else:
                if self.log:
                    ax.set_xscale("log")
                    ax.xaxis.set_minor_locator(NullLocator())
                ax.set_xticks(values, [f"{value:,}" for value in values])
            ax.set_xlabel(self.label)
            ax.grid(which="both", linewidth=0.3, alpha=0.6)
        scale = ", log scale" if column.log else ""
        axes[0, 0].set_ylabel(f"{column.heading}{scale}")
        legend_below(figure, axes[0])
        return figure


def _ends(panel: Panel, pivot: str, name: str, column: Column) -> tuple[float, float]:
    """The union of the seeds' intervals; the value itself where there is none."""
    rows = [s.values for s in panel.of(pivot, name) if column.name in s.values]
    if not column.interval:
        return rows[0][column.name], rows[0][column.name]
    return (
        min(v[f"{column.name}_low"] for v in rows),
        max(v[f"{column.name}_high"] for v in rows),
    )


def _row(panel: Panel, pivot: str, name: str) -> Row:
    column = panel.metric.headline
    low, high = _ends(panel, pivot, name, column)
    return {
        **panel.condition,
        "result": pivot,
        panel.metric.compared: name,
        column.name: panel.value(pivot, name),
        f"{column.name}_low": low,
        f"{column.name}_high": high,
    }


def _cell(panel: Panel | None, pivot: str, name: str) -> Cell:
    if panel is None:
        return Cell("")
    return Cell(*seeds_cell(panel.metric.headline, panel.of(pivot, name)))


class ByK(Curve):
    """Against the number of words a side in a rule."""

    name = "k"
    columns = ("k",)
    label = "k, words a side in a rule"
    sweep = "k=1,2,3,4,5"


class ByTrainSentences(Curve):
    """Against the number of sentences that proxies learn from."""

    name = "train_sentences"
    columns = ("train_sentences",)
    label = "training sentences of the proxy"
    sweep = "train_sentences=500,1000,2000"
    log = True


class ByScenario(Curve):
    """Against the scenario of the test, and that of the training rules."""

    name = "scenario"
    columns = ("scenario", "learned_from")
    label = "scenario of the test"
    sweep = "scenario=teacher_forcing,real,golden"
