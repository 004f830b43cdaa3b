"""Deletion and insertion curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from xnmt_bench.measuring.measurement import BLIND, Measurement
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.erasure.curves import CURVES, GRID, point
from xnmt_bench.report.figure import legend_below, style


def draw_curves(groups: Mapping[tuple[str, str, str, str], Sequence[Measurement]]) -> Figure:
    """Return a row of axes for each system and removal: deletion and insertion.

    Args:
        groups: measurements by corpus, system, removal, and what else tells systems apart.
    """
    figure, axes = plt.subplots(
        len(groups), 2, figsize=(8.4, 0.9 + 2.9 * len(groups)), squeeze=False, sharey=True
    )
    drawn = [m for members in groups.values() for m in members]
    names = sorted({m.identity["explainer"] for m in drawn})
    blind = {m.identity["explainer"] for m in drawn if m.facts.get(BLIND)}
    systems = {(corpus, nmt, apart) for corpus, nmt, _, apart in groups}
    names_alone = {key[:2] for key in groups}
    for row, ((corpus, nmt, removal, apart), members) in zip(axes, groups.items(), strict=True):
        for ax, curve, verb in zip(row, CURVES, ("erased", "put in"), strict=True):
            for name in names:
                # Seeds of one explainer are one curve, their mean.
                seeds = [m.units() for m in members if m.identity["explainer"] == name]
                if seeds:
                    values = [np.mean([_mean(u, point(curve, x)) for u in seeds]) for x in GRID]
                    label = name.replace("_", " ") + (" (blind)" if name in blind else "")
                    look = {"markevery": 4, "markersize": 4, "linewidth": 1.1}
                    ax.plot(GRID, values, label=label, **look, **style(names, name))
            system = f"{corpus} {nmt}, " if len(systems) > 1 else ""
            if len(systems) > len(names_alone):
                system = f"{corpus} {nmt} {apart}, "
            ax.set_title(f"{system}{curve}, removal: {removal}", fontsize=10)
            ax.set_xlabel(f"share of the words {verb}, most relevant first")
            ax.grid(linewidth=0.3, alpha=0.6)
        # Both axes share it.
        row[0].set_ylabel("mean P(label)")
    legend_below(figure, axes[-1])
    return figure


def _mean(units: Units, column: str) -> float:
    return float(units[column].sum() / units["curve_decisions"].sum())
