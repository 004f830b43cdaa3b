"""Base, tuned: the NMT system that has learnt to decide from a few words.

Base hands the system input that it has never met (all words but a few switched off). Fine-tuned on
its own labels with random words switched off, it is a Base that is on its distribution.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_model, save_model
from torch import Tensor

from proxies.data import Contexts, Drawn
from proxies.training import ProxyTrainingOptions
from xnmt_bench.corpora.encoded import EncodedSplit
from xnmt_bench.fitting import MONITOR, SeededModule, clean, fit
from xnmt_bench.metrics.fidelity.base import base_log_likelihoods, masked_states
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.proxy import HELD_OUT, SCORES, held_out
from xnmt_bench.pipeline.settings import plain
from xnmt_bench.rules.scores import DecisionScores
from xnmt_bench.rules.table import sentence_starts
from xnmt_bench.store import Artefact

WEIGHTS = "tuned.safetensors"
GENTLE = 0.1  # of the proxies' learning rate: these weights know something already


class TunedBase:
    """The system fine-tuned on its own labels, and what it says of an explainer's rules.

    Args:
        job: whose system, options of the proxies' training, and rules.
        sentences: how many training sentences it learns from; as many as are explained, if not
            given.
    """

    def __init__(self, job: Job, sentences: int | None = None) -> None:
        self._job = job
        self.name = "base_tuned" + (f"@{sentences}" if sentences else "")
        there = len(job.judged.explained.texts.split("train"))
        self.train_sentences = min(sentences or job.judged.train_sentences, there)

    @cached_property
    def trained(self) -> Artefact:
        """The fine-tuned system."""
        job, rules = self._job, self._job.judged
        decisions, scenario = rules.explained.decisions, rules.learned_from
        training, seed = ProxyTrainingOptions(**plain(job.config.proxy.training)), job.config.seed

        def work(folder: Path) -> dict[str, Any]:
            contexts = decisions.all_contexts(scenario, self.train_sentences)
            split = decisions.contexts("train", scenario, self.train_sentences)
            module, facts = fit(
                lambda: _Tuning(self._copy(True), split, contexts, rules.k, training, seed),
                folder, seed, training.max_epochs, training.patience, job.options,
                f"{self.name}, k={rules.k}", from_start=True,
            )  # fmt: skip
            save_model(module.model, str(folder / WEIGHTS))  # type: ignore[arg-type]
            clean(folder)
            return facts

        return job.store.make(
            "tuned", work, version=1,
            labels=decisions.labels("train", scenario, self.train_sentences),
            admit_special=decisions.extraction.admit_special, k=rules.k, training=vars(training),
            seed=job.config.seed, precision=job.options.precision,
        )  # fmt: skip

    def _copy(self, learns: bool = False) -> NMTModel:
        return deepcopy(self._job.system.model).requires_grad_(learns)

    @cached_property
    def tested(self) -> Artefact:
        """Its log-likelihoods on the test set's rules."""

        def work(folder: Path) -> None:
            model, rules = self._copy(), self._job.judged
            load_model(model, self.trained.path / WEIGHTS)
            contexts = rules.explained.decisions.contexts(EVALUATED, rules.scenario)
            found = base_log_likelihoods(model.eval(), contexts, rules.test_rules)
            decided = (rules.test_rules.sentence_N, rules.test_rules.step_N)
            DecisionScores(*decided, *found).save(folder / SCORES)

        rules = self._job.judged.judged
        return self._job.store.make("base", work, version=3, tuned=self.trained, rules=rules)


class _Tuning(SeededModule):
    """Minimises -log P(label) of the system where all but random words are switched off."""

    def __init__(
        self, model: NMTModel, split: EncodedSplit, contexts: Contexts, k: int,
        options: ProxyTrainingOptions, seed: int,
    ) -> None:  # fmt: skip
        super().__init__()
        self.model, self.choices = model, len(model.target_subwords)
        self._split, self._contexts, self._k, self._options = split, contexts, k, options
        self._cut = held_out(sentence_starts(contexts.sentence_N), options)
        self._draws = seed

    def train_dataloader(self) -> _Batches:
        """This epoch's draws in this epoch's order."""
        epoch, rows = self.trainer.current_epoch, np.arange(self._cut)
        drawn = Drawn(self._contexts, rows, self._k, self._draws, epoch)
        order = np.random.default_rng([self._draws, epoch]).permutation(rows)
        return _Batches(drawn, order, self._options.batch_size)

    def val_dataloader(self) -> _Batches:
        """The held-out decisions, drawn once and for all."""
        rows = np.arange(self._cut, len(self._contexts))
        drawn = Drawn(self._contexts, rows, self._k, self._draws, -HELD_OUT % 2**32)
        return _Batches(drawn, np.arange(len(rows)), self._options.batch_size)

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        """Mean negative log-likelihood in nats."""
        return self._loss("train_loss", batch)

    def validation_step(self, batch: Tensor, batch_idx: int) -> None:
        """The same on the held-out part."""
        self._loss(MONITOR, batch)

    def _loss(self, name: str, batch: Tensor) -> Tensor:
        rows, places = batch[:, 0].cpu().numpy(), batch[:, 1:].cpu().numpy()
        contexts, k = self._contexts, self._k
        # cuDNN's LSTM has no backward pass in evaluation mode, in which nothing is dropped.
        with torch.backends.cudnn.flags(enabled=False):
            states_BD = masked_states(
                self.model, self._split, contexts.sentence_N[rows], contexts.step_N[rows],
                places[:, :k], places[:, k:],
            )  # fmt: skip
        label_B = torch.as_tensor(contexts.label_N[rows].astype(np.int64), device=states_BD.device)
        loss = F.cross_entropy(self.model.logits(states_BD).float(), label_B)
        self.log(name, loss, prog_bar=True, batch_size=len(rows))
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=GENTLE * self._options.learning_rate)


class _Batches:
    """Batches of decisions: their numbers, and the positions (B, 2k) of the words that stay."""

    def __init__(self, drawn: Drawn, order: np.ndarray, batch_size: int) -> None:
        self._drawn, self._order, self._batch_size = drawn, order, batch_size

    def __len__(self) -> int:
        return -(-len(self._order) // self._batch_size)

    def __iter__(self) -> Iterator[Tensor]:
        for start in range(0, len(self._order), self._batch_size):
            members = self._order[start : start + self._batch_size]
            positions = self._drawn[members][:, 1 + 2 * self._drawn.k :]
            numbers = self._drawn.rows[members][:, None]
            yield torch.from_numpy(np.concatenate([numbers, positions], axis=1).astype(np.int64))
