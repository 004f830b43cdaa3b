"""Relevance of sentences as figures: PNG, PDF and SVG; long sentences fold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from rich.cells import cell_len
from torch import Tensor

from xnmt_bench.explanation.drawing import Panel
from xnmt_bench.pictures import LARGEST, fonts_for, shorten
from xnmt_bench.store import replacing

FRAME = "#D55E00"  # tells from blues also for those who see fewer colours
FOLD = 60  # words or steps of a figure's part
MOST_WORDS = 2 * FOLD  # words or steps of a figure
CELL, LINE = (0.3, 0.22), 0.09  # inches: a word's cell, wide and high; a letter of a label


def scaled(relevance_TX: Tensor) -> Tensor:
    """Return each step's relevance divided by its greatest absolute value, so that steps compare.

    Signed scores keep their sign; NaN, a word the step cannot see, stays.
    """
    greatest = torch.nan_to_num(relevance_TX).abs().amax(-1, keepdim=True)
    return relevance_TX / torch.where(greatest > 0, greatest, 1.0)


@dataclass(frozen=True)
class Part:
    """A part of a matrix that fits: its rows' and columns' labels and its values."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Tensor
    framed: Sequence[tuple[int, int]] = ()
    least: int = -1  # of the scale; 0 where nothing hurts


Pair: TypeAlias = tuple[Part | None, Part | None]  # source words, and prefix words beside them
SCALED = "relevance, each step scaled"  # what the colours of an explanation mean


def heatmap_figures(panels: Iterable[Panel]) -> Iterator[Figure]:
    """Draw matrices under each other, in as many figures as it takes.

    Source words stand left, prefix words right, and each step has a row. Of a longer sentence the
    first `MOST_WORDS` words and steps are drawn, which the titles say.
    """
    part: list[Pair] = []
    for panel in panels:
        pairs = list(_pairs(panel))
        if part and sum(map(_height, [*part, *pairs])) > LARGEST:
            yield draw_parts(part, SCALED)
            part = []
        part += pairs
    yield draw_parts(part, SCALED)


def save_panel(panel: Panel, path: Path) -> None:
    """Write a matrix as a PNG or a PDF, by the suffix of the path."""
    [figure] = heatmap_figures([panel])
    # TrueType fonts, since publishers refuse the bitmaps of Type 3.
    truetype = plt.rc_context({"pdf.fonttype": 42})
    with fonts_for(figure), truetype, replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=160)
    plt.close(figure)


def left_out(number: int, kind: str) -> str:
    """Return the words with which a title names what is left out."""
    return f", the first {MOST_WORDS} of {number:,} {kind}" if number > MOST_WORDS else ""


def _below(pair: Pair) -> float:
    """Return the inches that a pair's slanted labels and its title take."""
    labels = (column for panel in pair if panel for column in panel.columns)
    return 0.5 + LINE * max(map(cell_len, labels))


def _height(pair: Pair) -> float:
    """Return the inches of a pair of panels."""
    return _below(pair) + CELL[1] * max(len(panel.rows) for panel in pair if panel)


def draw_parts(pairs: Sequence[Pair], scale: str) -> Figure:
    """Return pairs of panels under each other.

    Laid out in inches: matplotlib's own layouts draw every label several times over.
    """
    panels = [panel for pair in pairs for panel in pair if panel]
    margin = 0.2 + LINE * max(cell_len(row) for panel in panels for row in panel.rows)
    wide = [
        max((max(CELL[0] * len(p.columns), LINE * cell_len(p.title)) for p in side if p), default=0)
        for side in zip(*pairs, strict=True)
    ]
    heights = list(map(_height, pairs))
    width, height = margin + sum(wide) + 1.5, sum(heights)
    figure = plt.figure(figsize=(width, height))
    top = height
    for pair, pair_height in zip(pairs, heights, strict=True):
        starts = (margin, margin + wide[0] + CELL[0])
        top -= 0.3
        for number, (panel, start) in enumerate(zip(pair, starts, strict=True)):
            if panel:
                size = CELL[0] * len(panel.columns), CELL[1] * len(panel.rows)
                x, y = start / width, (top - size[1]) / height
                ax = figure.add_axes((x, y, size[0] / width, size[1] / height))
                image = _draw(ax, panel, labelled=number == 0 or pair[0] is None)
        top -= pair_height - 0.3
    beside = (width - 0.9) / width
    tall = max(heights[0] - _below(pairs[0]), 1.5) / height
    bar_axes = figure.add_axes((beside, 1 - 0.3 / height - tall, 0.15 / width, tall))
    figure.colorbar(image, cax=bar_axes).set_label(scale, fontsize=8)
    return figure


