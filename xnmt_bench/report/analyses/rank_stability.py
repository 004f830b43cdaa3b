"""Rank stability as a table (Li et al. 2020, Table 3)."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, PercentFormatter
from omegaconf import DictConfig

from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.stability import ordered, rank_stability
from xnmt_bench.report.analyses.result import Result
from xnmt_bench.report.fidelity_table import HEADINGS
from xnmt_bench.report.figure import legend_below, proxy_style
from xnmt_bench.report.panels import CONDITION, Panel, named, told_apart
from xnmt_bench.report.summary import Cell, Line, Row, Summary

IDENTITY, MEASURED = (*CONDITION, "instantiation", "share"), ("rate", "order")
NOTE = (
    "Rate at which {samples:,} samples of test sentences, drawn with replacement, order the "
    "explainers as the whole test set does; the share says how many sentences a sample has."
)


def analyse(found: Sequence[Panel], settings: DictConfig) -> Result:
    """Draws the samples of every panel that has at least two of the explainers.

    Raises:
        NotApplicable: there is none.
    """
    rows: list[Row] = []
    lines, notes = [], [NOTE.format(samples=settings.samples)]
    varying, said, texts = told_apart(found)
    for panel, text in zip(found, texts, strict=True):
        names = [name for name in settings.explainers if name in panel.explainers()]
        if len(names) < 2:
            continue
        family = {i: {name: of[name] for name in names} for i, of in panel.scores.items()}
        rates = rank_stability(family, settings.shares, settings.samples, settings.seed)
        for instantiation, found_rates in rates.items():
            order = " < ".join(ordered(family[instantiation])) if instantiation in family else ""
            cells = [Cell(f"{100 * rate:.1f} %") for rate in found_rates]
            head = [*(text[name] for name in varying), HEADINGS[instantiation]]
            lines.append(Line(tuple(panel.condition.values()), [*map(Cell, head), *cells]))
            for share, rate in zip(settings.shares, found_rates, strict=True):
                rows.append(
                    {**panel.condition, "instantiation": instantiation, "share": share,
                     "rate": rate, "order": order}
                )  # fmt: skip
        who = named(text, varying)
        orders = {i: " < ".join(ordered(of)) for i, of in family.items()}
        for order in dict.fromkeys(orders.values()):
            agree = ", ".join(HEADINGS[i] for i, found in orders.items() if found == order)
            notes.append(f"{who + ', ' if who else ''}PPL by {agree}: {order}.")
    if not rows:
        raise NotApplicable("no system has results of two of the explainers")
    headings = [*varying, "instantiation", *(f"{100 * share:g} %" for share in settings.shares)]
    title = ", ".join(["Rank stability", *said])
    summary = Summary(title, headings, lines, notes)
    systems = [(panel.condition, named(text, varying))
               for panel, text in zip(found, texts, strict=True)]  # fmt: skip
    return Result(rows, IDENTITY, MEASURED, summary, _figure(systems, rows))


def _figure(systems: Sequence[tuple[Row, str]], rows: Sequence[Row]) -> Figure:
    """The rate against the share of the test set, one panel a system."""
    shown = [(c, title) for c, title in systems if any(c.items() <= row.items() for row in rows)]
    figure, axes = plt.subplots(1, len(shown), figsize=(1 + 3.4 * len(shown), 3.4),
                                squeeze=False, sharey=True)  # fmt: skip
    shares = sorted({row["share"] for row in rows})
    for ax, (condition, title) in zip(axes[0], shown, strict=True):
        for instantiation in dict.fromkeys(row["instantiation"] for row in rows):
            points = [(row["share"], row["rate"]) for row in rows
                      if condition.items() <= row.items()
                      and row["instantiation"] == instantiation]  # fmt: skip
            if points:
                x, y = zip(*sorted(points), strict=True)
                ax.plot(x, y, label=HEADINGS[instantiation], linewidth=1.2, markersize=5,
                        **proxy_style(instantiation))  # fmt: skip
        ax.set_xscale("log")
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xticks(shares, [f"{share:.0%}" for share in shares])
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        ax.set_xlabel("sample, share of the test sentences")
        ax.set_title(title, fontsize=10)
        ax.grid(linewidth=0.3, alpha=0.6)
    axes[0, 0].set_ylabel("samples that rank as the whole set")
    legend_below(figure, axes[0])
    return figure
