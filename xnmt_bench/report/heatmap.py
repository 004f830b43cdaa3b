"""One sentence's relevance as a heatmap, in the terminal and as a figure; long sentences fold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, TypeAlias

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from rich.cells import cell_len
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text
from torch import Tensor

from xnmt_bench.explainers.base import Explanation
from xnmt_bench.measuring.listing import Matrix
from xnmt_bench.report.figure import LARGEST, shorten
from xnmt_bench.words import Weighed

SHADES = " ░▒▓█"
TERMINAL = 80  # characters, beyond which a matrix folds
WIDTH = 5  # characters of a step's column at least
HELPS, HURTS, HURT = "blue", "red", "−"  # styles of the signs; what negative shades begin with
FRAME = "#D55E00"  # tells from blues also for those who see fewer colours
FOLD = 60  # words or steps of a figure's panel
MOST_WORDS = 2 * FOLD  # words or steps of a figure
CELL, LINE = (0.3, 0.22), 0.09  # inches: a word's cell, wide and high; a letter of a label


def scaled(relevance_TX: Tensor) -> Tensor:
    """Return each step's relevance divided by its greatest absolute value, so that steps compare.

    Signed scores keep their sign; NaN, a word the step cannot see, stays.
    """
    greatest = torch.nan_to_num(relevance_TX).abs().amax(-1, keepdim=True)
    return relevance_TX / torch.where(greatest > 0, greatest, 1.0)


def terminal_heatmaps(
    name: str, explanation: Explanation, width: int, scale: bool = True
) -> Iterator[Group]:
    """Yield one column a step, headed by its label; one row a word, the source's first, shaded.

    As many steps go under each title as fit into `width`, the characters of the terminal; a word
    that is longer than half of it goes on in the next line. Shades are of the step's greatest
    number or, without `scale`, of 1. Probabilities that are NaN are left out.
    """
    words = list(map(_seen, (*explanation.source_tokens, *explanation.target_tokens)))
    longest = min(max(map(cell_len, words)), width // 2)
    room = width - longest - 1
    for start, stop in _folds(list(map(_seen, explanation.labels)), room):
        part = _steps(explanation, start, stop)
        title = name.replace("_", " ") + f", from step {start + 1}" * (start > 0)
        # A table's own title would wrap to its width, which is small where few steps are left.
        yield Group(Text(title, style="table.title"), _terminal_heatmap(part, longest, room, scale))


def legend(explanations: Iterable[Explanation]) -> Text:
    """Return what the shades mean, with the colours and the sign where something hurts."""
    weights = (w for e in explanations for w in (e.source_TS, e.prefix_TT) if w is not None)
    signed = any(bool((w < 0).any()) for w in weights)
    words = Text(f"{SHADES.strip()}: from little to the step's greatest; ")
    if signed:
        words.append("blue: the word helps, ", HELPS)
        words.append(f"red and {HURT}: it hurts; ", HURTS)
    return words.append("×: the step cannot see it")


def _folds(labels: Sequence[str], room: int) -> Iterator[tuple[int, int]]:
    """Yield the first step and the one behind the last of as many columns as there is room for."""
    start, used = 0, 0
    for step, label in enumerate(labels):
        width = _column_width(label, room) + 1
        if step > start and used + width > room:
            yield start, step
            start, used = step, 0
        used += width
    yield start, len(labels)


def _column_width(label: str, room: int) -> int:
    """Return the characters of a step's column: its label's, if there is room."""
    return min(max(cell_len(label), WIDTH), max(WIDTH, room - 1))


def as_explanation(sentence: Weighed) -> Explanation:
    """Return a sentence with its weights as an explanation; unknown probabilities are NaN."""
    log_p, target = sentence.log_probability_T, list(sentence.target.pieces)
    unknown = torch.full((len(target),), torch.nan)
    probabilities = unknown if log_p is None else torch.from_numpy(log_p).exp()
    weights_TS = torch.from_numpy(sentence.weights_TS)
    return Explanation(
        list(sentence.source.pieces), target, target, probabilities, weights_TS, None
    )


def print_weighed(caption: str, sentence: Weighed) -> None:
    """Print the weights of a sentence: source left, target above, shaded by their share."""
    console = Console()
    console.print(caption, markup=False, highlight=False)
    explanation = as_explanation(sentence)
    for table in terminal_heatmaps(
        "weights", explanation, min(console.width, TERMINAL), scale=False
    ):
        console.print(table, "")


def _terminal_heatmap(explanation: Explanation, longest: int, room: int, scale: bool) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("", width=longest, overflow="fold")
    for label in map(_seen, explanation.labels):
        width = _column_width(label, room)
        table.add_column(Text(label), justify="center", width=width, overflow="fold")
    if not explanation.probabilities.isnan().all():
        table.add_row("P", *(f"{p:.2f}" for p in explanation.probabilities.tolist()), style="dim")
    sides = [("", explanation.source_tokens, explanation.source_TS)]
    if explanation.prefix_TT is not None:  # no step sees the last target word
        sides.append(("italic", explanation.target_tokens[:-1], explanation.prefix_TT))
    for style, tokens, relevance_TX in sides:
        values_XT = (scaled(relevance_TX) if scale else relevance_TX).T.tolist()
        for token, values_T in zip(map(_seen, tokens), values_XT, strict=False):
            table.add_row(Text(token, style=style), *map(_cell, values_T))
        table.add_section()
    return table


def _seen(token: str) -> str:
    """Return a piece as shown; a blank that is a piece of its own would look like an empty cell."""
    return "␣" if token in ("▁", " ", "") else token


def _steps(explanation: Explanation, start: int, stop: int) -> Explanation:
    prefix_TT = explanation.prefix_TT
    return replace(
        explanation,
        labels=explanation.labels[start:stop],
        probabilities=explanation.probabilities[start:stop],
        source_TS=explanation.source_TS[start:stop],
        prefix_TT=None if prefix_TT is None else prefix_TT[start:stop],
    )


def _cell(value: float) -> Text:
    """Colour words that help blue and words that hurt red, which have a sign too."""
    if value != value:  # NaN: the step cannot see this word
        return Text("×", style="dim")
    shade = SHADES[round(abs(value) * (len(SHADES) - 1))]
    if value >= 0 or shade == " ":
        return Text(shade * WIDTH, style=HELPS)
    return Text(HURT + shade * (WIDTH - 1), style=HURTS)


@dataclass(frozen=True)
class _Panel:
    """A part of one explainer's matrix that fits: its rows' and columns' labels and its values."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Tensor
    framed: Sequence[tuple[int, int]] = ()
    least: int = -1  # of the scale; 0 where nothing hurts


