"""Measurements and rows as metrics make them, of units that are made up."""

from types import SimpleNamespace

import numpy as np

from xnmt_bench.judges.base_tuned import BaseTuned
from xnmt_bench.judges.base_untuned import Base
from xnmt_bench.judges.evalx import EvalX
from xnmt_bench.judges.kl import Distilled
from xnmt_bench.judges.nmt import NMT
from xnmt_bench.judges.own import COMB, Own
from xnmt_bench.judges.unigram import Unigram
from xnmt_bench.measuring.measurement import (
    Evidence,
    Facts,
    Measurement,
    Row,
    ScoredRow,
    write,
)
from xnmt_bench.measuring.metric import PivotValue
from xnmt_bench.measuring.units import Units, by_unit
from xnmt_bench.report.tracking import Tracker

TEST_SET = "toy test"
SYSTEM = {"corpus": "toy", "lang_pair": "en-de", "nmt": "transformer"}
# The columns that identify a row of each metric.
FIDELITY = SYSTEM | {
    "explainer": "attention",
    "k": 1,
    "prefix": "chosen",
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
    """Keeps the tables and figures that it is given."""

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


def judge_facts(instantiation):
    """The facts by which a row of fidelity says how its judge stands in tables."""
    name, _, sentences = instantiation.partition("@")
    kind, _, proxy = name.partition("_")
    sentences = int(sentences) if sentences else None
    if name.startswith("comb"):
        return {"pivot": vars(PivotValue("Comb" if name == "comb" else name, [COMB, name, 0]))}
    if kind not in ("evalx", "kl"):
        proxy = name
    proxy, plus, _ = proxy.partition("+")
    sizes = {"sentence_positions": bool(plus)}
    rules = SimpleNamespace(proxy=SimpleNamespace(name=proxy, sizes=sizes))
    judges = {
        "base": lambda: Base(rules),
        "base_tuned": lambda: BaseTuned(rules, sentences),
        "evalx": lambda: EvalX(rules, sentences),
        "kl": lambda: Distilled(rules),
        "unigram": lambda: Unigram(rules),
        "nmt": lambda: NMT(rules),
    }
    judge = judges.get(name, judges.get(kind if proxy != name else "", lambda: Own(rules)))()
    return {"judge": judge.name, "pivot": vars(judge.pivot_value())}


def row_facts(identity):
    """What is known of a row before it is measured."""
    facts = {"generated": identity["corpus"] == "toy"}
    if "instantiation" in identity:
        facts |= judge_facts(identity["instantiation"])
    return facts


def measured(metric, results, identity, outcome, model="m0", files=None, made_by=None, **facts):
    """Writes a row: its units, or the status that says why there are none."""
    if isinstance(outcome, Units):
        settings = facts.pop("settings", {})
        outcome = Evidence(outcome, made_by or {}, facts, files or {}, settings)
    row = Row(identity, model, facts=row_facts(identity))
    return write(metric.name, row, outcome, results)


def lineage(training):
    """The facts of a system that is one of several trainings."""
    return {"lineage": {"family": "f", "seed": training, "initial": None}}


def scored(identity, values, status="ok", model="m0", derived=False, **facts):
    """A row with numbers that no units stand behind."""
    settings, facts = facts.pop("settings", {}), Facts.of(row_facts(identity) | facts)
    measurement = Measurement(identity, model, status, settings=settings, facts=facts)
    return ScoredRow(measurement, values, "SIGNED", derived)
