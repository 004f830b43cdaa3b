"""Training of `base_tuned` and `evalx_states` on random words, by Lightning."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from proxies.data import Batches, DrawnRules, VisibleWords
from proxies.lessons import ProxyTrainingOptions
from proxies.narrowed import WIDEST, Pieces
from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.fitting import MONITOR, SeededModule, adam
from xnmt_bench.judges.masked import masked_states
from xnmt_bench.judges.trained_proxy import HELD_OUT, NUMBERS, held_out
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.rules.table import sentence_starts


class Tuning(SeededModule):
    """Minimises -log P(label) of the model with all but random words switched off."""

    # Of the proxies' learning rate: these weights are trained already, and a full step forgets.
    learning_rate_factor = 0.1

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

    @property
    def learnt(self) -> nn.Module:
        """What training changes."""
        return self.model

    def loss(self, states_BD: Tensor, label_B: Tensor) -> Tensor:
        """Return the mean of -log P of labels at states that saw only the random words."""
        if len(self.model.target_subwords) <= WIDEST:
            return F.cross_entropy(self.model.logits(states_BD).float(), label_B)

        def sum_losses(states_RD: Tensor, label_R: Tensor) -> Tensor:
            logits_RV = self.model.logits(states_RD).float()
            return F.cross_entropy(logits_RV, label_R, reduction="sum")

        # Logits of a large vocabulary are made again for gradients, since all of a batch's would
        # fill memory.
        rows = max(1, NUMBERS // len(self.model.target_subwords))
        parts = zip(states_BD.split(rows), label_B.split(rows), strict=True)
        sums = [checkpoint(sum_losses, *part, use_reentrant=False) for part in parts]
        return torch.stack(sums).sum() / len(label_B)

    def train_dataloader(self) -> Batches[Tensor]:
        """Return this epoch's draws, in this epoch's order."""
        epoch, rows = self.trainer.current_epoch, np.arange(self._cut)
        drawn = DrawnRules(self._contexts, rows, self._k, self._seed, epoch)
        order = np.random.default_rng([self._seed, epoch]).permutation(rows)
        return batch_places(drawn, order, self._options.batch_size)

    def val_dataloader(self) -> Batches[Tensor]:
        """Return the held-out decisions, whose words are drawn once."""
        rows = np.arange(self._cut, len(self._contexts))
        # No epoch has this number, so validation never shows what training has drawn.
        drawn = DrawnRules(self._contexts, rows, self._k, self._seed, -HELD_OUT % 2**32)
        return batch_places(drawn, np.arange(len(rows)), self._options.batch_size)

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
        # The system's own labels, not the reference's: a judge predicts decisions.
        label_B = torch.as_tensor(contexts.label_N[rows].astype(np.int64), device=states_BD.device)
        loss = self.loss(states_BD, label_B)
        self.log(name, loss, prog_bar=True, batch_size=len(rows))
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return Adam."""
        learning_rate = self.learning_rate_factor * self._options.learning_rate
        return adam(self.learnt.parameters(), learning_rate)


class ReadoutTraining(Tuning):
    """Minimises -log Q(label) of a network that reads the model's states; the model stays."""

    learning_rate_factor = 1.0

    def __init__(
        self,
        readout: nn.Module,
        pieces: Pieces | None,
        model: NMTModel,
        split: EncodedSplit,
        contexts: VisibleWords,
        k: int,
        options: ProxyTrainingOptions,
        seed: int,
    ) -> None:
        super().__init__(model, split, contexts, k, options, seed)
        self.readout = readout
        self._pieces = pieces

    @property
    def learnt(self) -> nn.Module:
        """What training changes."""
        return self.readout

    def loss(self, states_BD: Tensor, label_B: Tensor) -> Tensor:
        """Return the mean of -log Q of labels at states that saw only the random words."""
        logits = self.readout(states_BD)
        if self._pieces is not None:
            return self._pieces.loss(logits, label_B)
        return F.cross_entropy(logits.float(), label_B)


def batch_places(drawn: DrawnRules, order: np.ndarray, size: int) -> Batches[Tensor]:
    """Return batches of decisions: their numbers, and the positions (B, 2k) of words that stay."""

    def make(members: np.ndarray) -> Tensor:
        # Labels and ids are left out: the system finds them by number and position.
        positions = drawn[members][:, 1 + 2 * drawn.k :]
        numbers = drawn.rows[members][:, None]
        return torch.from_numpy(np.concatenate([numbers, positions], axis=1).astype(np.int64))

    return Batches(order, size, make)
