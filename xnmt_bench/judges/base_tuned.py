"""Base, tuned: the NMT model that has learnt to decide from a few words.

Base gives the model input that it has never met: all words but a few switched off. Fine-tuned on
its own labels with random words switched off, the model meets such input in training.
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

from proxies.data import DrawnRules, VisibleWords
from proxies.training import ProxyTrainingOptions
from xnmt_bench.corpora.encoded import EncodedSplit
from xnmt_bench.fitting import MONITOR, SeededModule, clean, fit
from xnmt_bench.judges.judge import Judge
from xnmt_bench.judges.masked import base_log_likelihoods, masked_states
from xnmt_bench.judges.rule_set import RuleSet
from xnmt_bench.judges.trained_proxy import HELD_OUT, held_out
from xnmt_bench.measuring.measurement import CAPPED
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.options import Count
from xnmt_bench.pipeline.settings import plain
from xnmt_bench.rules.table import Rules, sentence_starts
from xnmt_bench.store import Artefact

WEIGHTS = "tuned.safetensors"
# Of the proxies' learning rate: these weights are trained already, and a full step forgets.
LEARNING_RATE_FACTOR = 0.1


class BaseTuned(Judge):
    """The NMT model, fine-tuned on its own labels with random words switched off.

    Args:
        rules: the explainer's rules, which it is tested on.
        sentences: the number of training sentences; null for as many as are explained.
    """

    name = "base_tuned"
    heading = "Base, tuned"
    place = 10
    precedence = 0
    learns_from = "random words"

    def __init__(self, rules: RuleSet, sentences: Count | None = None) -> None:
        super().__init__(rules)
        self.sentences = sentences

    @property
    def row_name(self) -> str:
        """`base_tuned`, or `base_tuned@2000` with a number of sentences of its own."""
        return self.name + (f"@{self.sentences}" if self.sentences else "")

    @property
    def row_heading(self) -> str:
        """Such as `Base, tuned (2,000)`."""
        return self.heading + (f" ({self.sentences:,})" if self.sentences else "")

    @property
    def row_order(self) -> list[Any]:
        """By the number of sentences."""
        return [self.place, self.name, self.sentences or 0]

    @property
    def train_sentences(self) -> int:
        """The number of sentences that it learns from, at most all that there are."""
        available = len(self.rules.explained.texts.split("train"))
        return min(self.sentences or self.rules.train_sentences, available)

    @cached_property
    def trained(self) -> Artefact:
        """The fine-tuned model in the store."""
        rules, config, options = self.rules, self.rules.job.config, self.rules.job.options
        training = ProxyTrainingOptions(**plain(config.proxy.training))

        def work(folder: Path) -> dict[str, Any]:
            sentences = self.train_sentences
            contexts = rules.decisions.visible_words(rules.learned_from, sentences)
            split = rules.decisions.split("train", rules.learned_from, sentences)
            module, facts = fit(
                lambda: _Tuning(
                    self._copy_model(True), split, contexts, rules.k, training, config.seed
                ),
                folder,
                config.seed,
                training.max_epochs,
                training.patience,
                options,
                f"{self.row_name}, k={rules.k}",
                from_start=True,
            )
            save_model(module.model, str(folder / WEIGHTS))  # type: ignore[arg-type]
            clean(folder)
            return dict(facts)

        return rules.job.store.make(
            "tuned",
            work,
            version=1,
            labels=rules.training_labels(self.train_sentences),
            admit_special=rules.decisions.extraction.admit_special,
            k=rules.k,
            training=vars(training),
            seed=config.seed,
            precision=options.precision,
        )

    def _copy_model(self, learns: bool = False) -> NMTModel:
        # A copy, since every other judge and explainer reads the system as it was trained.
        return deepcopy(self.rules.job.system.model).requires_grad_(learns)

    def recipe(self) -> dict[str, Any]:
        """Return the fine-tuned model, which decides every prediction."""
        return {"tuned": self.trained}

    def log_likelihood(self, rules: Rules) -> tuple[np.ndarray, np.ndarray]:
        """Return log P of each label, and whether the label is the model's first choice."""
        model = self._copy_model()
        load_model(model, self.trained.path / WEIGHTS)
        return base_log_likelihoods(model.eval(), self.rules.test_split, rules)

    def made_by(self) -> dict[str, str]:
        """Return the fine-tuned model's fingerprint."""
        return {"learned": self.trained.fingerprint}

    def facts(self) -> dict[str, Any]:
        """Return validation loss, epochs, and whether training ended at its cap."""
        return {key: self.trained.facts[key] for key in ("valid_loss", "epochs", CAPPED)}


