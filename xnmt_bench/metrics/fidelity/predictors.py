"""What a job's predictors say of each test decision, and what is known of the decisions.

A predictor is Base (the NMT model that sees the rule alone), a proxy, or a reference that sees no
rule: `unigram`, the labels' own distribution, or `nmt`, the NMT model with its whole context.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from xnmt_bench.corpora.encoded import EncodedSplit
from xnmt_bench.errors import XnmtError
from xnmt_bench.metrics.fidelity.base import base_log_likelihoods, base_log_probabilities
from xnmt_bench.metrics.fidelity.hit import hit_at_k
from xnmt_bench.metrics.fidelity.kl import kl_divergence
from xnmt_bench.parquet import write_table
from xnmt_bench.pipeline.doubts import about_decisions
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.proxy import SCORES
from xnmt_bench.rules.extract import REAL, TEACHER_FORCING
from xnmt_bench.rules.facets import facets
from xnmt_bench.rules.sample import write_sample
from xnmt_bench.rules.scores import DecisionScores
from xnmt_bench.rules.table import read_columns, shards, write_shard
from xnmt_bench.store import Artefact

FACETS_FILE, KL_FILE = "facets.parquet", "kl.parquet"
HITS_FILE, SAMPLE_FILE = "hits.npy", "sample.json"


class Predictors:
    """The predictors of a job, and what is known of its test decisions."""

    def __init__(self, job: Job) -> None:
        self._job, self.proxy, self._explained = job, job.proxy, job.explained
        self._scenario = self.proxy.scenario

    @cached_property
    def _decided(self) -> dict[str, Any]:
        return self._explained.decided(EVALUATED, self._scenario)

    @cached_property
    def _contexts(self) -> EncodedSplit:
        return self._explained.contexts(EVALUATED, self._scenario)

    @property
    def _recipe(self) -> dict[str, Any]:
        return {"rules": self.proxy.judged, "k": self.proxy.k}

    def _save(self, path: Path, **columns: np.ndarray) -> None:
        """Writes a row for each test decision."""
        rules = self.proxy.test_rules
        table = {"sentence": rules.sentence_N, "step": rules.step_N, **columns}
        write_table(pa.table(table), path)

    @cached_property
    def base(self) -> Artefact:
        """Log-likelihoods of the NMT model itself on the rules alone."""

        def work(folder: Path) -> None:
            rules, model = self.proxy.test_rules, self._job.system.model
            scores = base_log_likelihoods(model, self._contexts, rules)
            DecisionScores(rules.sentence_N, rules.step_N, *scores).save(folder / SCORES)

        return self._job.store.make("base", work, version=2, **self._recipe)

    @cached_property
    def hits(self) -> np.ndarray | None:
        """Hits of the rules by sentence, (U, 4); see `hit_at_k`. None where no gold tells."""

        def work(folder: Path) -> None:
            counts_U4 = None
            if self._scenario != REAL:  # the gold speaks of the reference's words
                sentences, rules = self._job.corpus.sentences(EVALUATED), self.proxy.test_rules
                subwords = self._job.system.subwords
                counts_U4 = hit_at_k(sentences, self._contexts, *subwords, rules)
            np.save(folder / HITS_FILE, np.zeros((0, 4)) if counts_U4 is None else counts_U4)

        made = self._job.store.make("hits", work, version=1, **self._recipe)
        counts_U4 = np.load(made.path / HITS_FILE, allow_pickle=False)
        return counts_U4 if len(counts_U4) else None

    def reference(self, kind: str) -> Artefact:
        """Log-likelihoods without any rule: `unigram`, or `nmt` with its whole context."""
        recipe = self._decided | {"kind": kind}
        if kind == "unigram":
            # The labels of training sentences do not depend on who explained them.
            learned = self._explained.decided("train", self.proxy.learned_from)
            recipe |= {"learned": learned, "train_sentences": self.proxy.train_sentences}

        def work(folder: Path) -> None:
            rules = self.proxy.test_rules
            if kind == "nmt":
                # A label too improbable for single precision is not impossible.
                tiny = np.finfo(np.float32).tiny
                log_p_N = np.log(np.maximum(rules.probability_N.astype(np.float64), tiny))
                first_N1 = self._explained.top_words(self._scenario, words=1)["top_ids"]
                correct_N = first_N1[:, 0] == rules.label_N
            else:
                labels = np.concatenate([r.label_N for r in self.proxy.training_rules()])
                size = len(self._job.system.subwords[1])
                log_p_N, correct_N = unigram(labels, rules.label_N, size)
            DecisionScores(rules.sentence_N, rules.step_N, log_p_N, correct_N).save(folder / SCORES)

        return self._job.store.make("reference", work, version=3, **recipe)

    def kl(self, instantiation: str, words: int) -> Artefact:
        """KL divergence from the NMT model of a predictor: of `base`, or of the proxy.

        Raises:
            XnmtError: the vocabulary has not so many `words` to be told apart.
        """
        size = len(self._job.system.subwords[1])
        if not 1 <= words <= size:
            raise XnmtError(f"metric.fidelity.kl_words={words} is not within 1 and {size}")

        def most_probable(folder: Path) -> None:
            columns = self._explained.top_words(self._scenario, words)
            write_shard(columns, folder / KL_FILE)  # type: ignore[arg-type]

        distribution = self._job.store.make(
            "distribution", most_probable, version=1, words=words, **self._decided
        )
        base = instantiation == "base"

        def work(folder: Path) -> None:
            kept = read_columns(distribution.path / KL_FILE)
            ids_NM, log_p_NM = kept["top_ids"], kept["top_scores"].astype(np.float64)
            if base:
                model, rules = self._job.system.model, self.proxy.test_rules
                log_q_NM = base_log_probabilities(model, self._contexts, rules, ids_NM)
            else:
                log_q_NM = self.proxy.log_probabilities(ids_NM)
            self._save(folder / KL_FILE, kl=kl_divergence(log_p_NM, log_q_NM))

        recipe = {"distribution": distribution, **self._recipe}
        recipe["proxy"] = None if base else self.proxy.trained
        return self._job.store.make("kl", work, version=1, **recipe)

    @cached_property
    def doubts(self) -> list[str]:
        """Why numbers on the system's decisions mean little, if they do."""
        if self._scenario != TEACHER_FORCING:  # elsewhere it decides as the target by definition
            return []
        paths = shards(self.proxy.judged.path, EVALUATED)
        gold_N = np.concatenate([read_columns(path, ["gold"])["gold"] for path in paths])
        thresholds = self._job.config.doubts
        return list(about_decisions(self.proxy.test_rules.label_N, gold_N, thresholds))

    @cached_property
    def facets(self) -> Artefact:
        """What kind of decision each of the test set's is."""

        def work(folder: Path) -> None:
            rules, texts = self.proxy.test_rules, self._explained.texts
            gold = None if self._scenario == REAL else texts.gold(EVALUATED)
            kinds = facets(rules, self._contexts, texts.subwords[1], texts.split("train"), gold)
            self._save(folder / FACETS_FILE, **kinds)

        return self._job.store.make("facets", work, version=1, **self._decided)

    def sample(self, sentences: int) -> Artefact:
        """The first test sentences in pieces, with the labels, for a page to be browsed."""
        count = min(sentences, self._explained.count(EVALUATED))

        def work(folder: Path) -> None:
            rules, subwords = self.proxy.test_rules, self._job.system.subwords
            write_sample(rules, self._contexts, subwords, count, folder / SAMPLE_FILE)

        return self._job.store.make("sample", work, version=1, sample=count, **self._decided)


def unigram(
    train_labels: np.ndarray, test_labels: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """The labels' own distribution over `size` ids, counted in training and smoothed by one.

    Returns:
        Log-likelihood of each test label, and whether it is the most frequent label.
    """
    counts = np.bincount(train_labels, minlength=size) + 1
    log_p = np.log(counts / counts.sum())
    return log_p[test_labels], test_labels == counts.argmax()
