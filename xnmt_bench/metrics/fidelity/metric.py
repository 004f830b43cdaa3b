"""Fidelity as a metric: its rows, its results, and what is read off them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from xnmt_bench.errors import XnmtError
from xnmt_bench.metrics.fidelity.browse import browse
from xnmt_bench.metrics.fidelity.predictors import FACETS_FILE, KL_FILE, SAMPLE_FILE, Predictors
from xnmt_bench.metrics.measurement import DOUBTS, Evidence, Measurement, Planned, Scored
from xnmt_bench.metrics.metric import Column, Key, Row, Section, SumMetric, count, percent, ratio
from xnmt_bench.metrics.units import Units, by_unit
from xnmt_bench.options import Count, Natural
from xnmt_bench.parquet import read_table
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.proxy import SCORES
from xnmt_bench.registry import unknown
from xnmt_bench.rules.extract import LABELLING, TEACHER_FORCING
from xnmt_bench.rules.scores import DecisionScores
from xnmt_bench.store import Artefact

FAMILY = ("fn", "rn", "sa")  # the paper's proxies, whose best is Comb
HEADINGS = {"base": "Base", "fn": "FN", "rn": "RN", "sa": "SA", "comb": "Comb"}
REFERENCES = {
    "unigram": "the labels' own distribution, which no rule can help",
    "nmt": "the NMT model's own, with its whole context",
}


class Fidelity(SumMetric):
    """Perplexity of predictors that see an explainer's words alone (Li et al. 2020, Eq. 7).

    A unit is a sentence; its sums are log-likelihood, decisions, right first choices, and where
    they are known KL divergence and hits.

    Args:
        kl_words: such as 20: disagreement also as KL over the NMT model's top words and the rest.
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
            note="KL divergence in nats of the proxy's distribution from the NMT model's, over the "
            "NMT model's top words and the rest as one, with its 95 % bootstrap interval over "
            "sentences; lower is more faithful.",
        ),
        Column("agreement", "agreement", percent, "higher", interval=True, shown=False),
        Column("decisions", "decisions", count, shown=False),
        Column("hit_at_k", "hit@k", percent, "higher"),
    )
    pivot = "instantiation"
    csv_only = ("comb_valid",)

    def __init__(self, kl_words: Count | None = None, browsed: Natural = 50) -> None:
        self.kl_words, self.browsed = kl_words, browsed

    def measure(self, job: Job) -> Iterator[Planned]:
        """Base, the proxy and the reference rows.

        Raises:
            XnmtError: k is larger than what rules are extracted with, or there is no such scenario.
        """
        config = job.config
        if not 1 <= config.k <= config.rules.largest_k:
            largest = config.rules.largest_k
            raise XnmtError(f"k={config.k} is not within 1 and {largest}, the largest k")
        for key in ("scenario", "learned_from"):
            if config[key] not in LABELLING:
                raise XnmtError(f"{key}: {unknown('scenario', config[key], LABELLING)}")
        predictors = Predictors(job)
        proxy = predictors.proxy

        told = {key: config[key] for key in ("k", "scenario", "learned_from")}
        told["train_sentences"] = proxy.train_sentences

        def row(name: str, measured: Callable[[Predictors, str], Evidence], **keys: Any) -> Planned:
            make, identity = partial(measured, predictors, name), told | {"instantiation": name}
            return self.plan(job, make, explained=True, **(identity | keys))

        yield row("base", self._decided)  # its seed is the explainer's: itself it draws nothing
        yield row(proxy.name, self._decided, seed=config.seed)
        if not proxy.applies:  # without rules there are no decisions to refer to
            return
        anybody = {"explainer": "", "k": "", "seed": ""}
        yield row("unigram", self._reference, **anybody)
        yield row("nmt", self._reference, **anybody, train_sentences="", learned_from="")

    def _decided(self, predictors: Predictors, instantiation: str) -> Evidence:
        """What a predictor with rules did on each sentence."""
        extra, proxy = {}, predictors.proxy
        base = instantiation == "base"
        artefact = predictors.base if base else proxy.tested
        made_by = {
            "rules": proxy.rules.fingerprint,
            "judged": proxy.judged.fingerprint,
            "scores": artefact.fingerprint,
        }
        if self.kl_words is not None:
            kl = predictors.kl(instantiation, self.kl_words)
            extra["kl"] = read_table(kl.path / KL_FILE, ["kl"])["kl"].to_numpy()
            made_by["kl"] = f"{kl.fingerprint}@{self.kl_words}"
        units, decisions = _units(predictors, artefact, extra)
        if (hits_U4 := predictors.hits) is not None:
            hits_U, hittable_U = (hits_U4[:, :2] + hits_U4[:, 2:]).T  # of both sides together
            more = {"hits": hits_U, "hittable": hittable_U}
            units = replace(units, columns={**units.columns, **more})
        files = {"rules": str(proxy.judged.path), "decisions": decisions}
        if (training := proxy.rules.path / "train").is_dir():
            files["training_rules"] = str(training.parent)
        known = () if base else ("valid_loss", "epochs")
        return Evidence(units, made_by, {key: proxy.trained.facts[key] for key in known}, files)

    def _reference(self, predictors: Predictors, kind: str) -> Evidence:
        """What a predictor without rules did, and what is known of the decisions."""
        artefact = predictors.reference(kind)
        units, decisions = _units(predictors, artefact, {})
        files = {"decisions": decisions}
        if kind == "nmt":  # of one row a scenario, since they are the same under every explainer
            files["facets"] = str(predictors.facets.path / FACETS_FILE)
            files["sample"] = str(predictors.sample(self.browsed).path / SAMPLE_FILE)
        facts = {DOUBTS: predictors.doubts} if kind == "nmt" else {}
        return Evidence(units, {"scores": artefact.fingerprint}, facts, files)

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
        """As the paper writes it; a plug-in's proxy by its own name."""
        return HEADINGS.get(value, value)

    def pivot_order(self, value: str) -> tuple[Any, ...]:
        """Base, the paper's family, other proxies, Comb; `comb_valid` is for the CSV."""
        order = ("base", *FAMILY)
        others = len(order) + value.startswith("comb")
        return (order.index(value) if value in order else others, value)

    def ranking(self, by_pivot: Mapping[str, float]) -> float:
        """The best of the trained proxies; Base's where there is none."""
        trained = [v for name, v in by_pivot.items() if name not in ("base", "comb")]
        return min(trained or by_pivot.values())

    def sections(self, measurements: Sequence[Measurement]) -> list[Section]:
        """Sentences to browse, with the words that each explainer picked."""
        return browse(measurements)


def _units(
    predictors: Predictors, artefact: Artefact, extra: dict[str, np.ndarray]
) -> tuple[Units, str]:
    """Sums of what a predictor did, by sentence; and the file of what it did by decision."""
    path = artefact.path / SCORES
    scores = DecisionScores.load(path)
    sums = {"log_likelihood": scores.log_likelihood_N, "correct": scores.correct_N, **extra}
    number_U, columns = by_unit(scores.sentence_N, **sums)
    return Units(predictors.proxy.explained.texts.test_set, number_U, columns), str(path)


def _renamed(chosen: Scored, name: str) -> Scored:
    """A member of the family as the choice of it."""
    identity = chosen.measurement.identity
    own = identity["instantiation"]
    signature = chosen.signature.replace(f"instantiation:{own}", f"instantiation:{name}={own}")
    measurement = replace(chosen.measurement, identity=identity | {"instantiation": name})
    return Scored(measurement, chosen.values, signature, derived=True)