class _Tuning(SeededModule):
    """Minimises -log P(label) of the model with all but random words switched off."""

    def __init__(
        self,
        model: NMTModel,
        split: EncodedSplit,
        contexts: VisibleWords,
        k: int,
        options: ProxyTrainingOptions,
        seed: int,
    ) -> None:
        super().__init__()
        self.model, self.choices = model, len(model.target_subwords)
        self._split, self._contexts, self._k, self._options = split, contexts, k, options
        self._cut = held_out(sentence_starts(contexts.sentence_N), options)
        self._seed = seed

    def train_dataloader(self) -> _Batches:
        """Return this epoch's draws, in this epoch's order."""
        epoch, rows = self.trainer.current_epoch, np.arange(self._cut)
        drawn = DrawnRules(self._contexts, rows, self._k, self._seed, epoch)
        order = np.random.default_rng([self._seed, epoch]).permutation(rows)
        return _Batches(drawn, order, self._options.batch_size)

    def val_dataloader(self) -> _Batches:
        """Return the held-out decisions, whose words are drawn once."""
        rows = np.arange(self._cut, len(self._contexts))
        drawn = DrawnRules(self._contexts, rows, self._k, self._seed, -HELD_OUT % 2**32)
        return _Batches(drawn, np.arange(len(rows)), self._options.batch_size)

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        """Return the mean negative log-likelihood in nats."""
        return self._loss("train_loss", batch)

    def validation_step(self, batch: Tensor, batch_idx: int) -> None:
        """Log the loss on the held-out part."""
        self._loss(MONITOR, batch)

    def _loss(self, name: str, batch: Tensor) -> Tensor:
        rows, places = batch[:, 0].cpu().numpy(), batch[:, 1:].cpu().numpy()
        contexts, k = self._contexts, self._k
        # cuDNN's LSTM has no backward pass in evaluation mode, in which nothing is dropped.
        with torch.backends.cudnn.flags(enabled=False):
            states_BD = masked_states(
                self.model,
                self._split,
                contexts.sentence_N[rows],
                contexts.step_N[rows],
                places[:, :k],
                places[:, k:],
            )
        label_B = torch.as_tensor(contexts.label_N[rows].astype(np.int64), device=states_BD.device)
        loss = F.cross_entropy(self.model.logits(states_BD).float(), label_B)
        self.log(name, loss, prog_bar=True, batch_size=len(rows))
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return Adam."""
        return torch.optim.Adam(
            self.parameters(), lr=LEARNING_RATE_FACTOR * self._options.learning_rate
        )


class _Batches:
    """Batches of decisions: their numbers, and the positions (B, 2k) of the words that stay."""

    def __init__(self, drawn: DrawnRules, order: np.ndarray, batch_size: int) -> None:
        self._drawn, self._order, self._batch_size = drawn, order, batch_size

    def __len__(self) -> int:
        return -(-len(self._order) // self._batch_size)

    def __iter__(self) -> Iterator[Tensor]:
        for start in range(0, len(self._order), self._batch_size):
            members = self._order[start : start + self._batch_size]
            positions = self._drawn[members][:, 1 + 2 * self._drawn.k :]
            numbers = self._drawn.rows[members][:, None]
            yield torch.from_numpy(np.concatenate([numbers, positions], axis=1).astype(np.int64))
