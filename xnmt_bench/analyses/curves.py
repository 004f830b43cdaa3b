"""A metric against one of its conditions (Li et al. 2020, Figures 1 and 2, Table 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, ClassVar

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.analyses.tables import pivoted
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.alike import group_comparable
from xnmt_bench.measuring.measurement import SETTINGS
from xnmt_bench.measuring.metric import SYSTEM, TableRow
from xnmt_bench.report.figure import Lines, draw_interval, fitting, lay_out, log_scale, wrapped
from xnmt_bench.report.panels import (
    Panel,
    distinguish,
    ends,
    pooled,
    seeds_cell,
    sort_pivots,
    sortable,
)
from xnmt_bench.report.standing import about_unranked
from xnmt_bench.report.summary import Cell


def unlike_settings(panels: Sequence[Panel]) -> list[str]:
    """Return the settings, such as the test sentences, in which panels differ."""
    values: dict[str, set[str]] = {}
    for panel in panels:
        for name, value in panel.settings.items():
            values.setdefault(name, set()).add(str(value))
    return [name for name, several in values.items() if len(several) > 1]


class Curve(Analysis):
    """The headline of panels that differ in only one condition."""

    columns: ClassVar[tuple[str, ...]]  # of the condition, which make up the axis
    label: ClassVar[str]
    sweep: ClassVar[str]  # the options that a message suggests to sweep
    log: ClassVar[bool] = False  # the axis is logarithmic

    def text(self, panel: Panel) -> str:
        """Return a panel's place on the axis, in words."""
        keys = {key.name: key for key in panel.metric.keys}
        phrases = [
            keys[c].phrase.format(keys[c].text(panel.condition[c]))
            for c in self.columns
            if c == self.columns[0] or panel.condition[c] not in ("", keys[c].usual)
        ]
        return ", ".join(phrases)

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return one line a thing and value of the pivot, one column a place on the axis."""
        metric = panels[0].metric
        # Not every metric has k or scenarios among its columns.
        if not set(self.columns) <= set(panels[0].condition):
            raise NotApplicable(f"its rows have no {self.columns[0]}")
        apart = (*self.columns, SETTINGS)
        shared_columns = [c for c in panels[0].condition if c not in apart]
        by_condition: dict[tuple[Any, ...], list[Panel]] = {}
        for panel in panels:
            values = tuple(panel.condition[c] for c in shared_columns)
            by_condition.setdefault(values, []).append(panel)
        every = [group for alike in by_condition.values() for group in self._groups(alike)]
        # A curve needs two places.
        groups = [group for group in every if len(group) > 1]
        if not groups:
            raise NotApplicable(f"all rows have the same {self.columns[0]}; sweep {self.sweep}")
        # A system to which no explainer applies has rows without a number.
        groups = [group for group in groups if any(self._rows(group))]
        if not groups:
            raise NotApplicable("no row has a number")
        firsts = [group[0] for group in groups]
        distinction = distinguish(firsts, but=self.columns)
        # Sorted by value and not by text, in which 10 stands before 2.
        places = list(dict.fromkeys(map(self.text, sorted(chain(*groups), key=self._order))))
        by_group = [list(self._rows(group)) for group in groups]

        def cell(row: TableRow) -> Cell:
            return Cell(*seeds_cell(metric.headline, row["seeds"], row["ranked"]))

        words = {metric.compared: "name", "result": "result"}
        title = f"{metric.headline.heading} against {self.label}"
        notes = [*about_unranked(list(chain(*groups))), metric.note]
        if unlike := sorted({name for group in groups for name in unlike_settings(group)}):
            notes.append(f"Places of one line differ also in: {', '.join(unlike)}.")
        for [alone] in (group for group in every if len(group) == 1):
            system = " ".join(str(alone.condition[c]) for c in SYSTEM if c in alone.condition)
            place = ", ".join(filter(None, [system, self.text(alone), alone.condition[SETTINGS]]))
            notes.append(f"Left out, since a curve needs two points and there is one: {place}.")
        summary = pivoted(title, firsts, by_group, words, "place", cell, notes, distinction, places)
        identity = (*panels[0].condition, "result", metric.compared)
        figure = self._figure(groups, by_group, distinction.phrases, places)
        rows = list(chain(*by_group))
        return Result(rows, identity, ends(metric.headline.name), summary, figure)

    def _groups(self, panels: Sequence[Panel]) -> list[list[Panel]]:
        """Return panels that make up a curve each: one a place, or those whose settings agree."""
        places = [self.text(panel) for panel in panels]
        if len(set(places)) == len(places):
            return [[*panels]]
        groups = group_comparable(panels, lambda panel: panel.settings, self.text)
        return [members for _, members in groups]

    def _rows(self, group: Sequence[Panel]) -> Iterator[TableRow]:
        """Yield every number of panels that differ only in the axis."""
        metric, column = group[0].metric, group[0].metric.headline
        measured = {p for panel in group for p in panel.rows}
        for pivot in sort_pivots(measured, group[0].pivot_values):
            for name in sorted({n for panel in group for n in panel.names}):
                for panel in group if pivot not in metric.csv_only else ():
                    seeds = panel.of(pivot, name)
                    if numbers := pooled(column, seeds):
                        yield {
                            **panel.condition,
                            "result": pivot,
                            metric.compared: name,
                            "name": name + " (blind)" * panel.blind(name),
                            "ranked": not panel.blind(name),
                            "place": self.text(panel),
                            "seeds": seeds,
                            **dict(zip(ends(column.name), numbers, strict=True)),
                        }

    def _order(self, panel: Panel) -> list[Any]:
        """Return a key that sorts the usual value first."""
        usual = {key.name: key.usual for key in panel.metric.keys}
        values = {column: panel.condition[column] for column in self.columns}
        return [sortable("" if v == usual[column] else v) for column, v in values.items()]

    def _figure(
        self,
        groups: Sequence[Sequence[Panel]],
        by_group: Sequence[Sequence[TableRow]],
        titles: Sequence[str],
        places: Sequence[str],
    ) -> Figure:
        """Return one axes a group, by the last value of the pivot there is."""
        compared, column = groups[0][0].metric.compared, groups[0][0].metric.headline
        every_name = sorted({row[compared] for row in chain(*by_group)})
        lines = Lines(every_name, f"{compared}s")
        axis = sorted({row[self.columns[0]] for row in chain(*by_group)}, key=sortable)
        named = len(self.columns) > 1  # places without an order, which no line joins
        every_block = [*zip(groups, by_group, titles, strict=True)]
        blocks, note = fitting(every_block, "blocks", lambda _: 3.4)
        figure, axes = plt.subplots(
            1, len(blocks), figsize=(1 + 3.4 * len(blocks), 3.6), squeeze=False, sharey=True
        )
        for ax, (group, rows, title) in zip(axes[0], blocks, strict=True):
            last = rows[-1]["result"]  # in reading order
            for name in lines.names:
                points = sorted(
                    (
                        places.index(row["place"]) if named else row[self.columns[0]],
                        *(row[end] for end in ends(column.name)),
                    )
                    for row in rows
                    if row[compared] == name and row["result"] == last
                )
                if points:
                    points_T = np.asarray(points, dtype=float).T
                    look = lines.look(name, linewidth=1.2, linestyle="none" if named else "-")
                    draw_interval(ax, "y", *points_T, **look)
            heading = group[0].heading(last)
            ax.set_title(wrapped(f"{title} ({heading})" if title else heading, 3.4), fontsize=10)
            if column.log:
                log_scale(ax, "y")
            if named:
                ax.set_xticks(range(len(places)), [p.replace(", ", ",\n") for p in places])
                ax.set_xlim(-0.5, len(places) - 0.5)
            else:
                ax.set_xscale("log" if self.log else "linear")
                ax.set_xticks(axis, [f"{value:,}" for value in axis])
                # Minor ticks of a logarithmic axis would have labels over the values themselves.
                ax.xaxis.set_minor_locator(NullLocator())
            ax.set_xlabel(self.label)
            ax.grid(which="both", linewidth=0.3, alpha=0.6)
        axes[0, 0].set_ylabel(f"{column.heading}{', log scale' if column.log else ''}")
        lay_out(figure, axes[0], note, lines.note)
        return figure


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
