"""Rankings side by side, and where they disagree (Li et al. 2020, Table 6)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from xnmt_bench.analyses.agreement import places
from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.analyses.tables import pivoted
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.metric import TableRow
from xnmt_bench.options import Texts
from xnmt_bench.report.panels import Panel
from xnmt_bench.report.standing import about_unranked
from xnmt_bench.report.summary import Cell

NOTE = (
    "{heading} of each {thing} and its place, 1 the best. Places in brackets are not those of the "
    "last column."
)


class Ranking(Analysis):
    """Places by each of some values of the pivot.

    Args:
        results: values of the pivot, such as base and sa.
        explainers: which explainers are ranked; None for all.
    """

    name = "ranking"

    def __init__(
        self, results: Texts = ("base", "sa"), explainers: Sequence[str] | None = None
    ) -> None:
        self.wanted, self.explainers = list(results), explainers

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return one line a thing, a value and a place for each column."""
        metric = panels[0].metric
        # Without one of the columns its places would be of other things.
        usable = [
            p for p in panels if all(p.measured(pivot, derived=True) for pivot in self.wanted)
        ]
        if not usable:
            raise NotApplicable(f"no results have all of {', '.join(self.wanted)}")
        column, by_panel = metric.headline, [self._rows(panel) for panel in usable]
        rows = list(chain(*by_panel))
        if not rows:
            raise NotApplicable("no results of any of the explainers")

        def cell(row: TableRow) -> Cell:
            place = str(row["rank"]) if row["agrees"] else f"({row['rank']})"
            return Cell(f"{column.form(row[column.name])}, place {place}")

        title = "Rankings by " + " and ".join(usable[0].heading(pivot) for pivot in self.wanted)
        notes = [NOTE.format(heading=column.heading, thing=metric.compared)]
        notes += about_unranked(usable, self.wanted)
        words = {metric.compared: metric.compared}
        summary = pivoted(title, usable, by_panel, words, "result", cell, notes)
        # All panels of a metric have one set of condition columns, so the first speaks for them.
        identity = (*usable[0].condition, metric.compared, "result")
        return Result(rows, identity, (column.name, "rank", "agrees"), summary)

    def _rows(self, panel: Panel) -> list[TableRow]:
        """Return the best by the last of the columns first."""
        column, by_pivot = panel.metric.headline, panel.by_pivot(derived=True)
        # Names in every column, since places compare only where the same rows compete for them.
        names = sorted(set.intersection(*(set(by_pivot[p]) for p in self.wanted)))
        names = [n for n in names if self.explainers is None or n in self.explainers]
        if not names:
            return []
        panel = panel.over_shared_systems(names)
        value_EP = np.array([[panel.value(p, name) for p in self.wanted] for name in names])
        place_EP = places(column.least_first(value_EP))
        return [
            {
                **panel.condition,
                panel.metric.compared: names[e],
                "result": pivot,
                column.name: float(value_EP[e, i]),
                "rank": int(place_EP[e, i]),
                "agrees": bool(place_EP[e, i] == place_EP[e, -1]),
            }
            for e in np.argsort(place_EP[:, -1], kind="stable")  # by the last column's places
            for i, pivot in enumerate(self.wanted)
        ]
