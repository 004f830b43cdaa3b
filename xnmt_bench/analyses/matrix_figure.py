"""Matrices of Kendall's tau."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from xnmt_bench.report.figure import first_lines, fitting, lay_out, shorten_all, wrapped

CELL = 0.55  # inches
MOST_NAMES = 40  # of a matrix: more take minutes to draw
DARK = 0.6  # of a cell's value, beyond which black letters are hard to read


@dataclass(frozen=True)
class Matrix:
    """How the rankings of one system agree.

    Attributes:
        title: over it.
        names: of the rankings.
        tau_NN: of every two, NaN where there is none.
    """

    title: str
    names: Sequence[str]
    tau_NN: np.ndarray


def draw_matrices(matrices: Sequence[Matrix]) -> Figure:
    """Return a figure with a matrix for each system, one under another."""
    every_block = [(m, *first_lines(m.names, "rankings", MOST_NAMES)) for m in matrices]

    def inches(block: tuple[Matrix, Sequence[str], str]) -> float:
        return CELL * len(block[1]) + 2.6

    blocks, note = fitting(every_block, "systems", inches)
    sizes = [CELL * len(names) for _, names, _ in blocks]
    figure, axes = plt.subplots(
        len(blocks),
        1,
        figsize=(2.8 + max(sizes), sum(map(inches, blocks))),
        squeeze=False,
        height_ratios=sizes,
    )
    for ax, (matrix, names, names_note) in zip(axes[:, 0], blocks, strict=True):
        tau_NN = matrix.tau_NN[: len(names), : len(names)]
        ax.imshow(tau_NN, cmap="RdBu", vmin=-1, vmax=1, interpolation="none")
        short = shorten_all(names)
        places, labels = range(len(names)), [short[name] for name in names]
        ax.set_xticks(places, labels, rotation=45, ha="right", fontsize=8)
        ax.set_yticks(places, labels, fontsize=8)
        title = f"{matrix.title}: Kendall's tau"
        ax.set_title(wrapped(title, 2.8 + CELL * len(names), names_note), fontsize=10)
        for (i, j), tau in np.ndenumerate(tau_NN):
            if tau == tau:  # only NaN differs from itself
                colour = "white" if abs(tau) > DARK else "black"
                ax.text(j, i, f"{tau:.2f}", ha="center", va="center", fontsize=7, color=colour)
    lay_out(figure, (), note)
    return figure
