"""What fine-tuning changes: each fine-tuned system beside the one that it started from.

Yehudai et al. 2023, section 4. A fine-tuned system is called by what it learnt from, such as
`transformer on gender`; the one in front of ` on ` is where it started.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws, JointBootstrap, interval
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.metric import Column, Row
from xnmt_bench.options import Count, Seed
from xnmt_bench.report.panels import Panel, distinguish
from xnmt_bench.report.summary import Cell, Line, Summary

ON = " on "
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
            "before", "after", "change", "low", "high", "systems_before", "systems_after",
        )  # fmt: skip
        return Result(list(chain(*by_panel)), identity, measured, summary)

    def _rows(self, panel: Panel, column: Column) -> Iterator[Row]:
        measured = by_system(panel)
        for before, after in pair_tuned(panel):
            rows = [measured[before], measured[after]]
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
                "systems_before": len(rows[0]),
                "systems_after": len(rows[1]),
            }


def by_system(panel: Panel) -> Mapping[str, Sequence[Measurement]]:
    """Return the measurements of each system by its own name; several trainings share one."""
    grouped: dict[str, list[Measurement]] = {}
    pivot = next(iter(panel.rows))  # they are sorted: the whole stands before its parts
    # Panels tell trainings apart by their fingerprints; here they are replicates.
    for measurement in chain(*panel.measured(pivot, blind=True).values()):
        grouped.setdefault(measurement.identity["nmt"], []).append(measurement)
    return grouped


def pair_tuned(panel: Panel) -> Iterator[tuple[str, str]]:
    """Yield each fine-tuned system behind the one that it started from, by their names."""
    if panel.metric.compared != "nmt":
        return
    names = by_system(panel)
    for after in names:
        before = after.partition(ON)[0]
        if before != after and before in names:
            yield before, after
