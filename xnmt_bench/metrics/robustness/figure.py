"""The order that is kept while more and more weights are permuted."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from xnmt_bench.measuring.alike import family
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.metric import SYSTEM, ratio
from xnmt_bench.report.figure import first_lines, fitting, lay_out, name_labels, style, wrapped
from xnmt_bench.rules.table import RULE_SIDES

DEPTHS = "depths"  # a fact of a row: the last group of weights that is permuted at each depth


def at_depth(name: str, depth: int) -> str:
    """Return the name of a units' column of a depth, counted from 0."""
    return f"{name} at {depth}"


def draw_depths(groups: Sequence[Sequence[Measurement]]) -> Figure:
    """Return a row of axes for each group: source and prefix words.

    Args:
        groups: rows of one system and the same depths.
    """
    shown, note = fitting(groups, "systems", lambda _: 3.5)
    figure, axes = plt.subplots(
        len(shown), 2, figsize=(8.4, 0.9 + 3.5 * len(shown)), squeeze=False, sharey=True
    )
    drawn = [m for members in groups for m in members]
    names, lines_note = first_lines(sorted({m.identity["explainer"] for m in drawn}), "explainers")
    blind = {m.identity["explainer"] for m in drawn if m.facts.blind}
    labels = name_labels(names, blind)
    for row, members in zip(axes, shown, strict=True):
        # Rows of other depths are in another group.
        depths = members[0].facts.of_metric[DEPTHS]
        for ax, side in zip(row, RULE_SIDES, strict=True):
            for name in names:
                seeds = [m for m in members if m.identity["explainer"] == name]
                if seeds:
                    # Seeds of one explainer are one line, their mean.
                    kept = np.mean([_kept(m, side, len(depths)) for m in seeds], axis=0)
                    # Nothing is permuted yet, so that the whole order is kept.
                    ax.plot([1, *kept], label=labels[name], linewidth=1.1, **style(names, name))
            words = _words(members)
            if sum(_words(g) == words for g in groups) > 1:  # other trainings, or other sentences
                sentences = members[0].settings.get("test sentences", "")
                words = " ".join(filter(None, [words, family(members[0])[:6], str(sentences)]))
            system = f"{words}, " if len(groups) > 1 else ""
            ax.set_title(wrapped(f"{system}{side} words", 4), fontsize=10)
            ax.set_xticks(range(len(depths) + 1), ["nothing", *depths], rotation=35, ha="right")
            ax.set_xlabel("weights permuted, from the output down to")
            ax.axhline(0, color="#000000", linewidth=0.6)
            ax.grid(linewidth=0.3, alpha=0.6)
        row[0].set_ylabel("order kept (Spearman)")
    lay_out(figure, axes[-1], note, lines_note)
    return figure


def _words(members: Sequence[Measurement]) -> str:
    return " ".join(members[0].identity[c] for c in SYSTEM)


def _kept(measurement: Measurement, side: str, depths: int) -> list[float]:
    units = measurement.units()
    columns = [at_depth(f"rank {side}", depth) for depth in range(depths)]
    return [float(ratio(units[c].sum(), units[f"of {c}"].sum())) for c in columns]
