"""Figures that can go into a paper unchanged: SVG and PNG, colour-blind-safe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from xnmt_bench.measuring.metric import Metric
from xnmt_bench.report.panels import Panel, distinguish, pooled, sort_pivots

plt.rcParams["text.parse_math"] = False  # a name may hold two dollar signs
# Okabe and Ito's palette: told apart also by those who see fewer colours; so are the markers.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
SHAPES = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = (":", "--", "-.")
LONGEST_SIDE = 8000  # pixels of a PNG


def style(names: Sequence[str], name: str) -> dict[str, Any]:
    """Return colour and marker of one of several things."""
    # By the sorted names, so that the order of rows changes no colour.
    round_, place = divmod(sorted(names).index(name), len(PALETTE))
    # A colour that comes again has another marker.
    return {"color": PALETTE[place], "marker": SHAPES[(place + round_) % len(SHAPES)]}


def interval_figure(metric: Metric, panels: Sequence[Panel]) -> Figure | None:
    """Return the headline with its interval, one axes a panel; None where nothing has a number."""
    shown = [panel for panel in panels if panel.by_pivot(blind=True)]
    if not shown:
        return None
    distinction, column = distinguish(shown), metric.headline
    measured = {p for panel in shown for p in panel.by_pivot(blind=True)}
    pivots = sort_pivots(measured, shown[0].pivot_values)
    row = max(0.45, 0.12 * len(pivots))  # inches a line
    heights = [0.7 + row * len(panel.names) for panel in shown]  # inches
    figure, axes = plt.subplots(
        len(shown),
        1,
        figsize=(7.5, 1.4 + sum(heights)),
        squeeze=False,
        sharex=True,
        height_ratios=heights,
    )
    for ax, panel, phrase in zip(axes[:, 0], shown, distinction.phrases, strict=True):
        _draw(ax, panel, pivots)
        title = ", ".join(filter(None, [phrase, *distinction.common]))
        # A figure may stand in a paper without the notes that its table has.
        generated = any(m.facts.get("generated") for _, m in panel.measurements())
        ax.set_title(title + " (generated data)" * generated, fontsize=10)
    which = {"lower": " (further left: better)", "higher": " (further right: better)"}
    scale = ", log scale" if column.log else ""
    axes[-1, 0].set_xlabel(f"{column.heading}{scale}{which.get(column.better or '', '')}")
    if len(pivots) > 1 or any(panel.references for panel in shown):
        legend_below(figure, axes[:, 0])
    else:
        figure.tight_layout()
    return figure


def _draw(ax: plt.Axes, panel: Panel, pivots: Sequence[str]) -> None:
    column = panel.metric.headline
    by_pivot = panel.by_pivot(blind=True)
    measured = sorted({name for by_name in by_pivot.values() for name in by_name})
    best = {
        name: min(rank for p in pivots if (rank := panel.rank(p, name)) is not None)
        for name in measured
    }
    # The y-axis goes up, so that the last one, the best, stands above; blind ones stand below.
    names = sorted(measured, key=best.__getitem__, reverse=True)
    names.sort(key=panel.blind, reverse=True)
    for number, pivot in enumerate(pivots):
        offset = min(0.18, 0.8 / len(pivots)) * ((len(pivots) - 1) / 2 - number)
        look = style(pivots, pivot)
        for name in by_pivot.get(pivot, {}):
            for scored in panel.of(pivot, name):
                # What is derived is drawn already, as what it was chosen from.
                if (numbers := pooled(column, [scored])) and not scored.derived:
                    at = names.index(name) + offset
                    draw_interval(ax, "x", at, *numbers, label=panel.heading(pivot), **look)
    for number, (kind, rows) in enumerate(sorted(panel.references.items(), reverse=True)):
        if numbers := pooled(column, rows):
            ax.axvline(
                numbers[0],
                color="black",
                linewidth=0.9,
                linestyle=LINES[number % len(LINES)],
                label=kind,
            )
    if column.log:
        log_scale(ax, "x")
    else:
        ax.xaxis.set_major_formatter(lambda value, _: column.form(value))  # as the table has it
    blind = sum(map(panel.blind, names))
    if blind:
        ax.axhspan(-0.6, blind - 0.5, color="black", alpha=0.06, linewidth=0)
    labels = [name.replace("_", " ") + " (blind)" * panel.blind(name) for name in names]
    ax.set_yticks(range(len(names)), labels)
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.grid(axis="x", which="both", linewidth=0.3, alpha=0.6)


def draw_interval(
    ax: plt.Axes, along: Literal["x", "y"], at: Any, value: Any, low: Any, high: Any, **look: Any
) -> None:
    """Draw points with their intervals along an axis, at their places on the other one."""
    # A skewed bootstrap may leave the number itself a hair outside its interval.
    error = np.maximum(0, [np.atleast_1d(value) - low, high - np.atleast_1d(value)])
    x, y = (value, at) if along == "x" else (at, value)
    points = {"linestyle": "none", "capsize": 2, "markersize": 5}
    ax.errorbar(x, y, **{f"{along}err": error, **points, **look})


def legend_below(figure: Figure, axes: Iterable[plt.Axes]) -> None:
    """Lay a figure out over one legend of all its axes, in lines that fit."""
    drawn: dict[str, Any] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        drawn |= dict(zip(map(str, labels), handles, strict=True))
    entry = 0.45 + 0.075 * max(map(len, drawn), default=0)  # inches
    columns = max(1, min(len(drawn), int(figure.get_figwidth() / entry)))
    rows = -(-len(drawn) // columns)
    figure.legend(
        list(drawn.values()), list(drawn), loc="lower center", ncol=columns, frameon=False
    )
    figure.tight_layout(rect=(0, (0.15 + 0.22 * rows) / figure.get_figheight(), 1, 1))


def log_scale(ax: plt.Axes, which: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, with enough numbers to read values from."""
    ax.set(**{f"{which}scale": "log"})
    axis: Axis = getattr(ax, f"{which}axis")
    axis.set_major_locator(RoomyLogLocator())
    axis.set_major_formatter("{x:,g}")
    axis.set_minor_locator(NullLocator())  # its labels would overlap those of 2 and 5


