"""Perplexity against k, training sentences or scenario (Li et al. 2020, Figures 1, 2, Table 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from omegaconf import DictConfig

from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.bootstrap import interval
from xnmt_bench.metrics.perplexity import resampled
from xnmt_bench.report.analyses.result import Result, style
from xnmt_bench.report.fidelity import scenario_text
from xnmt_bench.report.fidelity_table import HEADINGS
from xnmt_bench.report.figure import legend_below, log_scale
from xnmt_bench.report.panels import CONDITION, Panel, named, told_apart
from xnmt_bench.report.summary import Cell, Line, Row, Summary, digits

IDENTITY = (*CONDITION, "instantiation", "explainer")
MEASURED = ("ppl", "ppl_low", "ppl_high")


@dataclass(frozen=True)
class Axis:
    """What perplexity is laid against.

    Attributes:
        columns: of a panel's condition, which make up the axis.
        heading: of panels, which is the axis itself here.
        label: of the figure's axis.
        form: how a value is said in a table's heading.
        sweep: what a user has to sweep.
        value: of a panel's condition.
        log: whether the figure's axis is logarithmic.
    """

    columns: tuple[str, ...]
    heading: str
    label: str
    form: str
    sweep: str
    value: Callable[[dict[str, Any]], Any]
    log: bool = False


K = Axis(("k",), "k", "k, words a side in a rule", "k = {}", "k=1,2,3,4,5", itemgetter("k"))
TRAIN_SENTENCES = Axis(
    ("train_sentences",),
    "sentences",
    "training sentences of the proxy",
    "{:,} sentences",
    "train_sentences=500,1000,2000",
    itemgetter("train_sentences"),
    log=True,
)
SCENARIO = Axis(
    ("scenario", "learned_from"),
    "scenario",
    "scenario of the test",
    "{}",
    "scenario=teacher_forcing,real,golden",
    scenario_text,
)
TITLE = "Perplexity against {}"
NOTE = (
    "PPL of the proxies on held-out decisions, with its 95 % bootstrap interval over sentences; "
    "lower is more faithful."
)


def _analyse(axis: Axis, found: Sequence[Panel], settings: DictConfig) -> Result:
    """Perplexity of every panel, those together that differ in nothing but the axis.

    Raises:
        NotApplicable: there are no two such panels.
    """
    rows = [row for panel in found for row in _rows(panel, settings)]
    others = [c for c in CONDITION if c not in axis.columns]
    groups: dict[tuple[object, ...], list[Panel]] = {}
    for panel in found:
        groups.setdefault(tuple(panel.condition[c] for c in others), []).append(panel)
    groups = {key: group for key, group in groups.items() if len(group) > 1}
    if not groups:
        raise NotApplicable(f"there is one {axis.heading} alone; sweep {axis.sweep}")
    firsts = [group[0] for group in groups.values()]
    varying, said, texts = told_apart(firsts, but=(axis.heading,))
    values = sorted({axis.value(p.condition) for group in groups.values() for p in group})
    lines, titles = [], []
    for key, text in zip(groups, texts, strict=True):
        mine = [r for r in rows if tuple(r[c] for c in others) == key]
        titles.append(named(text, varying))
        for instantiation, name in dict.fromkeys(
            (r["instantiation"], r["explainer"]) for r in mine
        ):
            of = {axis.value(r): r for r in mine
                  if (r["instantiation"], r["explainer"]) == (instantiation, name)}  # fmt: skip
            head = [*(text[c] for c in varying), name, HEADINGS[instantiation]]
            cells = [_cell(of.get(value)) for value in values]
            lines.append(Line((*key, instantiation), [*map(Cell, head), *cells]))
    heads = [*varying, "explainer", "proxy", *(axis.form.format(value) for value in values)]
    title = ", ".join([TITLE.format(axis.label), *said])
    figure = _figure(axis, list(groups.values()), titles, rows)
    return Result(rows, IDENTITY, MEASURED, Summary(title, heads, lines, [NOTE]), figure)


by_k = partial(_analyse, K)
by_train_sentences = partial(_analyse, TRAIN_SENTENCES)
by_scenario = partial(_analyse, SCENARIO)


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
    axis: Axis, groups: Sequence[Sequence[Panel]], titles: Sequence[str], rows: Sequence[Row]
) -> Figure:
    """One panel a system, by the last trained proxy there is, on a logarithmic axis."""
    names = sorted({row["explainer"] for row in rows})
    values = sorted({axis.value(panel.condition) for group in groups for panel in group})
    figure, axes = plt.subplots(1, len(groups), figsize=(1 + 3.4 * len(groups), 3.6),
                                squeeze=False, sharey=True)  # fmt: skip
    for ax, group, title in zip(axes[0], groups, titles, strict=True):
        shown = list(group[0].scores)[-1]
        conditions = [{**panel.condition, "instantiation": shown} for panel in group]
        mine = [row for row in rows if any(c.items() <= row.items() for c in conditions)]
        for name in names:
            _line(ax, axis, values, [row for row in mine if row["explainer"] == name],
                  label=name.replace("_", " "), **style(names, name))  # fmt: skip
        ax.set_title(f"{title} ({HEADINGS[shown]})" if title else HEADINGS[shown], fontsize=10)
        log_scale(ax, "y")
        _ticks(ax, axis, values)
        ax.set_xlabel(axis.label)
        ax.grid(which="both", linewidth=0.3, alpha=0.6)
    axes[0, 0].set_ylabel("perplexity, log scale")
    legend_below(figure, axes[0])
    return figure


def _line(
    ax: plt.Axes, axis: Axis, values: Sequence[Any], rows: Sequence[Row], **drawn: Any
) -> None:
    """One explainer's perplexities; scenarios have no order, so no line joins them."""
    named = isinstance(values[0], str)
    places = {value: n if named else value for n, value in enumerate(values)}
    points = sorted(
        (places[axis.value(row)], *(row[f"ppl{end}"] for end in ("", "_low", "_high")))
        for row in rows
    )
    if points:
        x, y, low, high = np.asarray(points, dtype=float).T
        ax.errorbar(x, y, yerr=np.maximum(0, [y - low, high - y]), capsize=2, markersize=5,
                    linewidth=1.2, linestyle="none" if named else "-", **drawn)  # fmt: skip


def _ticks(ax: plt.Axes, axis: Axis, values: Sequence[Any]) -> None:
    if isinstance(values[0], str):
        names = [value.replace(", ", ",\n") for value in values]
        ax.set_xticks(range(len(values)), names)
        ax.set_xlim(-0.5, len(values) - 0.5)
        return
    if axis.log:
        ax.set_xscale("log")
        ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticks(values, [f"{value:,}" for value in values])