_Pair: TypeAlias = tuple[_Panel | None, _Panel | None]  # source words, and prefix words beside them
SCALED = "relevance, each step scaled"  # what the colours of an explanation mean


def heatmap_figures(explanations: Mapping[str, Explanation]) -> Iterator[Figure]:
    """Draw explainers under each other, in as many figures as it takes.

    Source words stand left, prefix words right, and each step has a row. Of a longer sentence the
    first `MOST_WORDS` words and steps are drawn, which the titles say.
    """
    part: list[_Pair] = []
    for name, explanation in explanations.items():
        pairs = list(_pairs(name, explanation))
        if part and sum(map(_height, [*part, *pairs])) > LARGEST:
            yield _figure(part, SCALED)
            part = []
        part += pairs
    yield _figure(part, SCALED)


def matrix_figure(title: str, matrix: Matrix) -> Figure:
    """Return a figure of weights, with framed cells; of more words the first `MOST_WORDS`."""
    rows, columns = (list(map(_label, side.pieces)) for side in (matrix.rows, matrix.columns))
    weights = torch.from_numpy(matrix.weights_RC)[:MOST_WORDS, :MOST_WORDS]
    title += _cut(len(rows), "rows") + _cut(len(columns), "columns")
    framed = [cell for cell in matrix.framed if max(cell) < MOST_WORDS]
    panel = _Panel(title, rows[:MOST_WORDS], columns[:MOST_WORDS], weights, framed, 0)
    return _figure([(panel, None)], "weight")


def _cut(number: int, kind: str) -> str:
    """Return the words with which a title names what is left out."""
    return f", the first {MOST_WORDS} of {number:,} {kind}" if number > MOST_WORDS else ""


def _label(token: str) -> str:
    """Return a piece as a figure has it: a long one without its middle."""
    return shorten(_seen(token))


def _below(pair: _Pair) -> float:
    """Return the inches that a pair's slanted labels and its title take."""
    labels = (column for panel in pair if panel for column in panel.columns)
    return 0.5 + LINE * max(map(cell_len, labels))


def _height(pair: _Pair) -> float:
    """Return the inches of a pair of panels."""
    return _below(pair) + CELL[1] * max(len(panel.rows) for panel in pair if panel)


def _figure(pairs: Sequence[_Pair], scale: str) -> Figure:
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


def _pairs(name: str, explanation: Explanation) -> Iterator[_Pair]:
    """Yield source and prefix parts side by side, at most `FOLD` words or steps of each."""
    decisions = zip(explanation.labels, explanation.probabilities.tolist(), strict=True)
    # An unknown probability is NaN.
    labels = [_label(label) + f"  {p:.2f}" * (p == p) for label, p in decisions]
    heading = shorten(name.replace("_", " ")) + _cut(len(labels), "steps")
    sides = [(f"{heading}: source", explanation.source_tokens, explanation.source_TS)]
    if explanation.prefix_TT is not None and len(labels) > 1:  # otherwise there is only EOS
        prefix = (explanation.target_tokens[:-1], explanation.prefix_TT[:, :-1])
        sides.append(("target prefix", *prefix))
    for steps in _slices(len(labels)):
        folded = [
            [
                _Panel(
                    title + _cut(len(tokens), "words"),
                    labels[steps],
                    list(map(_label, tokens[words])),
                    part,
                )
                for words in _slices(len(tokens))
                if not (part := scaled(relevance_TX)[steps, words]).isnan().all()
            ]
            for title, tokens, relevance_TX in sides
        ]
        yield from zip_longest(folded[0], folded[1] if len(folded) > 1 else [])


def _slices(number: int) -> Iterator[slice]:
    """Yield where the panels of so many words or steps begin and end."""
    yield from (slice(n, n + FOLD) for n in range(0, min(number, MOST_WORDS), FOLD))


def _draw(ax: plt.Axes, panel: _Panel, labelled: bool) -> AxesImage:
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
