"""Training of a proxy: empirical risk minimisation (Li et al. 2020, Eq. 7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader

from proxies.base import Proxy
from proxies.data import Decisions, loader
from xnmt_bench.fitting import MONITOR, SeededModule

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

    batch_size: int = 512
    learning_rate: float = 1e-3
    max_epochs: int = 20
    patience: int = 2
    validation_share: float = 0.1


class ProxyTraining(SeededModule):
    """Minimises -log Q(label given rule)."""

    def __init__(
        self, proxy: Proxy, train: Decisions, valid: Decisions, options: ProxyTrainingOptions
    ) -> None:
        super().__init__()
        self.model = proxy
        self._train_set, self._valid_set, self._options = train, valid, options

    def train_dataloader(self) -> DataLoader:
        """This epoch's order."""
        return loader(
            self._train_set, self._options.batch_size, self.seed, self.trainer.current_epoch
        )

    def val_dataloader(self) -> DataLoader:
        """The held-out decisions."""
        return loader(self._valid_set, self._options.batch_size)

    def training_step(self, batch: DecisionBatch, batch_idx: int) -> Tensor:
        """Mean negative log-likelihood in nats."""
        loss = self._loss(batch)
        self.log("train_loss", loss, prog_bar=True, batch_size=len(batch[0]))
        return loss

    def validation_step(self, batch: DecisionBatch, batch_idx: int) -> None:
        """The same on the held-out part."""
        self.log(MONITOR, self._loss(batch), prog_bar=True, batch_size=len(batch[0]))

    def _loss(self, batch: DecisionBatch) -> Tensor:
        label_B, words_BK, positions_BK = batch
        return F.cross_entropy(self.model(words_BK, positions_BK).float(), label_B)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=self._options.learning_rate)


@torch.no_grad()
def log_likelihoods(
    proxy: Proxy, decisions: Decisions, batch_size: int = 2048
) -> tuple[np.ndarray, np.ndarray]:
    """Log Q of each decision's label, and whether Q's first choice is the label; shapes (N,)."""
    proxy.eval()
    scores, correct = [], []
    for label_B, words_BK, positions_BK in loader(decisions, batch_size):
        log_q_BV = proxy(words_BK, positions_BK).log_softmax(-1)
        scores.append(log_q_BV.gather(-1, label_B[:, None])[:, 0])
        correct.append(log_q_BV.argmax(-1) == label_B)
    return torch.cat(scores).double().numpy(), torch.cat(correct).numpy()


@torch.no_grad()
def log_probabilities(
    proxy: Proxy, decisions: Decisions, ids_NM: np.ndarray, batch_size: int = 2048
) -> np.ndarray:
    """Log Q of M words a decision, (N, M)."""
    proxy.eval()
    found, start = [], 0
    for label_B, words_BK, positions_BK in loader(decisions, batch_size):
        ids = torch.as_tensor(ids_NM[start : start + len(label_B)].astype(np.int64))
        found.append(proxy(words_BK, positions_BK).log_softmax(-1).gather(-1, ids))
        start += len(label_B)
    return torch.cat(found).double().numpy()
