"""What fine-tuning changes: each fine-tuned system compared with the one that it started from.

Yehudai et al. 2023, section 4. A fine-tuned system is called by what it learnt from, such as
`transformer on gender`; a row knows the system that its training started from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xnmt_bench.analyses.analysis import Analysis, Result, estimate
from xnmt_bench.analyses.tables import listed, written
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.alike import paired
from xnmt_bench.measuring.bootstrap import Draws, JointBootstrap
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.metric import TableRow
from xnmt_bench.options import Count, Seed
from xnmt_bench.report.panels import Panel, distinguish

# The name before, the name after, and the measurements of both.
Pair = tuple[str, str, list[list[Measurement]]]
CHANGE = ("change", "low", "high")
CHANGES = ("before", "after", *CHANGE)
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
        shown = [(panel, rows) for panel in panels if (rows := list(self._rows(panel)))]
        if not shown:
            raise NotApplicable("needs results of a system and of one that was fine-tuned from it")
        column, distinction = panels[0].metric.headline, distinguish([panel for panel, _ in shown])
        lines = [
            (panel.condition.values(), [*texts, row["tuned"]], row)
            for (panel, rows), texts in zip(shown, distinction.texts, strict=True)
            for row in rows
        ]
        summary = listed(
            distinction.title(f"What fine-tuning changes: {column.heading}"),
            [*distinction.varying, "fine-tuned"],
            lines,
            [
                ("before", written(column.form, "before")),
                ("after", written(column.form, "after")),
                ("change", written(column.form, *CHANGE)),
                ("systems", "{systems_before}, {systems_after}".format_map),
            ],
            [NOTE.format(samples=self._draws.samples)],
        )
        identity = (*panels[0].condition, "system", "tuned")
        measured = (*CHANGES, "systems_before", "systems_after")
        return Result([row for *_, row in lines], identity, measured, summary)

    def _rows(self, panel: Panel) -> Iterator[TableRow]:
        for before, after, rows in pair_tuned(panel):
            joint = JointBootstrap([panel.metric, panel.metric], rows, self._draws)
            yield {
                **panel.condition,
                "system": before,
                "tuned": after,
                **changes(joint, panel.metric.headline.name),
                # A system may have a row for each seed of an explainer.
                "systems_before": len({m.model for m in rows[0]}),
                "systems_after": len({m.model for m in rows[1]}),
            }


def changes(joint: JointBootstrap, column: str) -> TableRow:
    """Return what two things have of a result, and the second less the first, as `CHANGES`."""
    before_R, after_R = joint.values(column)
    change = estimate(after_R - before_R)
    return dict(zip(CHANGES, (float(before_R[0]), float(after_R[0]), *change), strict=True))


def pair_tuned(panel: Panel) -> Iterator[Pair]:
    """Yield each fine-tuned system and the one that it started from, a pair for all trainings.

    Yields:
        Both names, and the measurements of both: of the first only those from which one of the
        second started, of the second only those whose first was measured too.
    """
    if panel.metric.compared != "nmt":
        return
    pivot = next(iter(panel.rows))  # they are sorted: the whole stands before its parts
    by_name = panel.measured(pivot, blind=True)
    every = [m for rows in by_name.values() for m in rows]
    name_of = {id(m): name for name, rows in by_name.items() for m in rows}
    for after, rows in by_name.items():
        pairs = paired(every, rows, lambda m: m.facts.lineage.get("initial"))
        for before in dict.fromkeys(name_of[id(first)] for first, _ in pairs):
            of_name = [pair for pair in pairs if name_of[id(pair[0])] == before]
            # Several trainings may start from one system.
            firsts = {id(first): first for first, _ in of_name}
            yield before, after, [[*firsts.values()], [second for _, second in of_name]]
