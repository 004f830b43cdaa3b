"""The rules of one explainer, as judges learn from them and are tested on them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from proxies.narrowed import WIDEST
from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.lazy import Lazy
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.extract import REAL, Scenario
from xnmt_bench.rules.prefix import CHOSEN, with_prefix
from xnmt_bench.rules.table import (
    Rules,
    all_rules,
    differs_from_gold,
    read_columns,
    read_rules,
    shards,
)
from xnmt_bench.store import Stage

log = logging.getLogger(__name__)


class RuleSet(Lazy):
    """The rules of a job's explainer, as the job reads them; nothing is extracted before that.

    Attributes:
        job: whose system and explainer.
        k: words a side.
        prefix: the target-prefix words of its rules; see `rules.prefix`.
        seed: of every judge that is trained.
        system: the NMT system, whose model some judges ask.
        store: where what judges learn and say is kept.
        trainer: how training runs.
        scenario: where the tested decisions come from.
        learned_from: where the decisions come from that judges learn from.
    """

    def __init__(self, job: Job) -> None:
        self.job, self._settings, self.k = job, job.settings, job.settings.k
        self.prefix = job.settings.prefix
        self.seed, self.proxy = job.settings.seed, job.settings.proxy
        self.system, self.store, self.trainer = job.system, job.store, job.options
        self.scenario: Scenario = job.settings.scenario
        self.learned_from: Scenario = job.settings.learned_from
        self.explained = job.explained
        self.decisions = job.explained.decisions

    @property
    def other_prefix(self) -> dict[str, Any]:
        """What of `prefix` decides results; empty where the explainer chooses."""
        return {} if self.prefix == CHOSEN else {"prefix": self.prefix}

    @property
    def tested_view(self) -> dict[str, Any]:
        """What decides the rules that judges are tested on: a part of recipes."""
        return {"rules": self.test_artefact, "k": self.k, **self.other_prefix}

    @cached_property
    def wide(self) -> tuple[bool, bool]:
        """Whether source and target have too many pieces for weights of each.

        Vocabularies that are learnt here are small, and a plan must not make them.
        """
        if not self._settings.nmt.brings_vocabularies:
            return False, False
        source, target = (len(side) > WIDEST for side in self.explained.texts.subwords)
        return source, target

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What decides every judge's numbers besides the columns of its row."""
        job, rules = self.job, self._settings.rules
        reads_translations = REAL in (self.scenario, self.learned_from)
        return {
            "test sentences": job.explained_sentences,
            "seed of the draw": rules.seed,
            "special words": "admitted" if rules.admit_special else "left out",
            "training precision": self.trainer.precision,
            **(job.search_settings if reads_translations else {}),
        }

    @cached_property
    def test_artefact(self) -> Stage:
        """The test set's rules in the store.

        Raises:
            NotApplicable: the explainer does not cover this system or this corpus.
        """
        return self.explained.rules(self.scenario, EVALUATED)

    @cached_property
    def test(self) -> Rules:
        """The test set's rules; raises what `test_artefact` does."""
        # Read once: every judge of the job goes over them, and a test set fits into memory.
        return self._view(all_rules(self.test_artefact.path, EVALUATED, self.k), self.test_split)

    def test_shard(self, number: int) -> Rules:
        """Return the rules of one shard of the test set."""
        rules = read_rules(shards(self.test_artefact.path, EVALUATED)[number], self.k)
        return self._view(rules, self.test_split)

    def _view(self, rules: Rules, split: EncodedSplit) -> Rules:
        """Return stored rules of a split with the configured prefix words."""
        admit_special = self._settings.rules.admit_special
        return with_prefix(rules, self.prefix, split, admit_special)

    @property
    def test_split(self) -> EncodedSplit:
        """The sentences that the test rules are of."""
        return self.decisions.split(EVALUATED, self.scenario)

    @property
    def test_sentences(self) -> int:
        """The number of sentences that the test rules are of."""
        return self.decisions.count_readable(EVALUATED, self.scenario)

    @cached_property
    def target_words(self) -> np.ndarray:
        """The target's own word at each test decision, (N,)."""
        # One column of the same shards, so that its order is that of the rules.
        paths = shards(self.test_artefact.path, EVALUATED)
        return np.concatenate([read_columns(path, ["gold"])["gold"] for path in paths])

    @cached_property
    def counted(self) -> np.ndarray:
        """For which test decisions the explainer gives relevance, (N,).

        An explainer that reads the target's annotation, or a file, gives relevance only for the
        target's own words, one that explains against the target's own word for all other labels.
        """
        is_gold_N = self.test.label_N == self.target_words
        explainer = self.explained.explainer
        if explainer.needs_gold or explainer.of_target_words:
            return is_gold_N
        return ~is_gold_N if explainer.against_gold else np.ones_like(is_gold_N)

    @cached_property
    def train_sentences(self) -> int:
        """The number of explained training sentences that judges learn from.

        Raises:
            XnmtError: `train_sentences` exceeds the number of explained sentences.
        """
        explained = self.decisions.count("train")
        configured = self._settings.train_sentences or explained
        # Silently using fewer would put the row under a size that it does not have.
        if configured > explained:
            capped = self._settings.rules.train_sentences == explained
            advice = "raise rules.train_sentences" if capped else "that is the whole training split"
            raise XnmtError(
                f"train_sentences={configured}, but only {explained} are explained; {advice}"
            )
        return configured

    def count_to_learn(self, option: str, configured: int | None) -> int:
        """Return how many training sentences a judge learns from that needs no rules of them.

        Labels cost one pass a sentence and rules many, so there may be more than are explained.

        Args:
            option: that configures the number.
            configured: the number; None for as many as are explained.

        Raises:
            NotApplicable: the training split has fewer.
        """
        if configured is None:
            return self.train_sentences
        available = len(self.explained.texts.split("train"))
        # Silently using fewer would put the row under a size that it does not have.
        if configured > available:
            raise NotApplicable(f"{option}={configured}: the training split has only {available}")
        return configured

    @cached_property
    def training_artefact(self) -> Stage:
        """The rules of the training sentences in the store.

        Raises:
            NotApplicable: the explainer needs gold annotation that the training split lacks.
        """
        # Checked before anything is extracted, which may take hours.
        if not self.explained.teachable:
            raise NotApplicable("the training sentences have no gold annotation")
        return self.explained.rules(self.learned_from, "train")

    def training(self) -> Iterator[Rules]:
        """Yield the rules of the first `train_sentences` training sentences, shard by shard.

        Decisions that the explainer leaves out are not among them; see `learnable`.
        """
        split = self.decisions.split("train", self.learned_from)
        for path, learnt_N in self._training_shards():
            rules = read_rules(path, self.k).take(np.flatnonzero(learnt_N))
            yield self._view(rules, split)

    @property
    def learnt(self) -> np.ndarray:
        """Which decisions of the first `train_sentences` training sentences are learnt from."""
        return np.concatenate([learnt_N for _, learnt_N in self._training_shards()])

    @property
    def leaves_out(self) -> bool:
        """Whether judges learn from only some of the explainer's training rules."""
        explainer = self.explained.explainer
        return explainer.against_gold or explainer.of_target_words

    def learnable(self, path: Path) -> np.ndarray:
        """Return which decisions of a shard of training rules can be learnt from, (N,).

        An explainer that explains against the target's own word leaves that label out; relevance
        that comes from a file is of that label alone. An explainer that reads gold annotation gives
        rules for every label, and all of them are learnt from.
        """
        if not self.leaves_out:
            return np.ones(pq.read_metadata(path).num_rows, dtype=bool)
        differs_N = differs_from_gold(path)
        return differs_N if self.explained.explainer.against_gold else ~differs_N

    def _training_shards(self) -> Iterator[tuple[Path, np.ndarray]]:
        """Yield the shards, and which of their first decisions are learnt from."""
        # A shard may hold more sentences than are learnt from, so the last one is cut.
        first = self.explained.texts.drawn("train").number[: self.train_sentences]
        for path in shards(self.training_artefact.path, "train"):
            among_first_N = np.isin(read_columns(path, ["sentence"])["sentence"], first)
            if among_first_N.any():
                yield path, self.learnable(path)[: among_first_N.sum()]

    def training_labels(self, sentences: int) -> Stage:
        """Return the system's labels of the first training sentences, in the store."""
        return self.decisions.labels("train", self.learned_from, sentences)