class RoomyLogLocator(LogLocator):
    """The finest of 1-2-5, decades, and every second, third, ... decade whose labels fit.

    A range that holds fewer than two of them, such as 3 to 4.5, has evenly spaced numbers.
    """

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the ticks: at least two; where no choice fits, the roomiest."""
        low, high = sorted((vmin, vmax))
        every = [ticks[(low <= ticks) & (ticks <= high)] for ticks in self._choices(low, high)]
        choices = [ticks for ticks in every if len(ticks) > 1]
        rooms = [self._room(np.log(ticks / low) / np.log(high / low), ticks) for ticks in choices]
        fitting = (ticks for ticks, room in zip(choices, rooms, strict=True) if room >= 0)
        return next(fitting, choices[np.argmax(rooms)])

    def _choices(self, low: float, high: float) -> Iterator[Any]:
        decades = 10 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
        yield np.outer(decades, (1, 2, 5)).ravel()
        decades = decades[(low <= decades) & (decades <= high)]
        for stride in range(1, len(decades)):
            yield decades[::stride]
        for parts in range(6, 0, -1):
            yield MaxNLocator(parts).tick_values(low, high)

    def _room(self, places: Any, ticks: Any) -> float:
        """Return the least room between two labels, in points, of ticks at places from 0 to 1."""
        axis: Any = self.axis  # matplotlib also allows for stand-ins without a figure
        along, box = axis.axis_name, axis.axes.bbox
        length = 72 / axis.figure.dpi * (box.width if along == "x" else box.height)
        size = axis.get_major_ticks(1)[0].label1.get_size()
        lengths = [1.0] * len(ticks)
        if along == "x":  # a digit is less than 0.65 of the font's size wide
            lengths = [0.65 * len(text) for text in axis.major.formatter.format_ticks(ticks)]
        needed = np.convolve(lengths, (0.5, 0.5), "valid") + 0.4  # and space between them
        return float(np.min(np.diff(places) * length - needed * size))


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as SVG and PNG, and close it."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(stem.name + ending) for ending in (".svg", ".png")]
    dpi = min(160, LONGEST_SIDE / max(figure.get_size_inches()))
    for path in paths:
        figure.savefig(path, dpi=dpi)
    plt.close(figure)
    return paths
