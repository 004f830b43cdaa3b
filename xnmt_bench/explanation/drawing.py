"""Relevance of a sentence as HTML without other files: the matrix of the debug page, as SVG.

Geometry and colours are those of `report/debug/figure.js`, which draws in a browser; this draws
without one, so that a notebook shows it without a script and without a network.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from xnmt_bench.progress import in_notebook

CELL, GAP, LEFT, TOP = 21, 14, 14, 30  # pixels
SLANT = 60  # degrees of a column's label
LONGEST = 150  # pixels of a label
# A share that is drawn; a smaller one would not be seen.
FAINTEST = 0.005
ILLEGAL = re.compile(r"[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")
LIGHT = "--page:#fff;--ink:#111;--quiet:#555;--line:#ccc;--helps:#0072B2;--hurts:#BF4F00"
DARK = "--page:#181818;--ink:#e8e8e8;--quiet:#aaa;--line:#444;--helps:#56B4E9;--hurts:#E69F00"
# The own theme of a notebook, and of the site, counts before the system's.
STYLE = f"""<style>
.xnmt{{{LIGHT};color:var(--ink);background:var(--page);padding:.4rem;overflow-x:auto}}
@media (prefers-color-scheme:dark){{.xnmt{{{DARK}}}}}
[data-jp-theme-light=true] .xnmt,[data-md-color-scheme=default] .xnmt{{{LIGHT}}}
[data-jp-theme-light=false] .xnmt,[data-md-color-scheme=slate] .xnmt{{{DARK}}}
.xnmt svg{{display:inline-block;vertical-align:top;margin:0 .8rem .6rem 0;max-width:none;\
font:13px system-ui,sans-serif}}
.xnmt p{{margin:.2rem 0;font:12px system-ui,sans-serif;color:var(--quiet)}}
.xnmt span{{display:inline-block;margin-right:.6em}}
.xnmt i{{display:inline-block;width:1em;height:1em;margin-right:.3em;vertical-align:-.15em;\
border:1px solid var(--line)}}
</style>"""

HEAD = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Explanations</title>
<meta name="viewport" content="width=device-width">
<style>:root{color-scheme:light dark}</style>"""
# A file of its own has the system's theme.
SVG_STYLE = f"""<style>
svg{{{LIGHT};background:var(--page);font:13px system-ui,sans-serif}}
@media (prefers-color-scheme:dark){{svg{{{DARK}}}}}
</style>"""


@dataclass(frozen=True)
class Panel:
    """A matrix to be drawn: a row for each step, a column for each word that steps see.

    Attributes:
        title: above it.
        rows: T labels of steps, from top to bottom.
        columns: X words, the source's first.
        sources: how many of them are of the source.
        weights_TX: their relevance; NaN where a step cannot see a word.
        probabilities: of the steps, NaN for an unknown one; empty where none are shown.
    """

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    sources: int
    weights_TX: np.ndarray
    probabilities: Sequence[float] = ()


def draw(panels: Iterable[Panel]) -> str:
    """Return panels beside each other as HTML; shades are of each step's greatest number."""
    panels = list(panels)
    signed = any(bool((panel.weights_TX < 0).any()) for panel in panels)
    # Swatches and no names, since a dark page has other colours.
    fields = [_legend("helps", "helps")]
    fields += [_legend("hurts", "hurts, with a dash")] if signed else []
    fields.append(_legend("line", "not seen by the step", 45))
    note = f"As strong as a word's share of the step's greatest number: {' '.join(fields)}"
    figures = "".join(map(draw_panel, panels))
    return f'{STYLE}<div class="xnmt">{figures}<p>{note}</p></div>'


def _legend(colour: str, meaning: str, share: int = 100) -> str:
    """Return a field in a colour of the page, or a share of it in per cent, and what it means."""
    mixed = f"color-mix(in srgb,var(--{colour}) {share}%,transparent)"
    return f'<span><i style="background:{mixed}"></i>{meaning}</span>'


def page(panels: Iterable[Panel]) -> str:
    """Return panels as a whole HTML page."""
    return f"{HEAD}\n{draw(panels)}\n</html>\n"


