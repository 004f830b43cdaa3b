"""Leak: what an explainer's choice of words tells its own proxy beyond the words themselves.

Words are chosen with the label in hand, and a proxy that learns from such rules learns the choosing
too. `leak` is what it gains by that in nats: the mean over decisions of log Q_own - log Q_shared of
the label, where Q_own goes on from Q_shared's weights with the explainer's own rules. STRIPE-X
(Puli, Nguyen and Ranganath 2024, arXiv 2411.02664) adds it to EVAL-X's loss as a penalty.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig

from proxies.data import loader
from proxies.training import Lessons, ProxyTrainingOptions
from xnmt_bench.fitting import TrainerOptions
from xnmt_bench.metrics.fidelity.matched import Matches
from xnmt_bench.pipeline.proxy import (
    Judged,
    OwnProxy,
    SharedProxy,
    TrainedProxy,
    decisions_of,
    held_out,
)
from xnmt_bench.rules.table import Rules, sentence_starts
from xnmt_bench.store import Store


class FromShared(OwnProxy):
    """Q_own: the shared proxy, trained further on an explainer's own rules."""

    def __init__(
        self, config: DictConfig, store: Store, judged: Judged, options: TrainerOptions,
        shared: SharedProxy,
    ) -> None:  # fmt: skip
        super().__init__(config, store, judged, options)
        self._shared = shared

    @property
    def initial(self) -> TrainedProxy:
        """The shared proxy."""
        return self._shared

    @property
    def description(self) -> str:
        """Such as `evalx_sa, further on attention, k=1`."""
        return f"{self._shared.name}, further on {self._config.explainer.name}, k={self.k}"


class OnMatched(FromShared):
    """Q_matched: the same, with each rule labelled by another decision that holds its words."""

    def learned_from(self) -> dict[str, Any]:
        """The explainer's rules, and what other labels are drawn from."""
        return super().learned_from() | {"matched": self._shared.learned_from()}

    def lessons(self, folder: Path, training: ProxyTrainingOptions) -> Lessons:
        """The rules under the labels of other decisions; those that have none are left out."""
        decisions = self.rules.explained.decisions
        contexts = decisions.all_contexts(self.rules.learned_from, self.train_sentences)
        rules = Rules(
            *map(np.concatenate, zip(*(vars(r).values() for r in self.read_rules()), strict=True))
        )
        matches, seed = Matches(contexts, self.k), self._config.seed
        generator, packed = np.random.default_rng(seed), decisions_of(rules)
        words_NK = packed[:, 1 : 1 + 2 * self.k]
        for own, words_K in enumerate(words_NK):
            found = matches.label(words_K, own, generator)
            packed[own, 0] = -1 if found is None else found
        kept = packed[:, 0] >= 0
        packed, size = packed[kept], training.batch_size
        cut = held_out(sentence_starts(rules.sentence_N[kept]), training)
        return Lessons(
            lambda epoch: loader(packed[:cut], size, seed, epoch),
            lambda: loader(packed[cut:], size),
        )
