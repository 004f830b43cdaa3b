"""Rankings side by side, and where they disagree (Li et al. 2020, Table 6)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xnmt_bench.analyses.agreement import places
from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.metric import Row
from xnmt_bench.report.panels import Panel, told_apart
from xnmt_bench.report.summary import Cell, Line, Summary

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
        self, results: Sequence[str] = ("base", "sa"), explainers: Sequence[str] | None = None
    ) -> None:
        self.wanted, self.explainers = list(results), explainers

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """One line a thing, a value and a place for each column."""
        metric = panels[0].metric
        usable = [p for p in panels if all(p.measured(pivot) for pivot in self.wanted)]
        if not usable:
            raise NotApplicable(f"no results have all of {', '.join(self.wanted)}")
        told, column = told_apart(usable), metric.headline
        rows: list[Row] = []
        lines = []
        for panel, text in zip(usable, told.texts, strict=True):
            names = sorted(set.intersection(*(set(panel.measured(p)) for p in self.wanted)))
            names = [n for n in names if self.explainers is None or n in self.explainers]
            value_EP = np.array(
                [[panel.value(pivot, name) for pivot in self.wanted] for name in names]
            ).reshape(len(names), len(self.wanted))
            place_EP = places(-value_EP if column.better == "higher" else value_EP)
            agrees_EP = place_EP == place_EP[:, -1:]
            for e in np.argsort(place_EP[:, -1], kind="stable"):
                cells = [Cell(text[heading]) for heading in told.varying] + [Cell(names[e])]
                for i, pivot in enumerate(self.wanted):
                    place, agrees = int(place_EP[e, i]), bool(agrees_EP[e, i])
                    cells.append(Cell(column.form(value_EP[e, i])))
                    cells.append(Cell(str(place) if agrees else f"({place})"))
                    rows.append({**panel.condition, metric.compared: names[e], "result": pivot,
                                 column.name: float(value_EP[e, i]), "rank": place,
                                 "agrees": agrees})  # fmt: skip
                lines.append(Line(tuple(panel.condition.values()), cells))
        if not rows:
            raise NotApplicable("no results of any of the explainers")
        named = [usable[0].heading(pivot) for pivot in self.wanted]
        heads = [*told.varying, metric.compared]
        heads += [head for name in named for head in (f"{name} {column.heading}", "place")]
        note = NOTE.format(heading=column.heading, thing=metric.compared)
        summary = Summary(
            told.title("Rankings by " + " and ".join(named)), heads, lines, [note],
            len(told.varying) + 1,
        )  # fmt: skip
        identity = (*usable[0].condition, metric.compared, "result")
        return Result(rows, identity, (column.name, "rank", "agrees"), summary)
