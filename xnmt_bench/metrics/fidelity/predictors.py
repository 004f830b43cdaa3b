"""What a job's predictors say of each test decision, and what is known of the decisions.

A predictor is Base (the NMT model that sees the rule alone), a trained judge, or a reference that
sees no rule: `unigram`, the labels' own distribution, or `nmt`, the NMT model with all it can see.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from proxies.training import distributions
from xnmt_bench.corpora.encoded import EncodedSplit
from xnmt_bench.device import device_of
from xnmt_bench.measuring.measurement import CAPPED
from xnmt_bench.metrics.fidelity.base import base_distributions, base_log_likelihoods, room
from xnmt_bench.metrics.fidelity.divergence import DistilledProxy, divergences
from xnmt_bench.metrics.fidelity.hit import hit_at_k
from xnmt_bench.nmt import output
from xnmt_bench.parquet import write_table
from xnmt_bench.pipeline.doubts import about_decisions
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.proxy import SCORES, decisions_of
from xnmt_bench.rules.extract import REAL, TEACHER_FORCING
from xnmt_bench.rules.facets import facets
from xnmt_bench.rules.sample import write_sample
from xnmt_bench.rules.scores import DecisionScores
from xnmt_bench.rules.states import write_states
from xnmt_bench.rules.table import read_columns, shards
from xnmt_bench.store import Artefact

FACETS_FILE, KL_FILE = "facets.parquet", "kl.parquet"
HITS_FILE, SAMPLE_FILE, STATES_FILE = "hits.npy", "sample.json", "states.tmp"


class Predictors:
    """The predictors of a job that nobody trains, and what is known of its test decisions."""

    def __init__(self, job: Job) -> None:
        self._job, self.judged, self._explained = job, job.judged, job.explained
        self._decisions, self._scenario = job.explained.decisions, job.judged.scenario

    @cached_property
    def _decided(self) -> dict[str, Any]:
        return self._decisions.decided(EVALUATED, self._scenario)

    @cached_property
    def _contexts(self) -> EncodedSplit:
        return self._decisions.contexts(EVALUATED, self._scenario)

    @property
    def _recipe(self) -> dict[str, Any]:
        return {"rules": self.judged.judged, "k": self.judged.k}

    def _save(self, path: Path, **columns: np.ndarray) -> None:
        """Writes a row for each test decision."""
        rules = self.judged.test_rules
        table = {"sentence": rules.sentence_N, "step": rules.step_N, **columns}
        write_table(pa.table(table), path)

    @cached_property
    def base(self) -> Artefact:
        """Log-likelihoods of the NMT model itself on the rules alone."""

        def work(folder: Path) -> None:
            rules, model = self.judged.test_rules, self._job.system.model
            scores = base_log_likelihoods(model, self._contexts, rules)
            DecisionScores(rules.sentence_N, rules.step_N, *scores).save(folder / SCORES)

        return self._job.store.make("base", work, version=3, **self._recipe)

    @cached_property
    def hits(self) -> np.ndarray | None:
        """Hits of the rules by sentence, (U, 6); see `hit_at_k`. None where no gold tells."""

        def work(folder: Path) -> None:
            counts_U6 = None
            if self._scenario != REAL:  # the gold speaks of the reference's words
                sentences, rules = self._job.corpus.sentences(EVALUATED), self.judged.test_rules
                subwords = self._job.system.subwords
                counts_U6 = hit_at_k(sentences, self._contexts, *subwords, rules)
            np.save(folder / HITS_FILE, np.zeros((0, 6)) if counts_U6 is None else counts_U6)

        made = self._job.store.make("hits", work, version=2, **self._recipe)
        counts_U6 = np.load(made.path / HITS_FILE, allow_pickle=False)
        return counts_U6 if len(counts_U6) else None

    def reference(self, kind: str) -> Artefact:
        """Log-likelihoods without any rule: `unigram`, or `nmt` with its whole context."""
        recipe, learned_from = self._decided | {"kind": kind}, self.judged.learned_from
        if kind == "unigram":
            count = self.judged.train_sentences
            recipe["learned"] = self._decisions.labels("train", learned_from, count)

        def work(folder: Path) -> None:
            rules = self.judged.test_rules
            if kind == "nmt":
                # A label too improbable for single precision is not impossible.
                tiny = np.finfo(np.float32).tiny
                log_p_N = np.log(np.maximum(rules.probability_N.astype(np.float64), tiny))
                correct_N = self._first_choices(folder / STATES_FILE) == rules.label_N
            else:
                shared = shards(recipe["learned"].path, "train")
                labels = np.concatenate([read_columns(path, ["label"])["label"] for path in shared])
                size = len(self._job.system.subwords[1])
                log_p_N, correct_N = unigram(labels, rules.label_N, size)
            DecisionScores(rules.sentence_N, rules.step_N, log_p_N, correct_N).save(folder / SCORES)

        return self._job.store.make("reference", work, version=5, **recipe)

    @torch.no_grad()
    def _first_choices(self, path: Path) -> np.ndarray:
        """The system's most probable word at each test decision."""
        model, states_ND = self._job.system.model, self._states(path)
        first_N = np.empty(len(states_ND), dtype=np.int64)
        for start in range(0, len(states_ND), output.ROWS):
            rows = slice(start, start + output.ROWS)
            states = torch.as_tensor(np.array(states_ND[rows]), device=device_of(model))
            first_N[rows] = model.decide(states)[0].cpu().numpy()
        path.unlink()
        return first_N

    def _states(self, path: Path) -> np.ndarray:
        """The system's states at the test decisions."""
        count = self._decisions.count(EVALUATED)
        return write_states(self._job.system.model, self._contexts, count, path)

    def kl(self, proxy: DistilledProxy | None) -> Artefact:
        """KL divergence from the NMT model of a proxy, or of Base, at each test decision."""

        def work(folder: Path) -> None:
            model, rules = self._job.system.model, self.judged.test_rules
            states_ND = self._states(folder / STATES_FILE)

            if proxy:
                predicted = distributions(proxy.open(), decisions_of(rules))
                kl_N = divergences(model, states_ND, predicted)
            else:
                kl_N = self._kl_of_base(states_ND)
            self._save(folder / KL_FILE, kl=kl_N)
            (folder / STATES_FILE).unlink()

        recipe = self._recipe | {"proxy": proxy.trained if proxy else None}
        return self._job.store.make("kl", work, version=2, **recipe)

    def _kl_of_base(self, states_ND: np.ndarray) -> np.ndarray:
        model, split, rules = self._job.system.model, self._contexts, self.judged.test_rules

        def found(positions: int) -> np.ndarray:
            predicted = base_distributions(model, split, rules, positions)
            return divergences(model, states_ND, predicted)

        return room().tried(device_of(model), found)

    @cached_property
    def gold(self) -> np.ndarray:
        """The target's own word at each test decision; (N,)."""
        paths = shards(self.judged.judged.path, EVALUATED)
        return np.concatenate([read_columns(path, ["gold"])["gold"] for path in paths])

    @property
    def capped(self) -> bool:
        """Whether the system was trained here, and that ended at its cap of epochs."""
        system = self._job.system
        return not self._job.config.nmt.path and bool(system.trained.facts.get(CAPPED))

    @cached_property
    def doubts(self) -> list[str]:
        """Why numbers on the system's decisions mean little, if they do."""
        if self._scenario != TEACHER_FORCING:  # elsewhere it decides as the target by definition
            return []
        thresholds = self._job.config.doubts
        return list(about_decisions(self.judged.test_rules.label_N, self.gold, thresholds))

    @cached_property
    def facets(self) -> Artefact:
        """What kind of decision each of the test set's is."""

        def work(folder: Path) -> None:
            rules, texts = self.judged.test_rules, self._explained.texts
            gold = None if self._scenario == REAL else texts.gold(EVALUATED)
            kinds = facets(rules, self._contexts, texts.subwords[1], texts.split("train"), gold)
            self._save(folder / FACETS_FILE, **kinds)

        return self._job.store.make("facets", work, version=1, **self._decided)

    def sample(self, sentences: int) -> Artefact:
        """The first test sentences in pieces, with the labels, for a page to be browsed."""
        count = min(sentences, self._decisions.count(EVALUATED))

        def work(folder: Path) -> None:
            rules, subwords = self.judged.test_rules, self._job.system.subwords
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
