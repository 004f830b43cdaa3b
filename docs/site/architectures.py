"""Do explainers rank alike in an encoder-decoder and in a decoder-only translator?

    python docs/site/architectures.py    # seconds: writes docs/recorded/figures/decoder_only.png

It reads `docs/recorded/decoder_only/architectures.csv`, which docs/recorded/decoder_only.md
describes, and prints the rank correlations of that page.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import combinations, product
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from rich.console import Console
from rich.table import Table
from scipy.stats import kendalltau

RECORDED = Path(__file__).resolve().parents[1] / "recorded"
ROWS = RECORDED / "decoder_only" / "architectures.csv"
FIGURE = RECORDED / "figures" / "decoder_only.png"
ARCHITECTURES = {"transformer_128": "encoder-decoder", "decoder_only_128": "decoder-only"}
BLIND = ("lexicon", "nearest", "random", "uniform")
LOWER_IS_BETTER = ("Base", "EVAL-X", "AER")  # how names of such numbers begin
DRAWN = ("Base, zero", "EVAL-X SA", "AER %", "causal@1, source")
# Okabe and Ito's palette, told apart also by those who see fewer colours.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
NUDGE = 0.03  # of an axis: how far the seeds of a system stand apart

Systems = dict[str, dict[int, dict[str, float]]]
"""A number by system, seed and explainer."""
Values = dict[str, Systems]
"""The same by the number's name."""


def read_values(path: Path) -> Values:
    """Return value[number][system][seed][explainer]."""
    values: Values = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            by_seed = values[row["number"]][row["nmt"]]
            by_seed[int(row["seed"])][row["explainer"]] = float(row["value"])
    return values


def correlate(first: dict[str, float], other: dict[str, float], names: Iterable[str]) -> float:
    """Return Kendall's tau of two orders of the same explainers."""
    return float(kendalltau(*([values[name] for name in names] for values in (first, other)))[0])


def correlations(by_system: Systems, counted: Callable[[str], bool]) -> dict[str, list[float]]:
    """Return tau of each pair of systems: of one architecture by its name, and `between` them."""
    systems = [[*by_system[name].values()] for name in ARCHITECTURES]
    names = [name for name in systems[0][0] if counted(name)]
    pairs = {
        title: combinations(seeds, 2)
        for title, seeds in zip(ARCHITECTURES.values(), systems, strict=True)
    }
    pairs["between"] = product(*systems)
    return {title: [correlate(*pair, names) for pair in of] for title, of in pairs.items()}


def print_correlations(values: Values, title: str, counted: Callable[[str], bool]) -> None:
    """Print the mean of tau and its range."""
    table = Table("number", *ARCHITECTURES.values(), "between", title=title)
    for number, by_system in values.items():
        columns = correlations(by_system, counted).values()
        cells = (f"{np.mean(x):.2f} [{min(x):.2f}, {max(x):.2f}]" for x in columns)
        table.add_row(number, *cells)
    Console(width=120).print(table)


def print_means(values: Values) -> None:
    """Print each explainer's mean over seeds, and the lowest and the highest."""
    for number, by_system in values.items():
        table = Table("explainer", *ARCHITECTURES.values(), title=number)
        names = [*next(iter(by_system[next(iter(ARCHITECTURES))].values()))]
        for name in names:
            columns = ([x[name] for x in by_system[a].values()] for a in ARCHITECTURES)
            table.add_row(
                name, *(f"{np.mean(x):.4g} [{min(x):.4g}, {max(x):.4g}]" for x in columns)
            )
        Console(width=120).print(table)


def draw_number(axes: Axes, number: str, by_system: Systems) -> None:
    """Draw each explainer's line from one architecture to the other, and a point of each seed."""
    systems = [[*by_system[name].values()] for name in ARCHITECTURES]
    for place, name in enumerate(systems[0][0]):
        colour = COLOURS[place % len(COLOURS)]
        points = [[seed[name] for seed in seeds] for seeds in systems]
        means = [np.exp(np.log(x).mean()) if min(x) > 0 else np.mean(x) for x in points]
        blind = name in BLIND
        axes.plot((0, 1), means, color=colour, linestyle=":" if blind else "-", label=name)
        for side, of_seeds in enumerate(points):
            sides = side + NUDGE * (np.arange(len(of_seeds)) - (len(of_seeds) - 1) / 2)
            axes.scatter(sides, of_seeds, color=colour, s=14, marker="x" if blind else "o")
    axes.set_xticks((0, 1), ARCHITECTURES.values())
    axes.set_xlim(-0.25, 1.25)
    axes.set_title(number, fontsize=10)
    if number.startswith(LOWER_IS_BETTER):
        axes.set_yscale("log")
        axes.invert_yaxis()  # the best is at the top of every panel
    axes.spines[["top", "right"]].set_visible(False)


def draw_figure(values: Values, path: Path) -> None:
    """Draw a panel for each of some numbers."""
    figure, panels = plt.subplots(1, len(DRAWN), figsize=(3 * len(DRAWN), 4.4))
    for axes, number in zip(panels, DRAWN, strict=True):
        draw_number(axes, number, values[number])
    panels[0].set_ylabel("the best at the top")
    lines, names = panels[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="lower center", ncols=5, frameon=False)
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Print the page's numbers and draw its figure."""
    values = read_values(ROWS)
    print_means(values)
    print_correlations(values, "Kendall's tau, all rows", lambda _: True)
    print_correlations(values, "Kendall's tau, rows that ask the model", lambda x: x not in BLIND)
    draw_figure(values, FIGURE)


if __name__ == "__main__":
    main()
