"""The trial of judges: which of them sees the model?

Twin systems say the same, one because of the *link* and one because of the *cue*
(`corpora.twins`). Two explanations always name the link, or the cue. A is the advantage of the
link: how much more log-probability a judge gives the label from the link than from the cue, in nats
a decision. A judge that sees the model has A > 0 in the link's system L and A < 0 in the cue's
system C; a judge that reads the text, and only the labels and the words has the same A in both.

Natural twins are two systems of ordinary text (`corpora.planted.natural`): there a decision's link
is what one system uses, its cue what the other one uses, and a draw says which of them is L.

Shapes: P pairs of twins, E explanations, S slots, U sentences, R draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.analyses.tables import (
    FURTHER,
    if_known,
    lines_of,
    listed,
    varying_words,
    written,
    yes_or_no,
)
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws, weights
from xnmt_bench.measuring.metric import TableRow
from xnmt_bench.metrics.fidelity.trial.advantage import decide, describe, pair_notes
from xnmt_bench.metrics.fidelity.trial.cases import (
    EXPLANATIONS,
    Case,
    title_phrases,
    tried_cases,
)
from xnmt_bench.metrics.fidelity.trial.figure import ALL, draw
from xnmt_bench.metrics.fidelity.trial.numbers import numbers_on_trial
from xnmt_bench.metrics.fidelity.trial.verdicts import costs_of, judges_on_trial
from xnmt_bench.options import Count, Seed, Share
from xnmt_bench.report.panels import Panel, ends

SIGNED = "{:+.2f}".format
FEWEST = 100  # decisions of a pair; fewer show nothing
NATURAL = (
    "Natural twins: L is the system that uses the link, the word whose replacement moves it most, "
    "and C the other one. Which system is L is drawn for each decision, so that b is 0 for a judge "
    "that sees nothing."
)
NOTE = (
    "A: how much more log-probability the judge gives the label from the link than from the cue, "
    "in nats a planted decision that both twins get right; L uses the link, C the cue. Response s "
    "= (A_L - A_C) / 2, bias b = (A_L + A_C) / 2; intervals of A stand in the CSV. Passes: s > "
    "|b|, so that A changes its sign with the system. Of one pair, the 95 % interval of s - |b| "
    "has to be above 0; of several, a one-sided t-test over pairs decides at {level:g} (Holm over "
    "the judges of one text). Log Q: of the label, from the word that the system uses; a judge "
    "whose log Q is that of a guess has not learnt the planted words, and its A says nothing."
)
SPANS = (
    "S in spans: each A over the judge's span in that system, from random words to the word that "
    "the system uses, so that judges compare."
)


class Trial(Analysis):
    """Tries judges on twin systems that say the same because of different words.

    Args:
        samples: bootstrap samples.
        seed: of the draws.
        level: of the test over pairs.
    """

    name = "trial"

    def __init__(self, samples: Count = 1000, seed: Seed = 0, level: Share = 0.05) -> None:
        self._draws, self._level = Draws(samples, seed), level

    def results(self, by_metric: Mapping[str, Sequence[Panel]]) -> Iterator[tuple[str, Result]]:
        """Yield the trial of fidelity's judges, what each is good for, and the other numbers'."""
        trials = {
            f"fidelity_{self.name}": partial(self.analyse, by_metric.get("fidelity", ())),
            f"{self.name}_of_numbers": partial(
                numbers_on_trial, by_metric, self._draws, self._level
            ),
        }
        reasons = []
        for name, make in trials.items():
            try:
                result = make()
            except NotApplicable as error:
                reasons.append(str(error))
                continue
            yield name, result
            if name.startswith("fidelity"):
                condition = [c for c in result.identity if c != "slot"]
                yield f"{name}_judges", judges_on_trial(result.rows, condition)
        if len(reasons) == len(trials):
            raise NotApplicable(reasons[0])

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return one line for each text, architecture, judge and slot."""
        cases, left_out = tried_cases(panels), set[str]()
        rows = [row for case in cases for row in self._judge(case, left_out)]
        if not rows:
            raise NotApplicable(f"fewer than {FEWEST} planted decisions are right in both twins")
        apart = ("corpus", "system", "k", "others", *(c for c in FURTHER if c in rows[0]))
        decide(rows, (*apart, "slot"), self._level)
        # Where rows of `random` say what a judge's span is.
        spans = any(not np.isnan(row["response_in_spans"]) for row in rows)
        notes = [NOTE.format(level=self._level), *([SPANS] if spans else [])]
        notes += [NATURAL] if any(case.natural for case in cases) else []
        notes += pair_notes(rows, self._draws)
        notes += sorted(left_out)
        words, title = varying_words(
            "The trial of judges: who sees the model?", rows, title_phrases(rows)
        )
        in_spans = ("s in spans", written(if_known("{:.2f}".format), "response_in_spans"))
        summary = listed(
            title,
            ["judges learn from", *words, "judge", "slot"],
            lines_of(rows, apart, ("corpus", *words, "heading", "slot")),
            [
                ("A in L", written(SIGNED, "advantage_l")),
                ("A in C", written(SIGNED, "advantage_c")),
                ("s", written(SIGNED, *ends("response"))),
                ("b", written(SIGNED, *ends("bias"))),
                *([in_spans] if spans else []),
                ("log Q", "{log_q:.2f}".format_map),
                ("passes", written(yes_or_no, "passes")),
                ("decisions", "{decisions:,}".format_map),
                ("pairs", "{pairs}".format_map),
            ],
            notes,
        )
        identity = (*cases[0].condition, "system", "judge", "slot")
        unshown = (*identity, "heading", "judge_name")
        measured = tuple(name for name in rows[0] if name not in unshown)
        return Result(rows, identity, measured, summary, draw(rows))

    def _judge(self, case: Case, left_out: set[str]) -> Iterator[TableRow]:
        """Yield the row of each slot; notes of pairs with too few decisions go to `left_out`."""
        # The slots of natural twins are drawn roles, and only both together have a bias of 0.
        for slot in (ALL, *(() if case.natural else case.slots)):
            every_pair = case.likelihoods(case.slots if slot == ALL else [slot])
            of_pairs = {p: x for p, x in every_pair.items() if x[1].sum() >= FEWEST}
            left_out |= {
                f"Pair {pair} is left out of {case.heading}, {slot}: {count_U.sum():,.0f} "
                f"decisions are right in both twins; fewer than {FEWEST} show nothing."
                for pair, (_, count_U) in every_pair.items()
                if pair not in of_pairs
            }
            if not of_pairs:
                continue
            count_P = [count_U.sum() for _, count_U in of_pairs.values()]
            rows = [
                self._judge_pair(log_q_2EU, count_U) for log_q_2EU, count_U in of_pairs.values()
            ]
            mean_P2, drawn_PR2, log_q_P, spans_P = map(np.array, zip(*rows, strict=True))
            yield {
                **case.condition,
                "system": case.architecture,
                "judge": case.judge,
                "heading": case.heading,
                "slot": slot,
                "decisions": int(np.mean(count_P)),
                "log_q": float(log_q_P.mean()),
                "response_in_spans": float(spans_P.mean()),
                "judge_name": case.judge_name,
                **costs_of(case),
                **describe([*of_pairs], mean_P2, drawn_PR2.transpose(1, 0, 2), self._draws),
            }

    def _judge_pair(
        self, log_q_2EU: np.ndarray, count_U: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float, float]:
        """Return A of both twins (2,), the same of drawn sentences (R, 2), log Q, s in spans."""
        decisions = count_U.sum()
        advantage_2U = log_q_2EU[:, 0] - log_q_2EU[:, 1]
        mean_2 = advantage_2U.sum(axis=1) / decisions
        # Of one seed, so that pairs of as many sentences draw the same ones.
        blocks = weights(len(count_U), self._draws.samples, self._draws.seed)
        drawn = [(b_RU @ advantage_2U.T) / (b_RU @ count_U)[:, None] for b_RU in blocks]
        # The link in L, the cue in C.
        right_2U = np.stack([log_q_2EU[0, 0], log_q_2EU[1, 1]])
        span_response = np.nan
        if log_q_2EU.shape[1] > len(EXPLANATIONS):
            span_2 = (right_2U - log_q_2EU[:, 2]).sum(axis=1) / decisions
            # No share of what a judge does not gain by the right words.
            in_spans_2 = mean_2 / np.where(span_2 > 0, span_2, np.nan)
            span_response = (in_spans_2[0] - in_spans_2[1]) / 2
        log_q = right_2U.mean(axis=0).sum() / decisions
        return mean_2, np.concatenate(drawn), float(log_q), float(span_response)
