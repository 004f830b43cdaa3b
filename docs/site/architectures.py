"""Do explainers rank alike in an encoder-decoder and in a decoder-only translator?

    python docs/site/architectures.py    # seconds: writes docs/recorded/figures/decoder_only.png

It reads `docs/recorded/decoder_only/architectures.csv`, which docs/recorded/decoder_only.md
describes, and prints the rank correlations of that page.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
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
LOWER_IS_BETTER = ("Base", "EVAL-X", "own", "AER")  # how names of such numbers begin
DRAWN = ("Base, zero", "Base, masked keys", "EVAL-X SA", "AER %", "causal@1, source")
COLOURS = ("#0072B2", "#D55E00")  # of the architectures; Okabe and Ito's palette
NUDGE = 0.17  # of a line: how far the architectures stand apart

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
    first, second = ([*by_system[name].values()] for name in ARCHITECTURES)
    # An explainer of one architecture alone has no place in the other's order.
    names = [n for n in first[0] if counted(n) and all(n in x for x in (*first, *second))]
    pairs: dict[str, Iterable[tuple[dict[str, float], dict[str, float]]]] = {
        title: combinations(seeds, 2)
        for title, seeds in zip(ARCHITECTURES.values(), (first, second), strict=True)
    }
    pairs["between"] = product(first, second)
    return {title: [correlate(a, b, names) for a, b in of] for title, of in pairs.items()}


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
        for name in names_of(by_system):
            cells = (describe(values_of(by_system, a, name)) for a in ARCHITECTURES)
            table.add_row(name, *cells)
        Console(width=120).print(table)


def names_of(by_system: Systems) -> list[str]:
    """Return the explainers of a number."""
    seeds = (by_seed for a in ARCHITECTURES for by_seed in by_system[a].values())
    return list(dict.fromkeys(name for by_name in seeds for name in by_name))


def values_of(by_system: Systems, architecture: str, explainer: str) -> list[float]:
    """Return an explainer's numbers, one a seed; none where it cannot explain the systems."""
    return [x[explainer] for x in by_system[architecture].values() if explainer in x]


def describe(numbers: Sequence[float]) -> str:
    """Return a mean, the lowest and the highest, as a table has them."""
    if not numbers:
        return ""
    return f"{np.mean(numbers):.3g} [{min(numbers):.3g}, {max(numbers):.3g}]"


def draw_number(axes: Axes, number: str, by_system: Systems, names: Sequence[str]) -> None:
    """Draw a line for each explainer, with a point for each seed of both architectures."""
    for side, (architecture, colour) in enumerate(zip(ARCHITECTURES, COLOURS, strict=True)):
        for place, name in enumerate(names):
            points = values_of(by_system, architecture, name)
            height = place + (2 * side - 1) * NUDGE
            label = ARCHITECTURES[architecture] if place == 0 else None
            axes.plot(points, [height] * len(points), "o-", color=colour, ms=3.5, label=label)
    axes.set_yticks(range(len(names)), [f"{n} (blind)" if n in BLIND else n for n in names])
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    axes.axhline(sum(n not in BLIND for n in names) - 0.5, color="black", linewidth=0.6)
    lower = number.startswith(LOWER_IS_BETTER)
    if lower and number != "AER %":
        axes.set_xscale("log")
    axes.set_title(f"{number}\n({'lower' if lower else 'higher'} is better)", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def draw_figure(values: Values, path: Path) -> None:
    """Draw a panel for each of some numbers; the best method by Base is at the top."""
    by_system = values[DRAWN[0]]
    first = next(iter(ARCHITECTURES))
    names = sorted(
        names_of(by_system), key=lambda n: (n in BLIND, np.mean(values_of(by_system, first, n)))
    )
    size = (2.6 * len(DRAWN) + 1.6, 0.34 * len(names) + 1.6)
    figure, panels = plt.subplots(1, len(DRAWN), figsize=size, sharey=True)
    for axes, number in zip(panels, DRAWN, strict=True):
        draw_number(axes, number, values[number], names)
    panels[0].invert_yaxis()  # the first at the top
    lines, labels = panels[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="lower center", ncols=2, frameon=False)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
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
