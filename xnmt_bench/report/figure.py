"""Figures that can go into a paper as they are: SVG and PNG, colour-blind-safe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from xnmt_bench.report.fidelity import unusual
from xnmt_bench.report.fidelity_table import HEADINGS, REFERENCES, SHOWN, best
from xnmt_bench.report.summary import GENERATED, Row

# Okabe and Ito's palette, told apart also by those who see fewer colours; so are the markers.
COLOURS = {"base": "#999999", "fn": "#E69F00", "rn": "#56B4E9", "sa": "#0072B2"}
MARKERS = {"base": "s", "fn": "^", "rn": "D", "sa": "o"}


def proxy_style(instantiation: str) -> dict[str, Any]:
    """Colour and marker of an instantiation; black for what is made of several."""
    colour, marker = COLOURS.get(instantiation, "#000000"), MARKERS.get(instantiation, "x")
    return {"color": colour, "marker": marker}


def fidelity_figure(rows: Sequence[Row]) -> Figure:
    """Perplexity of each explainer with its interval, one panel a system and k, log axis."""
    shown = [r for r in rows if r["instantiation"] in COLOURS and r["ppl"] != ""]
    columns = ("corpus", "lang_pair", "nmt", "model", "scenario", "learned_from", "k",
               "train_sentences")  # fmt: skip
    panels = sorted({tuple(r[c] for c in columns) for r in shown})
    sizes = {r["train_sentences"] for r in shown}
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(7.5, 1.2 + 2.6 * len(panels)), squeeze=False, sharex=True
    )
    for ax, panel in zip(axes[:, 0], panels, strict=True):
        inside = [r for r in shown if tuple(r[c] for c in columns) == panel]
        references = [
            r
            for r in rows
            if r["instantiation"] in REFERENCES
            and r["ppl"] != ""
            and tuple(r[c] for c in columns[:5]) == panel[:5]
            and r["learned_from"] in ("", panel[5])
            and r["train_sentences"] in ("", panel[7])
        ]
        _panel(ax, inside, references)
        note = f" ({GENERATED.rstrip('.').lower()})" if panel[0] == "toy" else ""
        row = dict(zip(columns, panel, strict=True))
        where = f", {scenario}" if (scenario := unusual(row)) else ""
        where += f", {row['train_sentences']:,} sentences" if len(sizes) > 1 else ""
        ax.set_title(f"{panel[0]} {panel[1]}, {panel[2]}, k = {row['k']}{where}{note}", fontsize=10)
    axes[-1, 0].set_xlabel("perplexity of the proxy, log scale (further left: more faithful)")
    legend_below(figure, axes[:, 0])
    return figure


def _panel(ax: plt.Axes, rows: Sequence[Row], references: Sequence[Row]) -> None:
    groups = {r["explainer"]: [q for q in rows if q["explainer"] == r["explainer"]] for r in rows}
    names = sorted(groups, key=lambda name: best(groups[name]), reverse=True)
    kinds = [i for i in SHOWN if i in COLOURS]
    for row in rows:
        kind = row["instantiation"]
        y = names.index(row["explainer"]) + 0.18 * (1.5 - kinds.index(kind))
        # A skewed bootstrap may leave the number itself a hair outside its interval.
        error = [
            [max(0.0, row["ppl"] - row["ppl_low"])],
            [max(0.0, row["ppl_high"] - row["ppl"])],
        ]
        ax.errorbar(
            row["ppl"],
            y,
            xerr=error,
            fmt=MARKERS[kind],
            color=COLOURS[kind],
            capsize=2,
            markersize=5,
            label=HEADINGS[kind],
        )
    styles = {"unigram": ":", "nmt": "--"}
    words = {"unigram": "unigram", "nmt": "NMT itself"}
    for row in references:
        kind = row["instantiation"]
        style, label = styles[kind], words[kind]
        ax.axvline(row["ppl"], color="black", linewidth=0.9, linestyle=style, label=label)
    log_scale(ax, "x")
    ax.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.grid(axis="x", which="both", linewidth=0.3, alpha=0.6)


def legend_below(figure: Figure, axes: Iterable[plt.Axes]) -> None:
    """Lays a figure out over one legend of what is drawn in any of its axes, in lines that fit."""
    drawn: dict[str, Any] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        drawn |= dict(zip(map(str, labels), handles, strict=True))
    entry = 0.45 + 0.075 * max(map(len, drawn), default=0)  # inches
    columns = max(1, min(len(drawn), int(figure.get_figwidth() / entry)))
    figure.legend(
        list(drawn.values()), list(drawn), loc="lower center", ncol=columns, frameon=False
    )
    rows = -(-len(drawn) // columns)
    figure.tight_layout(rect=(0, (0.15 + 0.22 * rows) / figure.get_figheight(), 1, 1))


def log_scale(ax: plt.Axes, which: Literal["x", "y"]) -> None:
    """Perplexities on a logarithmic axis with enough numbers to read values from."""
    ax.set(**{f"{which}scale": "log"})
    axis: Axis = getattr(ax, f"{which}axis")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:,g}")
    axis.set_minor_locator(NullLocator())


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Writes a figure as SVG and PNG and closes it."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(ending) for ending in (".svg", ".png")]
    for path in paths:
        figure.savefig(path, dpi=160)
    plt.close(figure)
    return paths
