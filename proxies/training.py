"""Training of a proxy: empirical risk minimisation (Li et al. 2020, Eq. 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from proxies.base import Proxy
from proxies.data import PackedRules, loader
from xnmt_bench.fitting import MONITOR, SeededModule
from xnmt_bench.options import Count, Natural, Positive, Share

BATCH = 2048  # decisions that are scored together
DecisionBatch = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class ProxyTrainingOptions:
    """What decides a proxy's weights beside the rules.

    Attributes:
        batch_size: decisions a step.
        learning_rate: Adam's.
        max_epochs: at most this many.
        patience: epochs without a better validation loss before stopping.
        validation_share: share of the training sentences held out for validation.
    """

    batch_size: Count = 512
    learning_rate: Positive = 1e-3
    max_epochs: Count = 50
    patience: Natural = 3
    validation_share: Share = 0.1


@dataclass(frozen=True)
class Lessons:
    """What a proxy learns from, in batches of labels, words and positions.

    A label is an id (B,), or a distribution (B, V) to be learnt as a whole.

    Attributes:
        train: the batches of an epoch, from its number.
        valid: the held-out batches, the same for every epoch.
    """

    train: Callable[[int], Iterable[DecisionBatch]]
    valid: Callable[[], Iterable[DecisionBatch]]


class ProxyTraining(SeededModule):
    """Minimises -log Q(label given rule)."""

    def __init__(
        self, proxy: Proxy, lessons: Lessons, options: ProxyTrainingOptions, labels: int
    ) -> None:
        super().__init__()
        self.model, self.choices = proxy, labels
        self._lessons, self._options = lessons, options

    def train_dataloader(self) -> Iterable[DecisionBatch]:
        """Return this epoch's order."""
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
        # In float32 under every precision of training, since sums over V lose digits otherwise.
        # A label that is a distribution gives its cross-entropy.
        loss = F.cross_entropy(self.model(words_BK, positions_BK).float(), label_B)
        self.log(name, loss, prog_bar=True, batch_size=len(label_B))
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return Adam."""
        return torch.optim.Adam(self.parameters(), lr=self._options.learning_rate)


@torch.no_grad()
def _log_q(
    proxy: Proxy, decisions: PackedRules, batch_size: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield labels (B,) and log Q (B, V) of decisions, batch by batch, so that V is never kept."""
    device = next(proxy.eval().parameters()).device
    for batch in loader(decisions, batch_size):
        label_B, words_BK, positions_BK = (column.to(device) for column in batch)
        yield label_B, proxy(words_BK, positions_BK).log_softmax(-1)


def log_likelihoods(
    proxy: Proxy, decisions: PackedRules, batch_size: int = BATCH
) -> tuple[np.ndarray, np.ndarray]:
    """Log Q of each decision's label, and whether Q's first choice is the label; shapes (N,)."""
    scores, correct = [], []
    for label_B, log_q_BV in _log_q(proxy, decisions, batch_size):
        scores.append(log_q_BV.gather(-1, label_B[:, None])[:, 0].cpu())
        correct.append((log_q_BV.argmax(-1) == label_B).cpu())
    return torch.cat(scores).double().numpy(), torch.cat(correct).numpy()


def distributions(
    proxy: Proxy, decisions: PackedRules, batch_size: int = BATCH
) -> Iterator[tuple[slice, Tensor]]:
    """Log Q of the whole vocabulary, (B, V), of some decisions at a time, and which they are."""
    start = 0
    for label_B, log_q_BV in _log_q(proxy, decisions, batch_size):
        yield slice(start, start + len(label_B)), log_q_BV
        start += len(label_B)
