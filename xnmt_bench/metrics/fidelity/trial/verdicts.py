"""Which judge for what: a sentence for each judge on trial, what it cannot see, what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xnmt_bench.analyses.analysis import Result
from xnmt_bench.analyses.tables import beside, if_known, lines_of, listed, varying_words, written
from xnmt_bench.corpora.planted.twins import CLOSINGS, OPENINGS, SLOTS
from xnmt_bench.judges.judge import JUDGING_SECONDS, LEARNING_PASSES, LEARNING_SECONDS
from xnmt_bench.measuring.metric import TableRow
from xnmt_bench.metrics.fidelity.trial.cases import Case, title_phrases
from xnmt_bench.metrics.fidelity.trial.figure import ALL
from xnmt_bench.registry import find

COSTS = (LEARNING_PASSES, LEARNING_SECONDS, JUDGING_SECONDS)
# Log Q of a guess among the marks of a slot.
GUESS = {slot: -np.log(len(m)) for slot, m in zip(SLOTS, (OPENINGS, CLOSINGS), strict=True)}
LEAST = 0.05  # nats of response; less is none
NOTE = (
    "From the table of the trial, all slots; there is no winner. A judge that follows the system "
    "can say which of two words it uses; one that says the same of both systems (a response below "
    "{least:g} nats) says what the text tells of a label. To learn: "
    "sentences read in learning, over all epochs, and seconds; to judge: seconds for the test "
    "decisions of one explanation and system, each of which it reads once. Seconds are means over "
    "systems, as they were measured, beside whatever else ran; not in them: training the system, "
    "its labels, and what an explainer takes on the sentences that an own proxy learns from."
)


def costs_of(case: Case) -> TableRow:
    """Return the columns that say what a judge costs; NaN for what its rows do not say."""
    costs: TableRow = {name: case.mean_fact(name) for name in COSTS}
    if (judge := find("judges", case.judge_name)) and judge.learns_from == "nothing":
        costs |= {LEARNING_PASSES: 0.0, LEARNING_SECONDS: 0.0}
    return costs


def say(row: TableRow, by_slot: Mapping[str, TableRow]) -> tuple[str, str]:
    """Return a judge's verdict in a few words, and in a sentence.

    Args:
        row: of all slots.
        by_slot: the judge's rows of single slots.
    """
    unlearnt = [s for s, row_of in by_slot.items() if row_of["log_q"] <= GUESS.get(s, -np.inf)]
    if unlearnt and len(unlearnt) == len(by_slot):
        return "not learnt", "it has not learnt the planted words, so its numbers say nothing"
    failing = [slot for slot, row_of in by_slot.items() if not row_of["passes"]]
    if row["passes"]:
        share = 100 * abs(row["bias"]) / row["response"]
        verdict = "follows"
        text = f"it follows the system, with a bias of {share:.0f} % of its response"
        text += f", and not at the {' and '.join(failing)} slot" if failing else ""
    elif abs(row["response"]) < LEAST:
        verdict, text = "the same", "it says the same of both systems"
    elif row["response"] > 0:
        verdict = "responds"
        text = "it responds to the system, and its bias is too great or too uncertain to pass"
    else:
        verdict, text = "opposite", "it prefers in each system the word that the other one uses"
    return verdict, text + (
        f"; it has not learnt the {' and '.join(unlearnt)} words" if unlearnt else ""
    )


def judges_on_trial(rows: Sequence[TableRow], condition: Sequence[str]) -> Result:
    """Return a line for each text, architecture and judge.

    Args:
        rows: of the trial, of all slots and of each.
        condition: the columns by which judges differ, without the slot.
    """
    judged: list[TableRow] = []
    sentences: list[str] = []
    for of_slots in beside(rows, condition, "slot").values():
        if ALL in of_slots:
            row = of_slots[ALL]
            verdict, text = say(row, {slot: r for slot, r in of_slots.items() if slot != ALL})
            judge = find("judges", row["judge_name"])
            cannot_see = judge.cannot_see if judge else ""
            # Once for each judge, of all texts that it learns from.
            if cannot_see and all(row["heading"] != earlier["heading"] for earlier in judged):
                text += f". It cannot see {cannot_see}"
            judged.append({**row, "verdict": verdict, "text": text, "cannot_see": cannot_see})
    words, title = varying_words("Which judge for what", judged, title_phrases(judged))
    for row in judged:
        names = ", ".join(str(row[name]) for name in ("corpus", *words))
        sentences.append(f"{row['heading']} ({names}): {row['text']}.")
    whole, tenths = if_known("{:,.0f}".format), if_known("{:.1f}".format)
    summary = listed(
        title,
        ["judges learn from", *words, "judge", "the system"],
        lines_of(
            judged,
            [c for c in condition if c != "judge"],
            ("corpus", *words, "heading", "verdict"),
        ),
        [
            ("to learn: sentences", written(whole, LEARNING_PASSES)),
            ("to learn: s", written(whole, LEARNING_SECONDS)),
            ("to judge: s", written(tenths, JUDGING_SECONDS)),
        ],
        [NOTE.format(least=LEAST), *sentences],
    )
    measured = ("verdict", "text", "cannot_see", *COSTS)
    return Result(judged, condition, measured, summary)
