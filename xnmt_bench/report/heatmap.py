"""One sentence's relevance as a heatmap, in the terminal and as a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from rich.table import Table
from rich.text import Text
from torch import Tensor

from xnmt_bench.explainers.base import Explanation

SHADES = " ░▒▓█"
WIDTH = 5  # characters of a step's column


def scaled(relevance_TX: Tensor) -> Tensor:
    """Each step's relevance divided by its greatest absolute value, so that steps compare.

    Signed scores keep their sign; NaN, a word the step cannot see, stays.
    """
    greatest = torch.nan_to_num(relevance_TX).abs().amax(-1, keepdim=True)
    return relevance_TX / torch.where(greatest > 0, greatest, 1.0)


def terminal_heatmap(name: str, explanation: Explanation) -> Table:
    """One column a step, headed by its label; one row a word, the source's first, shaded."""
    table = Table(
        title=name.replace("_", " "), title_justify="left", box=None, padding=(0, 1, 0, 0)
    )
    table.add_column("", no_wrap=True)
    for label in explanation.labels:
        table.add_column(Text(label[:WIDTH]), justify="center", width=WIDTH)
    table.add_row("P", *(f"{p:.2f}" for p in explanation.probabilities.tolist()), style="dim")
    _rows(table, explanation.source_tokens, explanation.source_TS, "")
    if explanation.prefix_TT is not None:
        table.add_section()
        _rows(table, explanation.target_tokens[:-1], explanation.prefix_TT, "italic")
    return table


def _rows(table: Table, tokens: list[str], relevance_TX: Tensor, style: str) -> None:
    values_TX = scaled(relevance_TX)
    for place, token in enumerate(tokens):
        table.add_row(Text(token, style=style), *(_cell(v) for v in values_TX[:, place].tolist()))


def _cell(value: float) -> Text:
    """Blue for words that help, red for words that hurt; the shade reads without colour too."""
    if value != value:  # NaN: the step cannot see this word
        return Text("·", style="dim")
    shade = SHADES[min(len(SHADES) - 1, round(abs(value) * (len(SHADES) - 1)))]
    return Text(shade * WIDTH, style="blue" if value >= 0 else "red")


def heatmap_figure(explanations: Mapping[str, Explanation]) -> Figure:
    """All explainers under each other: source words left, prefix words right, one row a step."""
    first = next(iter(explanations.values()))
    steps, source = len(first.labels), len(first.source_tokens)
    width, height = 2.5 + 0.42 * (source + steps), 1.1 + 0.3 * steps
    figure, axes = plt.subplots(
        len(explanations),
        2,
        figsize=(width, height * len(explanations) + 0.4),
        squeeze=False,
        width_ratios=[source, max(1, steps - 1)],
    )
    for (left, right), (name, explanation) in zip(axes, explanations.items(), strict=True):
        image = _panel(left, explanation.source_TS, explanation.source_tokens)
        rows = [
            f"{label}  {p:.2f}"
            for label, p in zip(explanation.labels, explanation.probabilities.tolist(), strict=True)
        ]
        left.set_yticks(range(steps), rows, fontsize=8)
        left.set_title(f"{name.replace('_', ' ')}: source", fontsize=9, loc="left")
        right.set_yticks([])
        right.set_title("target prefix", fontsize=9, loc="left")
        if explanation.prefix_TT is None or steps < 2:
            right.axis("off")
        else:
            _panel(right, explanation.prefix_TT[:, :-1], explanation.target_tokens[:-1])
    figure.tight_layout()
    bar = figure.colorbar(image, ax=axes, shrink=0.6, pad=0.02)
    bar.set_label("relevance, each row scaled to its greatest", fontsize=8)
    return figure


def _panel(ax: plt.Axes, relevance: Tensor, tokens: list[str]) -> matplotlib.image.AxesImage:
    values = scaled(relevance).numpy()
    ax.set_facecolor("#EEEEEE")  # where a step cannot see a word
    image = ax.imshow(values, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    ax.set_xticks(range(len(tokens)), tokens, rotation=60, ha="right", fontsize=8)
    return image


def save_heatmap(explanations: Mapping[str, Explanation], stem: Path) -> list[Path]:
    """Writes the figure as SVG and PNG and closes it."""
    figure = heatmap_figure(explanations)
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(ending) for ending in (".svg", ".png")]
    for path in paths:
        figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)
    return paths
