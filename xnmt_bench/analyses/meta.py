"""Does a metric pass over noise, and notice exchanged words? After Hedström et al. (2023)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xnmt_bench.analyses.agreement import kendall_tau
from xnmt_bench.analyses.analysis import Analysis, Result, estimate
from xnmt_bench.analyses.tables import RowLine, listed, written
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.alike import paired
from xnmt_bench.measuring.bootstrap import Draws, JointBootstrap
from xnmt_bench.measuring.measurement import Measurement, ScoredRow
from xnmt_bench.measuring.metric import TableRow, hundredths, percent
from xnmt_bench.options import Count, Seed
from xnmt_bench.report.panels import Panel, distinguish, ends

NOISY, EXCHANGED = "noisy", "exchanged"
LEAST = 3  # explainers of a ranking
NOTE = (
    "How much worse an explainer's number is when its relevance is altered: by a little noise "
    "(explainer=noisy), which should change next to nothing, and by giving a decision's scores to "
    "other words of the same side (explainer=exchanged), which should cost much{log}. With 95 % "
    "bootstrap intervals, paired over units. Noise, share: what noise changes, of what the "
    "exchange does, where that costs anything. Rows of the same seed and system are compared."
)
EMPTY = ("", "", "")  # the numbers of an alteration that has no rows
Pair = tuple[Measurement, Measurement]  # unaltered and altered


class Meta(Analysis):
    """How altering the relevance of explainers changes a metric's numbers.

    Args:
        samples: bootstrap samples.
        seed: of the draws.
    """

    name = "meta"

    def __init__(self, samples: Count = 1000, seed: Seed = 0) -> None:
        self.draws = Draws(samples, seed)

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return a line for each explainer with altered rows, and a verdict on each result.

        Raises:
            NotApplicable: no explainer has altered rows and its own, or the metric's numbers do not
                depend on which words an explainer names, or neither end is the better one.
        """
        metric, distinction = panels[0].metric, distinguish(panels)
        if not metric.of_words:
            raise NotApplicable("its numbers do not depend on which words an explainer names")
        column = metric.headline
        if column.better is None:
            raise NotApplicable(f"neither more nor less {column.heading} is better")
        lines: list[RowLine] = []
        notes: list[str] = []
        for panel, texts, phrase in zip(
            panels, distinction.texts, distinction.phrases, strict=True
        ):
            for pivot in panel.altered:
                heading, rows = panel.heading(pivot), list(self._rows(panel, pivot))
                for row in rows:
                    name = f"{row['explainer']} ({row['options']})".removesuffix(" ()")
                    block = (*panel.condition.values(), pivot)
                    lines.append((block, [*texts, heading, name], row))
                if rows:
                    under = f"{phrase}: " if phrase else ""
                    notes.append(f"{under}{heading}: {self._verdict(panel, pivot, rows)}")
        if not lines:
            raise NotApplicable(_missing(panels))
        log = "; logarithms of the numbers are compared" if column.log else ""
        summary = listed(
            distinction.title(f"Noise and exchanged words, by {column.heading}"),
            [*distinction.varying, "result", metric.compared],
            lines,
            [
                ("noise", written("{:+.3f}".format, *ends(NOISY))),
                ("exchange", written("{:+.3f}".format, *ends(EXCHANGED))),
                ("noise, share %", written(hundredths, "share")),
            ],
            [NOTE.format(log=log), *notes],
        )
        measured = (*ends(NOISY), *ends(EXCHANGED), "share")
        identity = (*panels[0].condition, "result", "explainer", "options")
        return Result([row for *_, row in lines], identity, measured, summary)

    def _rows(self, panel: Panel, pivot: str) -> Iterator[TableRow]:
        """Yield how much worse the altered numbers are: a row for each explainer and noise.

        The least is the best, so that worse is above 0; a number that is missing is empty.
        """
        for name, unaltered in panel.rows.get(pivot, {}).items():
            change_of = {
                (by, options): change
                for (of, by, options), rows in panel.altered[pivot].items()
                if of == name and (change := self._change(panel, _partners(unaltered, rows)))
            }
            exchange = change_of.get((EXCHANGED, ""), EMPTY)
            noises = sorted(options for by, options in change_of if by == NOISY)
            for options in noises or ([""] if exchange != EMPTY else []):
                noise = change_of.get((NOISY, options), EMPTY)
                # What noise changes, of what the exchange does, where that costs anything.
                costly = EMPTY not in (noise, exchange) and exchange[1] > 0
                yield {
                    **panel.condition,
                    "result": pivot,
                    "explainer": name,
                    "options": options,
                    **dict(zip(ends(NOISY), noise, strict=True)),
                    **dict(zip(ends(EXCHANGED), exchange, strict=True)),
                    "share": abs(noise[0]) / exchange[0] if costly else "",
                }

    def _change(self, panel: Panel, pairs: Sequence[Pair]) -> tuple[Any, ...] | None:
        """Return how much worse the second rows of pairs are, and an interval, if it is known."""
        if not pairs:
            return None
        column = panel.metric.headline
        together = JointBootstrap([panel.metric] * 2, list(zip(*pairs, strict=True)), self.draws)
        values = together.values()
        before_R, after_R = column.least_first(np.log(values) if column.log else values)
        change = estimate(after_R - before_R)
        return None if np.isnan(change[0]) else change  # NaN: a row without a number

    def _verdict(self, panel: Panel, pivot: str, rows: Sequence[TableRow]) -> str:
        """Return a sentence on how a result of the metric answers alterations."""
        sentences = []
        # By name, since there are several amounts of noise for one exchange.
        exchanged = {row["explainer"]: row for row in rows if row[EXCHANGED] != ""}
        if exchanged:
            noticed = sum(row[ends(EXCHANGED)[1]] > 0 for row in exchanged.values())
            sentences.append(f"it notices exchanged words of {noticed} of {len(exchanged)}")
        if shares := [row["share"] for row in rows if row["share"] != ""]:
            sentences.append(f"noise changes at most {percent(max(shares))} of that")
        if (tau := self._order(panel, pivot)) is not None:
            sentences.append(f"Kendall's tau of the order with noise and without is {tau:.2f}")
        return "; ".join(sentences or ["too few rows for a verdict"]) + "."

    def _order(self, panel: Panel, pivot: str) -> float | None:
        """Return how noise of the usual amount changes the order; None for fewer than three."""
        pairs = [
            pairs_of_name
            for (of, by, options), rows in panel.altered[pivot].items()
            if by == NOISY and not options
            if (pairs_of_name := _partners(panel.of(pivot, of), rows))
        ]
        if len(pairs) < LEAST:
            return None
        members = [list(side) for pair in pairs for side in zip(*pair, strict=True)]
        metrics = [panel.metric] * len(members)
        value_M = JointBootstrap(metrics, members, Draws(1, 0)).values()[:, :1]
        before_E1, after_E1 = (
            panel.metric.headline.least_first(value_M).reshape(-1, 2, 1).swapaxes(0, 1)
        )
        return float(kendall_tau(before_E1, after_E1)[0])


def _partners(unaltered: Sequence[ScoredRow], altered: Sequence[ScoredRow]) -> list[Pair]:
    """Return rows of the same system and seed; an explainer that draws nothing has no seed."""
    first, second = (
        [s.measurement for s in rows if s.measurement.ok] for rows in (unaltered, altered)
    )
    return paired(first, second)


def _missing(panels: Sequence[Panel]) -> str:
    """Return why there is nothing to compare."""
    names = {of for panel in panels for by_names in panel.altered.values() for of, *_ in by_names}
    if not names:
        return "no altered explainer has rows; add explainer=exchanged,noisy explainer.phi.of=NAME"
    return (
        "the altered rows have no unaltered row to compare with; measure "
        f"explainer={','.join(sorted(names))} with default options, the same seed and system"
    )
