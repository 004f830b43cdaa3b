"""Fidelity as a metric: its rows, its results, and what is read off them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from xnmt_bench.errors import XnmtError
from xnmt_bench.measuring.listing import Listing
from xnmt_bench.measuring.measurement import (
    BLIND,
    CAPPED,
    DOUBTS,
    Evidence,
    Measurement,
    Planned,
    Scored,
)
from xnmt_bench.measuring.metric import Column, Key, Row, SumMetric, count, percent, ratio
from xnmt_bench.measuring.units import Units, by_unit
from xnmt_bench.metrics.fidelity.browse import listings
from xnmt_bench.metrics.fidelity.divergence import DistilledProxy
from xnmt_bench.metrics.fidelity.leak import FromShared, OnMatched
from xnmt_bench.metrics.fidelity.predictors import FACETS_FILE, KL_FILE, SAMPLE_FILE, Predictors
from xnmt_bench.metrics.fidelity.tuned import TunedBase
from xnmt_bench.options import Count, Natural
from xnmt_bench.parquet import read_table
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.proxy import SCORES, OwnProxy, SharedProxy, TrainedProxy
from xnmt_bench.registry import unknown
from xnmt_bench.rules.extract import LABELLING, TEACHER_FORCING
from xnmt_bench.rules.scores import DecisionScores
from xnmt_bench.store import Artefact

FAMILY = ("fn", "rn", "sa")  # the paper's proxies, whose best is Comb
SHARED, DISTILLED = "evalx_", "kl_"  # begin the names of judges that learn otherwise
HEADINGS = {"base": "Base", "base_tuned": "Base, tuned", "comb": "Comb"}
REFERENCES = {
    "unigram": "the labels' own distribution, which no rule can help",
    "nmt": "the NMT model's own, with its whole context",
}
Judge = Literal["base", "own", "evalx", "base_tuned", "kl"]
JUDGES: tuple[Judge, ...] = ("base", "own", "evalx")
nats = "{:.3f}".format
ALPHAS = (1, 10)  # of STRIPE-X
BLIND_NOTE = (
    "Blind rows never ask the model. A method that does not beat them has shown nothing about it."
)
OF_GOLD = "is scored on the decisions whose label is the target's own word."
LEAKS = "Leak: what an explainer's own proxy gains by how it chooses"
KL_NOTE = (
    "KL divergence in nats of a proxy's distribution from the NMT model's, over the whole "
    "vocabulary; the proxy learnt the model's distribution. With its 95 % bootstrap interval over "
    "sentences; lower is more faithful."
)
LEAK_NOTE = (
    "In nats a decision: how much surer of the label the shared proxy becomes by learning from the "
    "explainer's own rules (leak), or from the same words under the labels of other decisions that "
    "hold them (matched); what exceeds matched is choice. STRIPE-X is the shared proxy's loss and "
    "alpha times what leaks; a large alpha favours whoever chooses without the label, even random. "
    "Lower is better."
)


class Fidelity(SumMetric):
    """Perplexity of predictors that see an explainer's words alone (Li et al. 2020, Eq. 7).

    A unit is a sentence; its sums are log-likelihood, decisions, right first choices, and where
    they are known KL divergence, hits, and the log-likelihoods that tell a leak.

    Args:
        judges: which predictors: `base` (the NMT model), `own` (a proxy that learns from the
            explainer's rules), `evalx` (one that learns from words drawn at random, for all
            explainers), `base_tuned` (the NMT model, fine-tuned on words drawn at random), `kl` (a
            proxy that learns the NMT model's distribution from the explainer's rules).
        evalx_sentences: training sentences of `evalx` and `base_tuned`; as many as are explained,
            if not given.
        leak: measure what an explainer's own proxy gains by how it chooses; with `evalx`.
        browsed: test sentences whose rules the page shows.
    """

    name = "fidelity"
    title = "Fidelity: perplexity of proxies"
    note = (
        "PPL of the proxies on held-out decisions, with its 95 % bootstrap interval over "
        "sentences; lower is more faithful."
    )
    keys = (
        Key("explainer", "explainer"),
        Key("k", "k", "k = {}"),
        Key("scenario", "scenario", usual=TEACHER_FORCING),
        Key("learned_from", "learned from", "learned from {}", usual=TEACHER_FORCING),
        Key("instantiation", "instantiation"),
        Key("seed", "seed"),
        Key("train_sentences", "sentences", "{} training sentences"),
    )
    columns = (
        Column("ppl", "PPL", better="lower", interval=True, log=True),
        Column(
            "kl",
            "KL",
            better="lower",
            interval=True,
            title="Disagreement: KL divergence of proxies",
            note=KL_NOTE,
        ),
        Column("leak", "leak", nats, "lower", True, title=LEAKS, note=LEAK_NOTE),
        Column("matched", "matched", nats, None, True, title=LEAKS),
        Column("choice", "choice", nats, "lower", True, title=LEAKS),
        *(
            Column(f"stripe_{alpha}", f"STRIPE-X, {alpha}", nats, "lower", True, title=LEAKS)
            for alpha in ALPHAS
        ),
        Column("agreement", "agreement", percent, "higher", interval=True, shown=False),
        Column("decisions", "decisions", count, shown=False),
        Column("hit_at_k", "hit@k, sides", percent, "higher"),
        Column("hit_any_at_k", "hit@k, decisions", percent, "higher"),
    )
    pivot = "instantiation"
    csv_only = ("comb_valid",)

    def __init__(
        self,
        judges: Sequence[Judge] = JUDGES,
        evalx_sentences: Count | None = None,
        leak: bool = False,
        browsed: Natural = 50,
    ) -> None:
        if leak and ("evalx" not in judges or evalx_sentences is not None):
            raise XnmtError(
                "metric.fidelity.leak compares with evalx on the same sentences: it needs evalx "
                "among metric.fidelity.judges, and metric.fidelity.evalx_sentences=null"
            )
        self.judges, self.evalx_sentences = tuple(judges), evalx_sentences
        self.leak, self.browsed = leak, browsed

    def measure(self, job: Job) -> Iterator[Planned]:
        """Each judge's row, and the references'.

        Raises:
            XnmtError: k is larger than what rules are extracted with, or there is no such scenario.
        """
        config, judged = job.config, job.judged
        if not 1 <= config.k <= config.rules.largest_k:
            largest = config.rules.largest_k
            raise XnmtError(f"k={config.k} is not within 1 and {largest}, the largest k")
        for key in ("scenario", "learned_from"):
            if config[key] not in LABELLING:
                raise XnmtError(f"{key}: {unknown('scenario', config[key], LABELLING)}")
        predictors = Predictors(job)
        told = {key: config[key] for key in ("k", "scenario", "learned_from")}
        told["train_sentences"] = judged.train_sentences

        def row(name: str, make: Callable[[], Evidence], **keys: Any) -> Planned:
            identity = told | {"instantiation": name} | keys
            return self.plan(job, make, explained=True, **identity)

        if "base" in self.judges:  # its seed is the explainer's: itself it draws nothing
            yield row("base", partial(self._of_base, predictors))
        for judge in self._trained(job):
            make = partial(self._of_judge, job, predictors, judge)
            yield row(judge.name, make, seed=config.seed)
        if not judged.applies:  # without rules there are no decisions to refer to
            return
        anybody = {"explainer": "", "k": "", "seed": ""}
        yield row("unigram", partial(self._reference, predictors, "unigram"), **anybody)
        nobody = anybody | {"train_sentences": "", "learned_from": ""}
        yield row("nmt", partial(self._reference, predictors, "nmt"), **nobody)

    def _trained(self, job: Job) -> Iterator[TrainedProxy | TunedBase]:
        """The judges that are trained, in reading order."""
        if "base_tuned" in self.judges:
            yield TunedBase(job, self.evalx_sentences)
        if "own" in self.judges:
            yield job.proxy
        if "evalx" in self.judges:
            yield job.trained(SharedProxy, self.evalx_sentences)
        if "kl" in self.judges:
            yield job.trained(DistilledProxy)

    def _of_base(self, predictors: Predictors) -> Evidence:
        """What the NMT model decides from the rules alone."""
        return _decided(predictors, predictors.base, self._kl(predictors, None))

    def _of_judge(
        self, job: Job, predictors: Predictors, judge: TrainedProxy | TunedBase
    ) -> Evidence:
        """What a trained judge decides from the rules alone."""
        by_decision: dict[str, np.ndarray] = {}
        made_by, files = {"learned": judge.trained.fingerprint}, {}
        facts = {key: judge.trained.facts[key] for key in ("valid_loss", "epochs", CAPPED)}
        if isinstance(judge, OwnProxy):
            made_by["rules"] = judge.training_rules.fingerprint
            files["training_rules"] = str(judge.training_rules.path)
        if isinstance(judge, DistilledProxy):
            by_decision |= self._kl(predictors, judge)
        if isinstance(judge, SharedProxy) and self.leak and job.explained.teachable:
            for name, kind in (("own", FromShared), ("matched", OnMatched)):
                other = job.trained(kind, judge)
                scores = DecisionScores.load(other.tested.path / SCORES)
                by_decision[f"log_{name}"] = scores.log_likelihood_N
                made_by[name] = other.trained.fingerprint
                facts[CAPPED] |= other.trained.facts[CAPPED]
        found = _decided(predictors, judge.tested, by_decision)
        return replace(
            found,
            made_by=found.made_by | made_by,
            facts=found.facts | facts,
            files=found.files | files,
        )

    def _kl(self, predictors: Predictors, judge: DistilledProxy | None) -> dict[str, np.ndarray]:
        """KL divergence by decision, where it is asked for."""
        if "kl" not in self.judges:
            return {}
        made = predictors.kl(judge)
        return {"kl": read_table(made.path / KL_FILE, ["kl"])["kl"].to_numpy()}

    def _reference(self, predictors: Predictors, kind: str) -> Evidence:
        """What a predictor without rules did, and what is known of the decisions."""
        artefact = predictors.reference(kind)
        found, facts, more = _decided(predictors, artefact, hits=False), {}, {}
        if kind == "nmt":  # of one row a scenario, since they are the same under every explainer
            facts = {DOUBTS: predictors.doubts, CAPPED: predictors.capped}
            more = {
                "facets": str(predictors.facets.path / FACETS_FILE),
                "sample": str(predictors.sample(self.browsed).path / SAMPLE_FILE),
            }
        files = {"decisions": found.files["decisions"]} | more
        return Evidence(found.units, {"scores": artefact.fingerprint}, facts, files)

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Perplexity, KL divergence in nats, and shares of decisions."""
        decisions_R = sums_R["rows"]
        results = {
            "ppl": np.exp(-ratio(sums_R["log_likelihood"], decisions_R)),
            "agreement": ratio(sums_R["correct"], decisions_R),
            "decisions": decisions_R,
        }
        if "kl" in sums_R:
            results["kl"] = ratio(sums_R["kl"], decisions_R)
        if "hits" in sums_R:
            results["hit_at_k"] = ratio(sums_R["hits"], sums_R["hittable"])
            results["hit_any_at_k"] = ratio(sums_R["hits_any"], sums_R["hittable_any"])
        if "log_own" in sums_R:
            shared_R = ratio(sums_R["log_likelihood"], decisions_R)
            leak_R, matched_R = (
                ratio(sums_R[name], decisions_R) - shared_R for name in ("log_own", "log_matched")
            )
            results |= {"leak": leak_R, "matched": matched_R, "choice": leak_R - matched_R}
            for alpha in ALPHAS:
                results[f"stripe_{alpha}"] = -shared_R + alpha * np.maximum(0, leak_R)
        return results

    def combine(self, scored: Sequence[Scored]) -> list[Scored]:
        """Comb: the best of the family on the whole test set (Algorithm 1, line 13).

        Chosen once: an interval, a rank under resampling and a difference are all those of the
        chosen one. Beside it stands `comb_valid`, the one of the family that its validation loss
        would choose without a look at the test set.
        """
        families: dict[tuple[Any, ...], dict[str, Scored]] = {}
        for one in (s for s in scored if s.measurement.ok):
            identity = one.measurement.identity.copy()
            if (name := identity.pop("instantiation")) in FAMILY:
                families.setdefault((*identity.values(), one.measurement.model), {})[name] = one
        combs = []
        for family in families.values():
            if len(family) == len(FAMILY):
                least = min(family.values(), key=lambda s: s.values["ppl"])
                valid = min(family.values(), key=lambda s: s.measurement.facts["valid_loss"])
                combs += [_renamed(least, "comb"), _renamed(valid, "comb_valid")]
        return combs

    def reference(self, row: Row) -> str | None:
        """The predictors without rules stand under the table."""
        return REFERENCES.get(row["instantiation"])

    def heading(self, value: str) -> str:
        """As the papers write it; a plug-in's proxy by its own name."""
        for begin, words in ((SHARED, "EVAL-X "), (DISTILLED, "KL ")):
            if value.startswith(begin):
                return words + self.heading(value.removeprefix(begin))
        value, _, sentences = value.partition("@")
        name, plus, told = value.partition("+")
        heading = HEADINGS.get(name, name.upper() if name in FAMILY else name) + plus + told
        return heading + (f" ({int(sentences):,})" if sentences else "")

    def pivot_order(self, value: str) -> tuple[Any, ...]:
        """Base, the paper's family, other proxies, Comb, the shared ones; the rest behind."""
        order = ("base", "base_tuned", *FAMILY)
        value, _, sentences = value.partition("@")
        behind = [value.startswith(begin) for begin in ("comb", SHARED, DISTILLED)]
        group = len(order) + (1 + behind.index(True) if any(behind) else 0)
        return (order.index(value) if value in order else group, value, int(sentences or 0))

    def ranking(self, by_pivot: Mapping[str, float]) -> float:
        """The shared proxy's, which no choice of words can please; else the best that there is."""
        shared = [v for name, v in by_pivot.items() if name.startswith(SHARED)]
        trained = [v for name, v in by_pivot.items() if not name.startswith(("base", "comb"))]
        return min(shared or trained or by_pivot.values())

    def notes(self, scored: Sequence[Scored]) -> list[str]:
        """What a blind row is there for, and which decisions the gold alignment is scored on."""
        rows = [one.measurement for one in scored if one.measurement.ok]
        notes = [BLIND_NOTE] if any(m.facts.get(BLIND) for m in rows) else []
        of_gold = sorted({m.identity["explainer"] for m in rows if m.facts.get("of_gold")})
        return notes + [f"{name} {OF_GOLD}" for name in of_gold]

    def listings(self, measurements: Sequence[Measurement]) -> Iterator[Listing]:
        """Decisions, with the words that each explainer picked."""
        return listings(measurements)


