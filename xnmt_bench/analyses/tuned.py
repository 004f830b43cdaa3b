"""What fine-tuning changes: each fine-tuned system beside the one that it started from.

Yehudai et al. 2023, section 4. A fine-tuned system is called by what it learnt from, such as
`transformer on gender`; a row knows the system that its training started from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws, JointBootstrap, interval
from xnmt_bench.measuring.measurement import LINEAGE, Measurement
from xnmt_bench.measuring.metric import Column, Row
from xnmt_bench.options import Count, Seed
from xnmt_bench.report.panels import Panel, distinguish
from xnmt_bench.report.summary import Cell, Line, Summary

# The name before, the name after, and the measurements of both.
Pair = tuple[str, str, list[list[Measurement]]]
NOTE = (
    "Change: after less before, each the mean of its systems, with its 95 % interval by a "
    "bootstrap over units that are the same for all of them ({samples:,} samples). Systems: how "
    "many trainings a mean is of, before and after. The interval does not hold the spread of "
    "trainings."
)


class Tuned(Analysis):
    """Compares fine-tuned systems with those that they started from, by a metric's headline.

    Args:
        samples: bootstrap samples.
        seed: of the draws.
    """

    name = "tuned"

    def __init__(self, samples: Count = 1000, seed: Seed = 0) -> None:
        self._draws = Draws(samples, seed)

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return one line a fine-tuned system."""
        shown = [panel for panel in panels if any(True for _ in pair_tuned(panel))]
        if not shown:
            raise NotApplicable("it takes a system and one that was fine-tuned from it")
        column = shown[0].metric.headline
        by_panel = [list(self._rows(panel, column)) for panel in shown]
        distinction = distinguish(shown)
        lines = []
        for panel, rows, condition in zip(shown, by_panel, distinction.texts, strict=True):
            for row in rows:
                before, after, change, low, high = (
                    column.form(row[name]) for name in ("before", "after", "change", "low", "high")
                )
                systems = f"{row['systems_before']}, {row['systems_after']}"
                texts = (*condition, row["tuned"], before, after, f"{change} [{low}, {high}]")
                lines.append(
                    Line((*panel.condition.values(),), [Cell(t) for t in (*texts, systems)])
                )
        heads = [*distinction.varying, "fine-tuned", "before", "after", "change", "systems"]
        summary = Summary(
            distinction.title(f"What fine-tuning changes: {column.heading}"),
            heads,
            lines,
            [NOTE.format(samples=self._draws.samples)],
            len(distinction.varying) + 1,
        )
        identity = (*shown[0].condition, "system", "tuned")
        measured = (
            "before",
            "after",
            "change",
            "low",
            "high",
            "systems_before",
            "systems_after",
        )
        return Result(list(chain(*by_panel)), identity, measured, summary)

    def _rows(self, panel: Panel, column: Column) -> Iterator[Row]:
        for before, after, rows in pair_tuned(panel):
            joint = JointBootstrap([panel.metric, panel.metric], rows, self._draws)
            values_2R = joint.values(column.name)
            change_R = values_2R[1] - values_2R[0]
            low, high = interval(change_R[1:])
            yield {
                **panel.condition,
                "system": before,
                "tuned": after,
                "before": float(values_2R[0, 0]),
                "after": float(values_2R[1, 0]),
                "change": float(change_R[0]),
                "low": low,
                "high": high,
                # A system may have a row for each seed of an explainer.
                "systems_before": len({m.model for m in rows[0]}),
                "systems_after": len({m.model for m in rows[1]}),
            }


def pair_tuned(panel: Panel) -> Iterator[Pair]:
    """Yield each fine-tuned system and the one that it started from, a pair for all trainings.

    Yields:
        Both names, and the measurements of both: of the first those alone from which one of the
        second started, of the second those alone whose first was measured too.
    """
    if panel.metric.compared != "nmt":
        return
    pivot = next(iter(panel.rows))  # they are sorted: the whole stands before its parts
    by_name = panel.measured(pivot, blind=True)
    systems = {
        (m.model, m.identity.get("seed", "")): (name, m)
        for name, rows in by_name.items()
        for m in rows
    }
    for after, rows in by_name.items():
        # A row of an explainer that draws is paired with the row of the same seed.
        started = [
            (m, systems.get((m.facts.get(LINEAGE, {}).get("initial"), m.identity.get("seed", ""))))
            for m in rows
        ]
        pairs = [(*initial, m) for m, initial in started if initial is not None]
        names = list(dict.fromkeys(name for name, _, _ in pairs))
        for before in names:
            firsts = {
                (first.model, first.identity.get("seed", "")): first
                for name, first, _ in pairs
                if name == before
            }
            yield before, after, [[*firsts.values()], [m for name, _, m in pairs if name == before]]
