"""Heatmaps of weights over a context sentence, mentions marked (Dinarelli et al., Figures 1-8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from typing import TYPE_CHECKING

from xnmt_bench.metrics.metric import Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARK = "#D55E00"  # of a link; tells from blues also for those who see fewer colours
STYLE = """
#coref_heatmaps th { border: 0; font-weight: 400; text-align: right; padding: 0 .5rem }
#coref_heatmaps thead th { writing-mode: vertical-rl; transform: rotate(180deg); text-align: left }
#coref_heatmaps td { width: 1.7rem; height: 1.7rem; border: 1px solid #eee; padding: 0 }
#coref_heatmaps th.mention { color: #A84300; font-weight: 700 }
#coref_heatmaps td.link { outline: 3px solid #D55E00; outline-offset: -3px }
"""
NOTE = (
    "Rows: the current sentence. Columns: a sentence before it. Mentions of one chain are orange, "
    "their links framed. Weights at or below that of a uniform distribution are blank; the "
    "greatest is 1. A cell's weight shows under the pointer."
)


@dataclass(frozen=True)
class Example:
    """The significant weights of one sentence over one context sentence.

    Attributes:
        title: explainer, side and distance.
        current: I words.
        context: N words.
        weights: I rows of N weights.
        links: for each coreference link, the words of the mention and of its antecedent.
    """

    title: str
    current: list[str]
    context: list[str]
    weights: list[list[float]]
    links: list[tuple[list[int], list[int]]]


def _linked(example: Example) -> set[tuple[int, int]]:
    """The cells of links, each word of a mention with each of its antecedent."""
    return {cell for pair in example.links for cell in product(*pair)}


def heatmap_figure(example: Example) -> Figure:
    """One heatmap for a paper: rows are the current sentence's words; links are framed."""
    import matplotlib.pyplot as plt  # heavy, and only a report draws
    from matplotlib.patches import Rectangle

    rows, columns = len(example.current), len(example.context)
    figure, ax = plt.subplots(figsize=(2.2 + 0.32 * columns, 1.6 + 0.27 * rows))
    image = ax.imshow(example.weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    ax.set_xticks(range(columns), example.context, rotation=60, ha="right", fontsize=8)
    ax.set_yticks(range(rows), example.current, fontsize=8)
    ax.set(xlabel="context sentence", ylabel="current sentence")
    ax.set_title(example.title, fontsize=9, loc="left")
    for i, n in sorted(_linked(example)):
        ax.get_yticklabels()[i].set_color(MARK)
        ax.get_xticklabels()[n].set_color(MARK)
        frame = Rectangle((n - 0.5, i - 0.5), 1, 1, fill=False, edgecolor=MARK, linewidth=2)
        ax.add_patch(frame)
    scale = figure.colorbar(image, ax=ax, shrink=0.8)
    scale.set_label("significant weight, greatest = 1", fontsize=8)
    figure.tight_layout()
    return figure


def page_section(examples: Sequence[Example]) -> Section:
    """All examples, for the page."""
    body = "\n".join(map(_html, examples))
    html = f"<style>{STYLE}</style>\n<p class=notes>{NOTE}</p>\n{body}"
    return Section("coref_heatmaps", "Where do mentions look in the context?", html)


def _html(example: Example) -> str:
    linked = _linked(example)
    rows, columns = {i for i, _ in linked}, {n for _, n in linked}

    def th(word: str, mention: bool) -> str:
        return f"<th{' class=mention' if mention else ''}>{escape(word)}</th>"

    def td(weight: float, link: bool) -> str:
        colour = f"background: rgb(8 81 156 / {weight:.2f})" if weight else ""
        return f'<td{" class=link" if link else ""} style="{colour}" title="{weight:.2f}"></td>'

    head = "".join(th(word, n in columns) for n, word in enumerate(example.context))
    lines = []
    for i, (word, weights) in enumerate(zip(example.current, example.weights, strict=True)):
        cells = "".join(td(weight, (i, n) in linked) for n, weight in enumerate(weights))
        lines.append(f"<tr>{th(word, i in rows)}{cells}</tr>")
    table = f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<h3>{escape(example.title)}</h3><div class="scroll">{table}</div>'
