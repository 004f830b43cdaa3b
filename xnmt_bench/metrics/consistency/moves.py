"""Do explanations move to the antecedent when a system learns consistency?

A system that was fine-tuned (Yehudai et al. 2023, section 4) is compared with the one that it
started from, on the same pronouns. Blind explainers move too where a pronoun is translated by other
words, so their change is what the others' has to be compared with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
from matplotlib.figure import Figure

from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.analyses.tables import if_known, lines_of, listed, written
from xnmt_bench.analyses.tuned import CHANGE, CHANGES, Pair, changes, pair_tuned
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws, JointBootstrap
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.metric import Metric, TableRow, hundredths
from xnmt_bench.metrics.consistency.statistics import POINTED, POINTING, POINTS_OF
from xnmt_bench.options import Count, Seed
from xnmt_bench.report.figure import fitting, lay_out, name_labels, stacked, wrapped
from xnmt_bench.report.panels import Panel, distinguish

ALL = "all"
FEWEST = 20  # pronouns of one form; fewer give no line of their own
NOTE = (
    "How often the right entity of two outweighs the other at the words that translate the "
    "pronoun, before and after fine-tuning, of the same sentences; 50 is chance. n: pronouns after "
    "it that have linked words and two entities. Change: after less before, with its 95 % interval "
    "by a paired bootstrap over sentences ({samples:,} samples). A change of a blind explainer "
    "comes from other translations alone."
)
COLOR, BLIND_COLOR = "#2171b5", "#999999"  # blind explainers stand back


class Moves(Analysis):
    """Compares where explainers point before and after fine-tuning.

    Args:
        samples: bootstrap samples.
        seed: of the draws.
    """

    name = "moves"

    def __init__(self, samples: Count = 1000, seed: Seed = 0) -> None:
        self.draws = Draws(samples, seed)

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return one line for each explainer, pair of systems and pronoun."""
        rows = [row for panel in panels for row in self._rows(panel)]
        if not rows:
            raise NotApplicable(
                "it takes a system and one fine-tuned from it, both with "
                "metric.consistency.relevance=true; nmt.path measures the first"
            )
        shown = [panel for panel in panels if any(True for _ in _pairs(panel))]
        distinction = distinguish(shown, but=("explainer", "seed"))
        # Such as the suite or the links; their headings are the columns' own.
        names = [name for name in _condition(shown[0]) if name != "seed"]
        varying = [n for n in names if len({str(row[n]) for row in rows}) > 1]
        columns = [
            ("n", "{n:,}".format_map),
            ("before %", written(hundredths, "before")),
            ("after %", written(hundredths, "after")),
            ("change", written(lambda share: f"{100 * share:+.1f}", *CHANGE)),
            ("on markers %", written(if_known(hundredths), "markers")),
        ]
        summary = listed(
            distinction.title("Do explanations move to the antecedent?"),
            [*varying, "fine-tuned", "explainer", "pronoun"],
            lines_of(rows, [*varying, "tuned"], [*varying, "tuned", "name", "pronoun"]),
            columns,
            [NOTE.format(samples=self.draws.samples)],
        )
        identity = (*_condition(shown[0]), "system", "tuned", "explainer", "pronoun")
        measured = ("blind", "n", *CHANGES, "markers")
        return Result(rows, identity, measured, summary, _figure(rows, varying))

    def _rows(self, panel: Panel) -> Iterator[TableRow]:
        for before, after, rows in _pairs(panel):
            # The same draws of sentences on both sides, so that the change is paired.
            joint = JointBootstrap([panel.metric, panel.metric], rows, self.draws)
            markers = _mean_result(panel.metric, rows[1], "marker_share")
            blind = bool(rows[1][0].facts.blind_explainer)
            # Counted behind the tuning: its translations decide which pronouns have links.
            for form, count in _forms(rows[1]).items():
                yield {
                    **{name: panel.condition[name] for name in _condition(panel)},
                    "system": before,
                    "tuned": after,
                    "explainer": panel.condition["explainer"],
                    "pronoun": form,
                    "name": panel.condition["explainer"] + " (blind)" * blind,
                    "blind": blind,
                    "n": count,
                    **changes(joint, "points_right" if form == ALL else POINTS_OF + form),
                    "markers": markers if form == ALL else float("nan"),
                }


def _condition(panel: Panel) -> list[str]:
    """Return the columns that name a panel, but for those that a row has of its own."""
    return [name for name in panel.condition if name != "explainer"]


def _pairs(panel: Panel) -> Iterator[Pair]:
    """Yield systems before and after fine-tuning, where an explainer was asked."""
    if panel.condition.get("explainer"):
        # Rows without an explainer point at nothing.
        yield from pair_tuned(panel)


def _forms(measurements: Sequence[Measurement]) -> dict[str, int]:
    """Return how many pronouns of each form have two entities to point at, all of them first."""
    units = measurements[0].units()
    counts = {ALL: int(units["pointing"].sum())}
    for name in units.columns:
        if name.startswith(POINTING) and POINTED + name.removeprefix(POINTING) in units.columns:
            counts[name.removeprefix(POINTING)] = int(units[name].sum())
    return {form: count for form, count in counts.items() if form == ALL or count >= FEWEST}


def _mean_result(metric: Metric, measurements: Sequence[Measurement], name: str) -> float:
    """Return a result on the whole test set, averaged over rows; NaN where there is none."""
    values = []
    for measurement in measurements:
        units = measurement.units()
        results = metric.score(units, np.ones((1, len(units))))
        values.append(float(results[name][0]) if name in results else float("nan"))
    return float(np.mean(values))


def _figure(rows: Sequence[TableRow], varying: Sequence[str]) -> Figure:
    """Return the change of each explainer, of all pronouns.

    There is one axes for each fine-tuned system and each value of the `varying` columns.
    """

    def title(row: TableRow) -> str:
        return ", ".join(filter(None, [row["tuned"], *(str(row[name]) for name in varying)]))

    of_all = sorted((row for row in rows if row["pronoun"] == ALL), key=title)
    by_system = {name: list(group) for name, group in groupby(of_all, title)}
    every_block = [
        (name, *fitting(group, "explainers", lambda _: 0.3)) for name, group in by_system.items()
    ]
    blocks, note = fitting(every_block, "systems", lambda block: 0.5 + 0.3 * len(block[1]))
    counts = [len(group) for _, group, _ in blocks]
    figure, axes = stacked(7.0, [0.5 + 0.3 * n for n in counts], 1.0, [n + 1 for n in counts])
    for ax, (name, group, rows_note) in zip(axes, blocks, strict=True):
        for place, row in enumerate(group):
            color = BLIND_COLOR if row["blind"] else COLOR
            values = [100 * row[key] for key in ("low", "high")]
            ax.plot(values, [place, place], color=color, linewidth=2)
            label = "blind" if row["blind"] else "asks the model"
            ax.plot(100 * row["change"], place, "o", color=color, label=label)
        labels = name_labels(row["explainer"] for row in group)
        ax.set_yticks(range(len(group)), [labels[row["explainer"]] for row in group])
        ax.set_ylim(len(group) - 0.4, -0.6)  # the first above, and room for whole dots
        ax.axvline(0, color="black", linewidth=0.6)
        ax.set_title(wrapped(name, 5, rows_note), fontsize=10)
        ax.grid(axis="x", linewidth=0.3, alpha=0.6)
    axes[-1].set_xlabel("points at the right entity: after less before, percentage points")
    lay_out(figure, axes, note)
    return figure
