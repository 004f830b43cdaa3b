"""Training of a proxy: empirical risk minimisation (Li et al. 2020, Eq. 7)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from proxies.base import Proxy
from proxies.lessons import DecisionBatch, Lessons, ProxyTrainingOptions
from xnmt_bench.fitting import MONITOR, SeededModule, adam


class ProxyTraining(SeededModule):
    """Minimises -log Q(label given rule)."""

    def __init__(
        self, proxy: Proxy, lessons: Lessons, options: ProxyTrainingOptions, labels: int
    ) -> None:
        super().__init__()
        self.model: Proxy = proxy
        self.choices = labels
        self._lessons, self._options = lessons, options

    def train_dataloader(self) -> Iterable[DecisionBatch]:
        """Return this epoch's order."""
        # By the trainer's epoch, which a resumed training restores.
        return self._lessons.train(self.trainer.current_epoch)

    def val_dataloader(self) -> Iterable[DecisionBatch]:
        """Return the held-out decisions."""
        return self._lessons.valid()

    def training_step(self, batch: DecisionBatch, batch_idx: int) -> Tensor:
        """Return mean negative log-likelihood in nats."""
        return self._loss("train_loss", batch)

    def validation_step(self, batch: DecisionBatch, batch_idx: int) -> None:
        """Log the loss on the held-out part."""
        self._loss(MONITOR, batch)

    def _loss(self, name: str, batch: DecisionBatch) -> Tensor:
        label_B, words_BK, positions_BK = batch
        loss = self.model.loss(words_BK, positions_BK, label_B)
        self.log(name, loss, prog_bar=True, batch_size=len(label_B))
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return Adam."""
        return adam(self.parameters(), self._options.learning_rate)