def _pairs(panel: Panel) -> Iterator[Pair]:
    """Yield source and prefix parts side by side, at most `FOLD` words or steps of each."""
    # An unknown probability is NaN.
    probabilities = [f"  {p:.2f}" * (p == p) for p in panel.probabilities]
    steps_there = zip_longest(map(shorten, panel.rows), probabilities, fillvalue="")
    labels = ["".join(step) for step in steps_there]
    heading = shorten(panel.title.replace("_", " ")) + left_out(len(labels), "steps")
    weights_TX, sources = torch.from_numpy(panel.weights_TX), panel.sources
    sides = [(f"{heading}: source", panel.columns[:sources], weights_TX[:, :sources])]
    # Of one step the prefix is empty, and what follows it is EOS.
    if len(panel.columns) > sources and len(labels) > 1:
        sides.append(("target prefix", panel.columns[sources:], weights_TX[:, sources:]))
    # Without a step that is explained, the words alone say what the picture is of.
    nothing = bool(weights_TX.isnan().all())
    for steps in _slices(len(labels)):
        folded = [
            [
                Part(
                    title + left_out(len(words_there), "words"),
                    labels[steps],
                    list(map(shorten, words_there[words])),
                    scaled(relevance_TX)[steps, words],
                )
                for words in _slices(len(words_there))
                if nothing or not scaled(relevance_TX)[steps, words].isnan().all()
            ]
            for title, words_there, relevance_TX in sides
        ]
        yield from zip_longest(folded[0], folded[1] if len(folded) > 1 else [])


def _slices(number: int) -> Iterator[slice]:
    """Yield where the panels of so many words or steps begin and end."""
    yield from (slice(n, n + FOLD) for n in range(0, min(number, MOST_WORDS), FOLD))


def _draw(ax: plt.Axes, panel: Part, labelled: bool) -> AxesImage:
    ax.set_facecolor("#EEEEEE")  # where a step cannot see a word
    # Without interpolation an SVG holds a pixel a cell, enlarged where it is shown.
    image = ax.imshow(
        panel.values.numpy(),
        cmap="RdBu" if panel.least else "Blues",
        vmin=panel.least,
        vmax=1,
        aspect="auto",
        interpolation="none",
    )
    ax.set(xticks=[], yticks=[])
    # Labels are texts in cells' units, not ticks: matplotlib lays out each tick several times over.
    # A sentence may have dollar signs, which do not begin a formula.
    plain: dict[str, Any] = {"ha": "right", "fontsize": 8, "parse_math": False}
    rows, columns = ({cell[axis] for cell in panel.framed} for axis in (0, 1))
    for place, column in enumerate(panel.columns):
        colour = FRAME if place in columns else "black"
        y = len(panel.rows) - 0.3
        ax.text(place + 0.2, y, column, rotation=60, va="top", color=colour, **plain)
    for place, row in enumerate(panel.rows if labelled else []):
        colour = FRAME if place in rows else "black"
        ax.text(-0.7, place, row, va="center_baseline", color=colour, **plain)
    ax.set_title(panel.title, fontsize=9, loc="left", parse_math=False)
    for r, c in panel.framed:
        corner = (c - 0.5, r - 0.5)
        ax.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=FRAME, linewidth=2))
    return image
