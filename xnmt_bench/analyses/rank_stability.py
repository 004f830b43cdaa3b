"""Does a smaller test set rank as the whole one does? (Li et al. 2020, Table 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from math import isnan
from typing import Annotated

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, PercentFormatter
from pydantic import Field

from xnmt_bench.analyses.agreement import places
from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.analyses.tables import pivoted
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws, JointBootstrap
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.metric import Metric, TableRow
from xnmt_bench.options import Count, Part, Seed
from xnmt_bench.report.figure import fitting, lay_out, style, wrapped
from xnmt_bench.report.panels import Panel, distinguish
from xnmt_bench.report.standing import about_unranked
from xnmt_bench.report.summary import Cell

NOTE = (
    "Rate at which {samples:,} samples of the test set's units, drawn with replacement, order the "
    "{things} as the whole test set does; the share says how many units a sample has. Samples in "
    "which one of the {things} has no number are left out."
)


def stability(
    metric: Metric, rows: Mapping[str, Sequence[Measurement]], share: float, draws: Draws
) -> float:
    """Return the rate at which samples of a share of the units order things as all the units do.

    Each thing's value is the mean of those of its seeds, and equal values share a place. Samples in
    which a thing has no number are left out; where all are, the rate is NaN.
    """
    value_ER = JointBootstrap([metric] * len(rows), list(rows.values()), draws).values(share=share)
    place_ER = places(metric.headline.least_first(value_ER))
    # Column 0 is the whole test set; a sample agrees if all places do.
    agrees_R = (place_ER[:, 1:] == place_ER[:, :1]).all(0)
    agrees_R = agrees_R[~np.isnan(value_ER[:, 1:]).any(0)]
    return float(agrees_R.mean()) if len(agrees_R) else float("nan")


def _order(panel: Panel, pivot: str, names: Sequence[str]) -> str:
    """Return names as the whole test set orders them: `a < b = c` where the last two tie."""
    panel = panel.over_shared_systems(names)  # as samples have them
    first, *others = ranked = panel.ranked(pivot)
    ties = (panel.rank(pivot, a) == panel.rank(pivot, b) for a, b in pairwise(ranked))
    return first + "".join(
        f" {'=' if tie else '<'} {name}" for tie, name in zip(ties, others, strict=True)
    )


class RankStability(Analysis):
    """How often samples rank as the whole test set, by size of the sample.

    Args:
        explainers: which explainers are ranked; None for all. Systems are always all ranked.
        shares: sizes of samples, as shares of the test set.
        samples: how many samples of each size.
        seed: of the draws.
    """

    name = "rank_stability"

    def __init__(
        self,
        explainers: Sequence[str] | None = None,
        shares: Annotated[Sequence[Part], Field(min_length=1)] = (0.01, 0.05, 0.2, 0.5, 1.0),
        samples: Count = 1000,
        seed: Seed = 0,
    ) -> None:
        self.explainers, self.shares, self.draws = explainers, shares, Draws(samples, seed)

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return one line a panel and value of the pivot, one column a share."""
        metric, distinction = panels[0].metric, distinguish(panels)
        by_panel: list[list[TableRow]] = []
        orders: dict[str, list[str]] = {}
        for panel, phrase in zip(panels, distinction.phrases, strict=True):
            by_panel.append([])
            for pivot, measured in self._measured(panel).items():
                # As the table ranks them: the line names what the samples were compared with.
                order = _order(panel, pivot, [*measured])
                by = f"{phrase}: {order}" if phrase else order
                # Columns that rank alike share one note.
                orders.setdefault(by, []).append(panel.heading(pivot))
                for share in self.shares:
                    rate = stability(metric, measured, share, self.draws)
                    row = {"result": pivot, "share": share, "rate": rate, "order": order}
                    by_panel[-1].append({**panel.condition, **row, "size": f"{100 * share:g} %"})
        rows = list(chain(*by_panel))
        if not rows:
            raise NotApplicable("fewer than two rows can be ranked")
        compared = "systems" if metric.compared == "nmt" else f"{metric.compared}s"
        notes = [*about_unranked(panels), NOTE.format(samples=self.draws.samples, things=compared)]
        notes += [f"Best first, by {', '.join(by)}: {order}." for order, by in orders.items()]
        summary = pivoted(
            "Rank stability",
            panels,
            by_panel,
            {"result": "result"},
            "size",
            lambda row: Cell("no number" if isnan(row["rate"]) else f"{100 * row['rate']:.1f} %"),
            notes,
        )
        identity = (*panels[0].condition, "result", "share")
        figure = self._figure(panels, distinction.phrases, by_panel)
        return Result(rows, identity, ("rate", "order"), summary, figure)

    def _measured(self, panel: Panel) -> dict[str, dict[str, list[Measurement]]]:
        """Return what is ranked by each value of the pivot: names measured for all values."""
        by_pivot = panel.by_pivot(derived=True)
        by_pivot = {p: by_name for p, by_name in by_pivot.items() if p not in panel.metric.csv_only}
        # One name ranks nothing, so it decides for no other column.
        by_pivot = {p: by_name for p, by_name in by_pivot.items() if len(by_name) > 1}
        # Rates compare between columns only over the same names.
        names = set.intersection(*map(set, by_pivot.values())) if by_pivot else set()
        if self.explainers is not None and panel.metric.compared == "explainer":
            names &= set(self.explainers)
        # A single name keeps its place in every sample, which would read as perfect stability.
        if len(names) < 2:
            return {}
        return {
            pivot: {n: by_name[n] for n in sorted(names)} for pivot, by_name in by_pivot.items()
        }

    def _figure(
        self, panels: Sequence[Panel], titles: Sequence[str], by_panel: Sequence[Sequence[TableRow]]
    ) -> Figure:
        """Return the rate against the share of the test set, one axes a panel."""
        plotted = [block for block in zip(panels, titles, by_panel, strict=True) if block[-1]]
        shown, note = fitting(plotted, "blocks", lambda _: 3.4)
        figure, axes = plt.subplots(
            1, len(shown), figsize=(1 + 3.4 * len(shown), 3.4), squeeze=False, sharey=True
        )
        pivots = list(dict.fromkeys(row["result"] for row in chain(*by_panel)))
        for ax, (panel, title, rows) in zip(axes[0], shown, strict=True):
            for pivot in pivots:
                points = sorted((r["share"], r["rate"]) for r in rows if r["result"] == pivot)
                if points:
                    ax.plot(
                        *zip(*points, strict=True),
                        label=panel.heading(pivot),
                        linewidth=1.2,
                        markersize=5,
                        **style(pivots, pivot),
                    )
            ax.set_xscale("log")
            # The minor ticks of a log axis would be labelled between the sizes that were drawn.
            ax.xaxis.set_minor_locator(NullLocator())
            ax.set_xticks(self.shares, [f"{100 * share:g} %" for share in self.shares])
            ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
            ax.set_xlabel("sample, share of the test set")
            ax.set_title(wrapped(title, 3.4), fontsize=10)
            ax.grid(linewidth=0.3, alpha=0.6)
        axes[0, 0].set_ylabel("samples that rank as the whole set")
        lay_out(figure, axes[0], note)
        return figure
