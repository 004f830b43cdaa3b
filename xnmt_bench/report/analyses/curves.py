"""Perplexity against k and against the number of training sentences (Figures 1 and 2)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from omegaconf import DictConfig

from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.bootstrap import interval
from xnmt_bench.metrics.perplexity import resampled
from xnmt_bench.report.analyses.result import Result, style
from xnmt_bench.report.fidelity_table import HEADINGS
from xnmt_bench.report.panels import CONDITION, Panel, told_apart
from xnmt_bench.report.summary import Cell, Line, Row, Summary, digits

COLUMNS = (*CONDITION, "instantiation", "explainer", "ppl", "ppl_low", "ppl_high")
AXES = {
    "k": ("k", "k, words a side in a rule", "k = {}"),
    "train_sentences": ("sentences", "training sentences of the proxy", "{:,} sentences"),
}
SWEEPS = {"k": "1,2,3,4,5", "train_sentences": "500,1000,2000"}
TITLE = "Perplexity against {}"
NOTE = (
    "PPL of the proxies on held-out decisions, with its 95 % bootstrap interval over sentences; "
    "lower is more faithful."
)


def _analyse(column: str, found: Sequence[Panel], settings: DictConfig) -> Result:
    """Perplexity of every panel, those together that differ in nothing but one column.

    Raises:
        NotApplicable: there are no two such panels.
    """
    heading, axis, form = AXES[column]
    rows = [row for panel in found for row in _rows(panel, settings)]
    others = [c for c in CONDITION if c != column]
    groups: dict[tuple[object, ...], list[Panel]] = {}
    for panel in found:
        groups.setdefault(tuple(panel.condition[c] for c in others), []).append(panel)
    groups = {key: group for key, group in groups.items() if len(group) > 1}
    if not groups:
        raise NotApplicable(f"all results have one {column}; sweep {column}={SWEEPS[column]}")
    firsts = [group[0] for group in groups.values()]
    varying, said, texts = told_apart(firsts, but=(heading,))
    values = sorted({p.condition[column] for group in groups.values() for p in group})
    lines, titles = [], []
    for key, text in zip(groups, texts, strict=True):
        mine = [r for r in rows if tuple(r[c] for c in others) == key]
        titles.append(", ".join(text[name] for name in varying))
        for instantiation, name in dict.fromkeys(
            (r["instantiation"], r["explainer"]) for r in mine
        ):
            of = {r[column]: r for r in mine
                  if (r["instantiation"], r["explainer"]) == (instantiation, name)}  # fmt: skip
            head = [*(text[c] for c in varying), name, HEADINGS[instantiation]]
            cells = [_cell(of.get(value)) for value in values]
            lines.append(Line((*key, instantiation), [*map(Cell, head), *cells]))
    heads = [*varying, "explainer", "proxy", *(form.format(value) for value in values)]
    title = ", ".join([TITLE.format(axis), *said])
    figure = _figure(column, list(groups.values()), titles, rows)
    return Result(rows, COLUMNS, Summary(title, heads, lines, [NOTE]), figure)


by_k = partial(_analyse, "k")
by_train_sentences = partial(_analyse, "train_sentences")


def _rows(panel: Panel, settings: DictConfig) -> list[Row]:
    rows: list[Row] = []
    for instantiation, of in panel.scores.items():
        for name in sorted(of):
            ppl = resampled(of[name])
            sentences = len(np.unique(of[name][0].sentence_N))
            low, high = interval(ppl, sentences, settings.samples, settings.seed)
            rows.append(
                {**panel.condition, "instantiation": instantiation, "explainer": name,
                 "ppl": float(ppl(np.ones((1, sentences)))[0]), "ppl_low": low, "ppl_high": high}
            )  # fmt: skip
    return rows


def _cell(row: Row | None) -> Cell:
    if row is None:
        return Cell("")
    return Cell(
        f"{digits(row['ppl'])} [{digits(row['ppl_low'])}, {digits(row['ppl_high'])}]", row["ppl"]
    )


def _figure(
    column: str, groups: Sequence[Sequence[Panel]], titles: Sequence[str], rows: Sequence[Row]
) -> Figure:
    """One panel a system, by the last trained proxy there is, on a logarithmic axis."""
    names = sorted({row["explainer"] for row in rows})
    figure, axes = plt.subplots(1, len(groups), figsize=(1 + 3.4 * len(groups), 3.6),
                                squeeze=False, sharey=True)  # fmt: skip
    for ax, group, title in zip(axes[0], groups, titles, strict=True):
        shown = list(group[0].scores)[-1]
        for name in names:
            points = sorted(
                (r[column], r["ppl"], r["ppl_low"], r["ppl_high"]) for panel in group for r in rows
                if r["explainer"] == name and r["instantiation"] == shown
                and all(r[c] == panel.condition[c] for c in CONDITION)
            )  # fmt: skip
            if points:
                x, y, low, high = np.asarray(points, dtype=float).T
                error = np.maximum(0, [y - low, high - y])
                ax.errorbar(x, y, yerr=error, capsize=2, markersize=5, linewidth=1.2,
                            label=name.replace("_", " "), **style(names, name))  # fmt: skip
        ax.set_title(f"{title} ({HEADINGS[shown]})" if title else HEADINGS[shown], fontsize=10)
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter("{x:g}")
        if column == "k":
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        else:
            ax.set_xscale("log")
        ax.set_xlabel(AXES[column][1])
        ax.grid(which="both", linewidth=0.3, alpha=0.6)
    axes[0, 0].set_ylabel("perplexity, log scale")
    handles, said = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, said, loc="lower center", ncol=min(5, len(names)), frameon=False)
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    return figure
