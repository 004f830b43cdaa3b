"""Matrices of Kendall's tau."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

CELL = 0.55  # inches
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
    sizes = [CELL * len(m.names) for m in matrices]
    figure, axes = plt.subplots(
        len(matrices),
        1,
        figsize=(2.8 + max(sizes), sum(sizes) + 2.6 * len(matrices)),
        squeeze=False,
        height_ratios=sizes,
    )
    for ax, matrix in zip(axes[:, 0], matrices, strict=True):
        ax.imshow(matrix.tau_NN, cmap="RdBu", vmin=-1, vmax=1, interpolation="none")
        places = range(len(matrix.names))
        ax.set_xticks(places, matrix.names, rotation=45, ha="right", fontsize=8)
        ax.set_yticks(places, matrix.names, fontsize=8)
        ax.set_title(f"{matrix.title}: Kendall's tau", fontsize=10)
        for (i, j), tau in np.ndenumerate(matrix.tau_NN):
            if tau == tau:  # only NaN differs from itself
                colour = "white" if abs(tau) > DARK else "black"
                ax.text(j, i, f"{tau:.2f}", ha="center", va="center", fontsize=7, color=colour)
    figure.tight_layout()
    return figure
