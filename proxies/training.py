"""Training of a proxy: empirical risk minimisation (Li et al. 2020, Eq. 7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader

from proxies.base import Proxy
from proxies.data import Decisions, loader
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
    max_epochs: Count = 20
    patience: Natural = 2
    validation_share: Share = 0.1


class ProxyTraining(SeededModule):
    """Minimises -log Q(label given rule)."""

    def __init__(
        self, proxy: Proxy, train: Decisions, valid: Decisions, options: ProxyTrainingOptions,
        labels: int,
    ) -> None:  # fmt: skip
        super().__init__()
        self.model, self.choices = proxy, labels
        self._train_set, self._valid_set, self._options = train, valid, options

    def train_dataloader(self) -> DataLoader:
        """This epoch's order."""
        epoch = self.trainer.current_epoch
        return loader(self._train_set, self._options.batch_size, self.seed, epoch)

    def val_dataloader(self) -> DataLoader:
        """The held-out decisions."""
        return loader(self._valid_set, self._options.batch_size)

    def training_step(self, batch: DecisionBatch, batch_idx: int) -> Tensor:
        """Mean negative log-likelihood in nats."""
        return self._loss("train_loss", batch)

    def validation_step(self, batch: DecisionBatch, batch_idx: int) -> None:
        """The same on the held-out part."""
        self._loss(MONITOR, batch)

    def _loss(self, name: str, batch: DecisionBatch) -> Tensor:
        label_B, words_BK, positions_BK = batch
        # In float32 whatever the precision of training, since sums over V lose digits otherwise.
        loss = F.cross_entropy(self.model(words_BK, positions_BK).float(), label_B)
        self.log(name, loss, prog_bar=True, batch_size=len(label_B))
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=self._options.learning_rate)


@torch.no_grad()
def _log_q(proxy: Proxy, decisions: Decisions, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Labels (B,) and log Q (B, V) of decisions, batch by batch, so that V is never kept."""
    proxy.eval()
    for label_B, words_BK, positions_BK in loader(decisions, batch_size):
        yield label_B, proxy(words_BK, positions_BK).log_softmax(-1)


def log_likelihoods(
    proxy: Proxy, decisions: Decisions, batch_size: int = BATCH
) -> tuple[np.ndarray, np.ndarray]:
    """Log Q of each decision's label, and whether Q's first choice is the label; shapes (N,)."""
    scores, correct = [], []
    for label_B, log_q_BV in _log_q(proxy, decisions, batch_size):
        scores.append(log_q_BV.gather(-1, label_B[:, None])[:, 0])
        correct.append(log_q_BV.argmax(-1) == label_B)
    return torch.cat(scores).double().numpy(), torch.cat(correct).numpy()


def log_probabilities(proxy: Proxy, decisions: Decisions, ids_NM: np.ndarray) -> np.ndarray:
    """Log Q of M words a decision, (N, M)."""
    ids = torch.from_numpy(ids_NM.astype(np.int64)).split(BATCH)
    batches = zip(_log_q(proxy, decisions, BATCH), ids, strict=True)
    parts = [log_q_BV.gather(-1, ids_BM) for (_, log_q_BV), ids_BM in batches]
    return torch.cat(parts).double().numpy()
