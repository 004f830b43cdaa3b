"""Rank stability as a table (Li et al. 2020, Table 3)."""

from __future__ import annotations

from collections.abc import Sequence

from omegaconf import DictConfig

from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.stability import ordered, rank_stability
from xnmt_bench.report.analyses.result import Result
from xnmt_bench.report.fidelity_table import HEADINGS
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
    return Result(rows, IDENTITY, MEASURED, Summary(title, headings, lines, notes))