def _decided(
    predictors: Predictors,
    artefact: Artefact,
    by_decision: Mapping[str, np.ndarray] | None = None,
    hits: bool = True,
) -> Evidence:
    """Sums of what a predictor did, by sentence.

    Args:
        predictors: of the job.
        artefact: the log-likelihoods by decision.
        by_decision: what else is to be summed, (N,) each.
        hits: count the hits of the rules too.
    """
    path, judged = artefact.path / SCORES, predictors.judged
    scores, explained = DecisionScores.load(path), judged.explained
    columns = {"log_likelihood": scores.log_likelihood_N, "correct": scores.correct_N}
    counted_N, facts = np.ones(len(scores.sentence_N), dtype=bool), {}
    if hits and explained.explainer.needs_gold:  # it speaks of the gold word alone
        counted_N, facts = judged.test_rules.label_N == predictors.gold, {"of_gold": True}
    summed = {name: x[counted_N] for name, x in (columns | dict(by_decision or {})).items()}
    number_U, sums = by_unit(scores.sentence_N[counted_N], **summed)
    if hits and (hits_U6 := predictors.hits) is not None:
        hits_U6 = hits_U6[np.isin(np.unique(scores.sentence_N), number_U)]
        sums["hits"], sums["hittable"] = (hits_U6[:, :2] + hits_U6[:, 2:4]).T
        sums["hits_any"], sums["hittable_any"] = hits_U6[:, 4:].T
    made_by = {"judged": judged.judged.fingerprint, "scores": artefact.fingerprint}
    files = {"rules": str(judged.judged.path), "decisions": str(path)}
    return Evidence(Units(explained.texts.test_set, number_U, sums), made_by, facts, files)


def _renamed(chosen: Scored, name: str) -> Scored:
    """A member of the family as the choice of it."""
    identity = chosen.measurement.identity
    own = identity["instantiation"]
    signature = chosen.signature.replace(f"instantiation:{own}", f"instantiation:{name}={own}")
    measurement = replace(chosen.measurement, identity=identity | {"instantiation": name})
    return Scored(measurement, chosen.values, signature, derived=True)
