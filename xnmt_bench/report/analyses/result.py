"""What an analysis gives back, and where it goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from xnmt_bench.metrics.score import signature
from xnmt_bench.report.figure import save_figure
from xnmt_bench.report.summary import GENERATED, Row, Shown, Summary, show, write_summary
from xnmt_bench.report.tracking import Tracker

# Okabe and Ito's palette: told apart also by those who see fewer colours; so are the markers.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
USUAL = ("attention", "prediction_difference", "gradient_norm", "weighted_gradient", "random")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


@dataclass(frozen=True)
class Result:
    """One analysis, ready to be shown.

    Attributes:
        rows: every number, for the CSV.
        identity: the columns that tell a row from others, which its signature repeats.
        measured: the columns of what was found.
        summary: the table as it is read.
        figure: a figure that could stand in a paper, where one helps.
    """

    rows: Sequence[Row]
    identity: Sequence[str]
    measured: Sequence[str]
    summary: Summary
    figure: Figure | None = None

    def publish(
        self, name: str, made_from: Mapping[str, Any], results: Path, tracker: Tracker
    ) -> Shown:
        """Writes table and figure, and shows the table.

        Args:
            name: of the analysis.
            made_from: what its numbers take to be made again, beside a row's identity.
            results: the folder where the files go.
            tracker: who else is told.
        """
        rows = [row | {"signature": self._signature(name, row, made_from)} for row in self.rows]
        columns, summary = (*self.identity, *self.measured, "signature"), self.summary
        if any(row["corpus"] == "toy" for row in rows):
            summary = replace(summary, notes=[*summary.notes, GENERATED])
        write_summary(name, rows, columns, summary, results)
        tracker.table(name, rows, columns)
        svg = None
        if self.figure is not None:
            svg, png = save_figure(self.figure, results / name)
            tracker.figure(name, png)
        show(summary)
        return Shown(name, summary, svg)

    def _signature(self, name: str, row: Row, made_from: Mapping[str, Any]) -> str:
        who = {column: row[column] for column in self.identity}
        return signature(name.upper(), **who, **made_from)


def style(names: Sequence[str], name: str) -> dict[str, Any]:
    """Colour and marker of one of several explainers; the usual ones look the same everywhere."""
    place = [*USUAL, *sorted(set(names) - {*USUAL})].index(name)
    return {"color": PALETTE[place % len(PALETTE)], "marker": MARKERS[place % len(MARKERS)]}
