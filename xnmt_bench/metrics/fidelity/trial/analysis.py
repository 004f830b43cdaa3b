"""The trial of judges: which of them sees the model?

Twin systems say the same, one because of the *link* and one because of the *cue*
(`corpora.twins`). Two explanations always name the link, or the cue. A is the advantage of the
link: how much more log-probability a judge gives the label from the link than from the cue, in nats
a decision. A judge that sees the model has A > 0 in the link's system L and A < 0 in the cue's
system C; a judge that reads the text, and only the labels and the words has the same A in both.

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
from xnmt_bench.metrics.fidelity.trial.cases import Case, title_phrases, tried_cases
from xnmt_bench.metrics.fidelity.trial.figure import ALL, draw
from xnmt_bench.metrics.fidelity.trial.numbers import numbers_on_trial
from xnmt_bench.metrics.fidelity.trial.verdicts import costs_of, judges_on_trial
from xnmt_bench.options import Count, Seed, Share
from xnmt_bench.report.panels import Panel, ends

SIGNED = "{:+.2f}".format
FEWEST = 100  # decisions; fewer show nothing
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
        cases = tried_cases(panels)
        rows = [row for case in cases for row in self._judge(case)]
        if not rows:
            raise NotApplicable(f"fewer than {FEWEST} planted decisions are right in both twins")
        apart = ("corpus", "system", "k", "others", *(c for c in FURTHER if c in rows[0]))
        decide(rows, (*apart, "slot"), self._level)
        # Where rows of `random` say what a judge's span is.
        spans = any(not np.isnan(row["response_in_spans"]) for row in rows)
        notes = [NOTE.format(level=self._level), *([SPANS] if spans else [])]
        notes += pair_notes(rows, self._draws)
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

    def _judge(self, case: Case) -> Iterator[TableRow]:
        for slot in (ALL, *case.slots):
            log_q_P2EU, count_U = case.likelihoods(case.slots if slot == ALL else [slot])
            if count_U.sum() < FEWEST:
                continue
            advantage_P2U = log_q_P2EU[:, :, 0] - log_q_P2EU[:, :, 1]
            mean_P2 = advantage_P2U.sum(axis=2) / count_U.sum()
            drawn_RP2 = self._resample(advantage_P2U, count_U)
            # The link in L, the cue in C.
            right_P2U = np.stack([log_q_P2EU[:, 0, 0], log_q_P2EU[:, 1, 1]], axis=1)
            span_response = np.nan
            if case.has_random:
                span_P2 = (right_P2U - log_q_P2EU[:, :, 2]).sum(axis=2) / count_U.sum()
                # No share of what a judge does not gain by the right words.
                in_spans_P2 = mean_P2 / np.where(span_P2 > 0, span_P2, np.nan)
                span_response = (in_spans_P2[:, 0] - in_spans_P2[:, 1]).mean() / 2
            yield {
                **case.condition,
                "system": case.architecture,
                "judge": case.judge,
                "heading": case.heading,
                "slot": slot,
                "decisions": int(count_U.sum()),
                "log_q": float(right_P2U.mean(axis=1).sum() / count_U.sum() / len(case.seeds)),
                "response_in_spans": float(span_response),
                "judge_name": case.judge_name,
                **costs_of(case),
                **describe(case.seeds, mean_P2, drawn_RP2, self._draws),
            }

    def _resample(self, advantage_P2U: np.ndarray, count_U: np.ndarray) -> np.ndarray:
        """Return both means of each pair, (R, P, 2), of sentences drawn alike for all pairs."""
        blocks = weights(len(count_U), self._draws.samples, self._draws.seed)
        means_RP2 = [
            np.einsum("ru,ptu->rpt", block_RU, advantage_P2U) / (block_RU @ count_U)[:, None, None]
            for block_RU in blocks
        ]
        return np.concatenate(means_RP2)
