"""Heatmaps of attention to a context sentence, mentions marked (Dinarelli et al., Figures 1-8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from xnmt_bench.report.figure import save_figure
from xnmt_bench.store import write_atomically

MARK = "#D55E00"  # of a link; tells from blues also for those who see fewer colours


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


def heatmap_figure(example: Example) -> Figure:
    """One heatmap: rows are the current sentence's words; links are framed."""
    rows, columns = len(example.current), len(example.context)
    figure, ax = plt.subplots(figsize=(2.2 + 0.32 * columns, 1.6 + 0.27 * rows))
    image = ax.imshow(example.weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    ax.set_xticks(range(columns), example.context, rotation=60, ha="right", fontsize=8)
    ax.set_yticks(range(rows), example.current, fontsize=8)
    ax.set_xlabel("context sentence")
    ax.set_ylabel("current sentence")
    ax.set_title(example.title, fontsize=9, loc="left")
    for mention, antecedent in example.links:
        for i in mention:
            ax.get_yticklabels()[i].set_color(MARK)
            for n in antecedent:
                frame = Rectangle((n - 0.5, i - 0.5), 1, 1, fill=False, edgecolor=MARK, linewidth=2)
                ax.add_patch(frame)
        for n in antecedent:
            ax.get_xticklabels()[n].set_color(MARK)
    figure.colorbar(image, ax=ax, shrink=0.8).set_label(
        "significant weight, greatest = 1", fontsize=8
    )
    figure.tight_layout()
    return figure


def save_heatmaps(examples: Sequence[tuple[str, Example]], folder: Path) -> list[Path]:
    """Writes each named example as SVG and PNG."""
    return [p for name, e in examples for p in save_figure(heatmap_figure(e), folder / name)]


STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
table { border-collapse: collapse; margin: 0.5rem 0 2.5rem }
th { font-weight: 400; text-align: right; padding: 0 0.5rem }
thead th { writing-mode: vertical-rl; transform: rotate(180deg); text-align: left }
thead th { padding: 0.4rem 0 }
td { width: 1.7rem; height: 1.7rem; border: 1px solid #eee }
.mention { color: #A84300; font-weight: 700 }
.link { outline: 3px solid #D55E00; outline-offset: -3px }
.scroll { overflow-x: auto }
"""


def html_page(examples: Sequence[Example]) -> str:
    """All examples on one self-contained page; a cell's weight shows under the pointer."""
    body = "\n".join(_html(example) for example in examples)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>Attention over coreference links</title><style>{STYLE}</style></head><body>\n"
        "<h1>Attention over coreference links</h1>\n"
        "<p>Rows: the current sentence. Columns: a sentence before it. Mentions of one chain are "
        "orange, their links framed. Weights at or below that of a uniform distribution are blank; "
        "the greatest is 1.</p>\n"
        f"{body}\n</body></html>\n"
    )


def _html(example: Example) -> str:
    marked = {(i, n) for mention, ante in example.links for i in mention for n in ante}
    rows = {i for i, _ in marked}
    columns = {n for _, n in marked}
    head = "".join(_th(w, n in columns) for n, w in enumerate(example.context))
    lines = []
    for i, (word, weights) in enumerate(zip(example.current, example.weights, strict=True)):
        cells = "".join(_td(w, (i, n) in marked) for n, w in enumerate(weights))
        lines.append(f"<tr>{_th(word, i in rows)}{cells}</tr>")
    table = f"<table><thead><tr><th></th>{head}</tr></thead>{''.join(lines)}</table>"
    return f'<h2>{escape(example.title)}</h2><div class="scroll">{table}</div>'


def _th(word: str, mention: bool) -> str:
    return f"<th{' class=mention' if mention else ''}>{escape(word)}</th>"


def _td(weight: float, link: bool) -> str:
    colour = f"background: rgb(8 81 156 / {weight:.2f})" if weight else ""
    return f'<td{" class=link" if link else ""} style="{colour}" title="{weight:.2f}"></td>'


def save_page(examples: Sequence[Example], path: Path) -> None:
    """Writes the page."""
    write_atomically(path, html_page(examples))
