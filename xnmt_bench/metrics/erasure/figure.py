"""Deletion and insertion curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.erasure.curves import CURVES, GRID, point
from xnmt_bench.report.figure import first_lines, fitting, lay_out, name_labels, style, wrapped


def draw_curves(groups: Mapping[tuple[str, str, str, str], Sequence[Measurement]]) -> Figure:
    """Return a row of axes for each system and removal: deletion and insertion.

    Args:
        groups: measurements by corpus, system, removal, and what else tells systems apart.
    """
    shown, note = fitting([*groups.items()], "systems and removals", lambda _: 2.9)
    figure, axes = plt.subplots(
        len(shown), 2, figsize=(8.4, 0.9 + 2.9 * len(shown)), squeeze=False, sharey=True
    )
    drawn = [m for members in groups.values() for m in members]
    names, lines_note = first_lines(sorted({m.identity["explainer"] for m in drawn}), "explainers")
    blind = {m.identity["explainer"] for m in drawn if m.facts.blind}
    labels = name_labels(names, blind)
    systems = {(corpus, nmt, apart) for corpus, nmt, _, apart in groups}
    names_alone = {key[:2] for key in groups}
    for row, ((corpus, nmt, removal, apart), members) in zip(axes, shown, strict=True):
        for ax, curve, verb in zip(row, CURVES, ("erased", "put in"), strict=True):
            for name in names:
                # Seeds of one explainer are one curve, their mean.
                seeds = [m.units() for m in members if m.identity["explainer"] == name]
                if seeds:
                    values = [np.mean([_mean(u, point(curve, x)) for u in seeds]) for x in GRID]
                    look = {"markevery": 4, "markersize": 4, "linewidth": 1.1}
                    ax.plot(GRID, values, label=labels[name], **look, **style(names, name))
            system = f"{corpus} {nmt}, " if len(systems) > 1 else ""
            if len(systems) > len(names_alone):
                system = f"{corpus} {nmt} {apart}, "
            ax.set_title(wrapped(f"{system}{curve}, removal: {removal}", 4), fontsize=10)
            ax.set_xlabel(f"share of the words {verb}, most relevant first")
            ax.grid(linewidth=0.3, alpha=0.6)
        # Both axes share it.
        row[0].set_ylabel("mean P(label)")
    lay_out(figure, axes[-1], note, lines_note)
    return figure


def _mean(units: Units, column: str) -> float:
    return float(units[column].sum() / units["curve_decisions"].sum())
