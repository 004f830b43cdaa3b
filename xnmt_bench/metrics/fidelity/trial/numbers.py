"""Try every other number that ranks explanations: does it follow the system?

A is the advantage of the link in the number's own unit, so that more always speaks for the link. A
number on a logarithmic scale is compared by its logarithm. Unlike the judges' log-probabilities, a
number is of all decisions, since no other metric sums planted ones apart.

Shapes: P pairs of twins, R draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from xnmt_bench.analyses.analysis import Result
from xnmt_bench.analyses.tables import lines_of, listed, written, yes_or_no
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws, JointBootstrap
from xnmt_bench.measuring.metric import Column, Form, Metric, TableRow
from xnmt_bench.metrics.fidelity.trial.advantage import decide, describe, pair_notes
from xnmt_bench.metrics.fidelity.trial.cases import EXPLANATIONS, TWINS, Case, tried_cases
from xnmt_bench.report.panels import Panel, ends

NOTE = (
    "As above, of every number that ranks explanations: A is how much better the explanation that "
    "names the link is than the one that names the cue, over all decisions and in the number's "
    "own unit, so sizes compare between L and C and not between lines. Passes: A changes its "
    "sign with the system."
)
IDENTITY = ("metric", "corpus", "condition", "system", "judge", "number")


def numbers_on_trial(
    by_metric: Mapping[str, Sequence[Panel]], draws: Draws, level: float
) -> Result:
    """Return one line for each number of each metric that has rows of both explanations.

    Raises:
        NotApplicable: no metric has.
    """
    rows = [
        {"metric": name, **row}
        for name, panels in by_metric.items()
        if panels and panels[0].metric.compared == "explainer"
        for row in _rows(panels, draws)
    ]
    if not rows:
        raise NotApplicable("no other metric ranks explanations")
    decide(rows, ("corpus", "condition", "system"), level)
    summary = listed(
        "The trial of other numbers",
        ["judges learn from", "metric", "number", "condition"],
        lines_of(rows, ["corpus"], ("corpus", "metric", "heading", "condition")),
        [
            ("A in L", _signed("advantage_l")),
            ("A in C", _signed("advantage_c")),
            ("s", _signed(*ends("response"))),
            ("b", _signed(*ends("bias"))),
            ("passes", written(yes_or_no, "passes")),
            ("pairs", "{pairs}".format_map),
        ],
        [NOTE, *pair_notes(rows, draws)],
    )
    measured = tuple(name for name in rows[0] if name not in (*IDENTITY, "heading", "form"))
    return Result(rows, IDENTITY, measured, summary)


def _rows(panels: Sequence[Panel], draws: Draws) -> Iterator[TableRow]:
    """Yield the rows of one metric."""
    try:
        # Of natural twins the roles change from decision to decision, and sums of other metrics
        # are over all of them.
        cases = [case for case in tried_cases(panels) if not case.natural]
    except NotApplicable:
        return
    metric = panels[0].metric
    first = cases[0].condition if cases else {}
    varying = [c for c in first if len({str(x.condition[c]) for x in cases}) > 1]
    shown_once = set()
    for case in cases:
        words = [str(case.condition[c]) for c in varying if c != "corpus" and case.condition[c]]
        condition = ", ".join(words)
        for column in _columns(metric, case):
            # A number without a table of its own is the same for all judges.
            judge = case.judge if column.title or column is metric.headline else ""
            place = (case.condition["corpus"], condition, case.architecture, judge, column.name)
            if place in shown_once:
                continue
            shown_once.add(place)
            heading = f"{case.heading}: {column.heading}" if judge else column.heading
            yield {
                "corpus": case.condition["corpus"],
                "condition": condition,
                "system": case.architecture,
                "judge": judge,
                "number": column.name,
                "heading": heading,
                "form": "{:.2f}".format if column.log else column.form,
                **_advantage(metric, column, case, draws),
            }


def _columns(metric: Metric, case: Case) -> Iterator[Column]:
    """Yield the columns that rank explanations and have a number in every row."""
    units = [m.units() for rows in case.rows.values() for m in rows]
    scores = [metric.score(u, np.ones((1, len(u)))) for u in units]
    for column in metric.columns:
        # The judges' log-probabilities of planted words are in the table above.
        above = column is metric.headline and case.slots
        has_number = all(not np.isnan(s.get(column.name, np.nan)).any() for s in scores)
        if column.better and column.shown and has_number and not above:
            yield column


def _advantage(metric: Metric, column: Column, case: Case, draws: Draws) -> TableRow:
    """Return A, s, b and the margin of one number."""
    sign = 1 if column.better == "higher" else -1
    by_pair = []
    for seed in case.pairs:
        groups = [case.rows[seed, twin, name] for twin in TWINS for name in EXPLANATIONS]
        together = JointBootstrap([metric] * len(groups), groups, draws)
        values = together.values(column.name)  # (4, 1 + R)
        link_cue_2R = (np.log(values) if column.log else values).reshape(2, 2, -1)
        by_pair.append(sign * (link_cue_2R[:, 0] - link_cue_2R[:, 1]))
    advantage_RP2 = np.stack(by_pair).transpose(2, 0, 1)
    return describe(case.pairs, advantage_RP2[0], advantage_RP2[1:], draws)


def _signed(*names: str) -> Callable[[TableRow], str]:
    """Return what writes a number of a row, or one with its ends, with signs in its own form."""

    def write(row: TableRow) -> str:
        form: Form = row["form"]
        return written(lambda x: ("-" if x < 0 else "+") + form(abs(x)), *names)(row)

    return write
