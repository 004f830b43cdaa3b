"""Measurements and rows as metrics make them, of units that are made up."""

import numpy as np

from xnmt_bench.measuring.measurement import Evidence, Measurement, Planned, Scored, write
from xnmt_bench.measuring.units import Units, by_unit
from xnmt_bench.report.tracking import Tracker

TEST_SET = "toy test"
SYSTEM = {"corpus": "toy", "lang_pair": "en-de", "nmt": "transformer"}
# The columns that identify a row of each metric.
FIDELITY = SYSTEM | {
    "explainer": "attention",
    "k": 1,
    "scenario": "teacher_forcing",
    "learned_from": "teacher_forcing",
    "instantiation": "fn",
    "seed": 1,
    "train_sentences": 900,
}
AER = SYSTEM | {
    "alignment": "forward",
    "unaligned": "skip",
    "explainer": "attention",
    "seed": "",
}


class Tables(Tracker):
    """Remembers what it is shown."""

    def __init__(self):
        self.shown = {}

    def table(self, name, rows, columns):
        self.shown[name] = list(rows)

    def figure(self, name, path):
        self.shown[f"{name} figure"] = path


def decisions(sentence_N, log_p, correct_N=None, test_set=TEST_SET):
    """The units of fidelity: each sentence's sums."""
    log_p = np.asarray(log_p, dtype=float)
    correct_N = log_p > -1 if correct_N is None else correct_N
    number_U, sums = by_unit(np.asarray(sentence_N), log_likelihood=log_p, correct=correct_N)
    return Units(test_set, number_U, sums)


def measured(metric, results, identity, outcome, model="m0", files=None, made_by=None, **facts):
    """Writes what was found of a row, or the status that says why nothing was."""
    generated = {"generated": identity["corpus"] == "toy"}
    if isinstance(outcome, Units):
        outcome = Evidence(outcome, made_by or {}, facts, files or {})
    planned = Planned(identity, model, lambda: outcome, generated)
    return write(metric.name, planned, outcome, results)


def scored(identity, values, status="ok", model="m0", derived=False, **facts):
    """A row with numbers of which nobody asks where they came from."""
    facts = {"generated": identity["corpus"] == "toy"} | facts
    return Scored(Measurement(identity, model, status, facts=facts), values, "SIGNED", derived)
