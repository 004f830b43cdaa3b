"""What an analysis gives back, and where it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from xnmt_bench.report.figure import save_figure
from xnmt_bench.report.summary import Row, Shown, Summary, show, write_summary
from xnmt_bench.report.tracking import Tracker

# Okabe and Ito's palette: told apart also by those who see fewer colours; so are the markers.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


@dataclass(frozen=True)
class Result:
    """One analysis, ready to be shown.

    Attributes:
        rows: every number, for the CSV.
        columns: of the CSV.
        summary: the table as it is read.
        figure: a figure that could stand in a paper, where one helps.
    """

    rows: Sequence[Row]
    columns: Sequence[str]
    summary: Summary
    figure: Figure | None = None

    def publish(self, name: str, results: Path, tracker: Tracker) -> Shown:
        """Writes table and figure, and shows the table."""
        write_summary(name, self.rows, self.columns, self.summary, results)
        tracker.table(name, self.rows, self.columns)
        svg = None
        if self.figure is not None:
            svg, png = save_figure(self.figure, results / name)
            tracker.figure(name, png)
        show(self.summary)
        return Shown(name, self.summary, svg)


def style(names: Sequence[str], name: str) -> dict[str, Any]:
    """Colour and marker of one of several explainers."""
    place = list(names).index(name)
    return {"color": PALETTE[place % len(PALETTE)], "marker": MARKERS[place % len(MARKERS)]}
