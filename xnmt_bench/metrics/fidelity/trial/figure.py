"""The figure of the trial: the advantage of the link in one twin against that in the other."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from xnmt_bench.measuring.metric import TableRow
from xnmt_bench.report.figure import fitting, lay_out, wrapped

ALL = "all"  # slots at once
COLORS = ("#2171b5", "#d94801", "#238b45", "#6a51a3", "#a63603", "#737373")


def draw(rows: Sequence[TableRow]) -> Figure:
    """Return A in L against A in C: a point a pair and judge, axes for each text judges read."""
    of_all = [row for row in rows if row["slot"] == ALL]
    every_text = list(dict.fromkeys(row["corpus"] for row in of_all))
    texts, note = fitting(every_text, "texts", lambda _: 3.4)
    judges = list(dict.fromkeys(row["heading"] for row in of_all))
    inches = (1.0 + 3.4 * len(texts), 4.4)
    figure, axes = plt.subplots(
        1, len(texts), squeeze=False, sharex=True, sharey=True, figsize=inches
    )
    # Behind its seed, each pair has two numbers.
    points = [
        np.array([pair.split()[2:] for pair in row["by_pair"].split("; ")], float) for row in of_all
    ]
    reach = 1.15 * max(np.abs(np.concatenate(points)).max(), 0.1)
    for ax, text in zip(axes[0], texts, strict=True):
        ax.fill_between([0, reach], -reach, 0, color="#e5f5e0", zorder=0)
        ax.text(reach * 0.97, -reach * 0.97, "sees the model", ha="right", va="bottom", fontsize=9)
        ax.plot([-reach, reach], [-reach, reach], color="#999999", linewidth=0.8, linestyle=":")
        for row, points_P2 in zip(of_all, points, strict=True):
            if row["corpus"] == text:
                number = judges.index(row["heading"])
                # Later ones are smaller, so that points in one place all show.
                size = 5 + 7 * (1 - number / len(judges))
                color = COLORS[number % len(COLORS)]
                ax.plot(*points_P2.T, "o", color=color, label=row["heading"], markersize=size)
        ax.axhline(0, color="black", linewidth=0.6)
        ax.axvline(0, color="black", linewidth=0.6)
        ax.set_xlim(-reach, reach)
        ax.set_ylim(-reach, reach)
        ax.set_aspect("equal")
        ax.set_title(wrapped(f"judges learn from {text}", 3.4), fontsize=9)
        ax.set_xlabel("advantage of the link in L (nats)")
    axes[0, 0].set_ylabel("advantage of the link in C (nats)")
    lay_out(figure, axes[0], note)
    return figure