def picture(panel: Panel) -> str:
    """Return a panel as an SVG file, in the colours of the reader's theme."""
    opening, _, content = draw_panel(panel).partition(">")
    return f"{opening}>{SVG_STYLE}{content}\n"


def show(shown: Any) -> None:
    """Show a thing's picture in a notebook; elsewhere print its text."""
    if not in_notebook():
        print(shown)
        return
    from IPython.display import display  # type: ignore[import-not-found]

    display(shown)


def draw_panel(panel: Panel) -> str:
    """Return a panel as an `svg` element, in the colours of `LIGHT` or `DARK`."""
    rows, columns = (list(map(_shortened, labels)) for labels in (panel.rows, panel.columns))
    first_x = LEFT + max(map(_width, rows), default=0)
    top = TOP + max((0.87 * _width(column) for column in columns), default=0)

    def x(c: int) -> float:
        return first_x + CELL * c + (GAP if c >= panel.sources else 0)

    slanted = [x(c) + 22 + 0.55 * _width(column) for c, column in enumerate(columns)]
    width = max(x(len(columns)) + 8, 1.15 * _width(panel.title) + 8, *slanted, 0)
    bottom = top + CELL * len(rows)
    parts = [_text(2, 13, panel.title, 'fill="var(--helps)" font-weight="600"')]
    turned = 'transform="translate({:.1f} {:.1f}) rotate(-{})"'
    for c, column in enumerate(columns):
        label = turned.format(x(c) + LEFT, top - 6, SLANT)
        parts.append(f'<text {label} fill="var(--ink)">{_safe(column)}</text>')
    for r, row in enumerate(rows):
        y = top + CELL * r
        parts.append(_text(first_x - 6, y + 15, row, 'text-anchor="end" fill="var(--ink)"'))
        scores_X = panel.weights_TX[r]
        greatest = np.nanmax(np.abs(scores_X)) if not np.isnan(scores_X).all() else 0.0
        for c, score in enumerate(scores_X.tolist()):
            named = f"{panel.rows[r]} ← {panel.columns[c]}: {score:.3g}"
            parts.append(_cell(x(c), y, score, greatest, named))
    for start, stop in ((0, panel.sources), (panel.sources, len(columns))):
        if stop > start:
            size = f'width="{CELL * (stop - start)}" height="{bottom - top:.1f}"'
            frame = f'{size} fill="none" stroke="var(--line)"'
            parts.append(f'<rect x="{x(start):.1f}" y="{top:.1f}" {frame}/>')
    sizes = f'width="{math.ceil(width)}" height="{math.ceil(bottom + 6)}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {sizes}>{"".join(parts)}</svg>'


def _cell(x: float, y: float, score: float, greatest: float, named: str) -> str:
    if math.isnan(score):
        size = f'x="{x:.1f}" y="{y:.1f}" width="{CELL}" height="{CELL}"'
        return f'<rect {size} fill="var(--line)" opacity="0.45"/>'
    share = abs(score) / greatest if greatest else 0.0
    if share < FAINTEST:
        return ""
    size = f'x="{x + 0.5:.1f}" y="{y + 0.5:.1f}" width="{CELL - 1}" height="{CELL - 1}"'
    colour = "var(--helps)" if score > 0 else "var(--hurts)"
    shade = f'fill="{colour}" fill-opacity="{0.08 + 0.92 * share:.3f}"'
    # What hurts has a dash too, for those who do not tell the colours apart.
    dash = "" if score > 0 else f'<path d="M{x + 6:.1f} {y + 10.5:.1f}h9" stroke="var(--ink)"/>'
    return f"<rect {size} {shade}><title>{_safe(named)}</title></rect>{dash}"


def _text(x: float, y: float, text: str, attributes: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{_safe(text)}</text>'


def _safe(text: str) -> str:
    """Return text for HTML and XML, without characters that neither may hold."""
    return escape(ILLEGAL.sub("\ufffd", text))


def _width(text: str) -> float:
    """Return about how many pixels a text takes in a font that is not known here."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return 7.6 * (len(text) - wide) + 13.5 * wide


def _shortened(text: str) -> str:
    if _width(text) <= LONGEST:
        return text
    while _width(text + "…") > LONGEST:
        text = text[:-1]
    return text + "…"
