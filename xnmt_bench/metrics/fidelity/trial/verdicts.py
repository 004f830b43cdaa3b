"""Which judge for what: a sentence for each judge on trial, what it cannot see, what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xnmt_bench.analyses.analysis import Result, varying_words
from xnmt_bench.corpora.twins import CLOSINGS, OPENINGS, SLOTS
from xnmt_bench.judges import Judge
from xnmt_bench.judges.judge import JUDGING_SECONDS, LEARNING_PASSES, LEARNING_SECONDS
from xnmt_bench.measuring.metric import Row
from xnmt_bench.metrics.fidelity.trial.cases import Case
from xnmt_bench.metrics.fidelity.trial.figure import ALL
from xnmt_bench.registry import entries, load
from xnmt_bench.report.summary import Cell, Line, Summary

COSTS = (LEARNING_PASSES, LEARNING_SECONDS, JUDGING_SECONDS)
# Log Q of a guess among the marks of a slot.
GUESS = {slot: -np.log(len(m)) for slot, m in zip(SLOTS, (OPENINGS, CLOSINGS), strict=True)}
LEAST = 0.05  # nats of response; less is none
NOTE = (
    "From the table of the trial, all slots; there is no winner. A judge that follows the system "
    "can say which of two words it uses. The same: a response below {least:g} nats. To learn: "
    "sentences read in learning, over all epochs, and seconds; to judge: seconds for the test "
    "decisions of one explanation and system, each of which it reads once. Seconds are means over "
    "systems, as they were measured, beside whatever else ran; not in them: training the system, "
    "its labels, and what an explainer takes on the sentences that an own proxy learns from."
)
Key = tuple[object, ...]


def costs_of(case: Case) -> Row:
    """Return the columns that say what a judge costs; NaN for what its rows do not say."""
    costs: Row = {name: case.mean_fact(name) for name in COSTS}
    if (judge := _judge(case.judge_name)) and judge.learns_from == "nothing":
        costs |= {LEARNING_PASSES: 0.0, LEARNING_SECONDS: 0.0}
    return costs


def say(row: Row, by_slot: Mapping[str, Row]) -> str:
    """Return a judge's verdict in words.

    Args:
        row: of all slots.
        by_slot: the judge's rows of single slots.
    """
    unlearnt = [s for s, row_of in by_slot.items() if row_of["log_q"] <= GUESS.get(s, -np.inf)]
    if unlearnt and len(unlearnt) == len(by_slot):
        return "has not learnt the planted words, so its numbers say nothing"
    share = abs(row["bias"]) / row["response"] if row["response"] > 0 else np.inf
    if row["passes"]:
        text = f"follows the system, with a bias of {100 * share:.0f} % of its response"
        failing = [slot for slot, of_slot in by_slot.items() if not of_slot["passes"]]
        text += f"; not at the {' and '.join(failing)} slot" if failing else ""
    elif abs(row["response"]) < LEAST:
        text = "says the same of both systems"
    elif row["response"] > 0:
        text = "responds to the system, and its bias is too great or too uncertain to pass"
    else:
        text = "prefers in each system the word that the other one uses"
    return text + (f"; has not learnt the {' and '.join(unlearnt)} words" if unlearnt else "")


def judges_on_trial(rows: Sequence[Row], condition: Sequence[str]) -> Result:
    """Return a line for each text, architecture and judge.

    Args:
        rows: of the trial, of all slots and of each.
        condition: the columns by which judges differ, without the slot.
    """
    by_slot: dict[Key, dict[str, Row]] = {}
    for row in rows:
        by_slot.setdefault(tuple(str(row[c]) for c in condition), {})[row["slot"]] = row
    judged = []
    for of_slots in by_slot.values():
        if ALL in of_slots:
            single_slots = {slot: row for slot, row in of_slots.items() if slot != ALL}
            judge = _judge(of_slots[ALL]["judge_name"])
            words = {
                "verdict": say(of_slots[ALL], single_slots),
                "cannot_see": judge.cannot_see if judge else "",
            }
            judged.append({**of_slots[ALL], **words})
    phrases = {"system": "{}", "k": "k = {}", "others": "other words: {}"}
    if not any(row["others"] for row in judged):
        del phrases["others"]
    words_shown, title = varying_words("Which judge for what", judged, phrases)
    heads = [
        "judges learn from",
        *words_shown,
        "judge",
        "what the trial says",
        "what it cannot see",
        "to learn: sentences",
        "s",
        "to judge: s",
    ]
    lines = [
        Line(
            (row["corpus"], row["system"], row["k"], row["others"]),
            [
                Cell(text)
                for text in (
                    row["corpus"],
                    *(str(row[word]) for word in words_shown),
                    row["heading"],
                    row["verdict"],
                    row["cannot_see"],
                    _count(row[LEARNING_PASSES], "{:,.0f}"),
                    _count(row[LEARNING_SECONDS], "{:,.0f}"),
                    _count(row[JUDGING_SECONDS], "{:.1f}"),
                )
            ],
        )
        for row in judged
    ]
    notes = [NOTE.format(least=LEAST)]
    summary = Summary(title, heads, lines, notes, 4 + len(words_shown))
    return Result(judged, condition, ("verdict", "cannot_see", *COSTS), summary)


def _judge(name: str) -> type[Judge] | None:
    """Return the class of a judge; None of one that is not installed here."""
    return load("judges", name) if name in entries("judges") else None


def _count(number: float, form: str) -> str:
    return "" if np.isnan(number) else form.format(number)
