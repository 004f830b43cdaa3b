"""Training of a translation model by Lightning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader

from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.engine import rank_and_ranks
from xnmt_bench.errors import XnmtError
from xnmt_bench.fitting import MONITOR, Mode, SeededModule, adam, inverse_square_root
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch, DraftOptions
from xnmt_bench.nmt.batching import PairBatches, loader, steps_of
from xnmt_bench.nmt.training_options import NMTTrainingOptions

UPDATES_A_VALIDATION = 500  # of a training of so many updates, unless configured
TOGETHER = "together"  # the sum of what is looked at besides the loss


class NMTTraining(SeededModule):
    """Maximum-likelihood training under teacher forcing."""

    def __init__(
        self,
        model: NMTModel,
        train: EncodedSplit,
        valid: EncodedSplit,
        options: NMTTrainingOptions,
        looked_at: Mapping[str, Callable[[NMTModel], float]] | None = None,
        validate_every: int | None = None,
    ) -> None:
        """Train a model.

        Args:
            model: with fresh weights, or with those that training starts from.
            train: what it learns from.
            valid: what it is validated on.
            options: what decides the weights.
            looked_at: what is computed of the model after each epoch besides the loss, from 0 to
                100, the greater the better; training then stops by these.
            validate_every: how many steps an epoch of the trainer has, which it ends by validating
                and keeping what it takes to go on; None for a pass over the training split.
        """
        super().__init__()
        self.model, self.choices = model, len(model.target_subwords)
        self.batches = options.batches
        self._train_split, self._valid_split, self._options = train, valid, options
        self._looked_at, self._validate_every = looked_at or {}, validate_every
        if options.max_updates and not validate_every:
            self._validate_every = min(UPDATES_A_VALIDATION, options.max_updates)
        self._counts: dict[int, int] = {}  # batches of each pass
        fields = DraftOptions.__dataclass_fields__
        self._draft_options = DraftOptions(**{name: getattr(options, name) for name in fields})
        if self._looked_at:
            loss: dict[str, Mode] = {MONITOR: "min"} if "loss" in options.stop else {}
            self.monitors = loss | {name: "max" for name in self._looked_at}
            self.kept_by = (TOGETHER, "max")

    def train_dataloader(self) -> DataLoader:
        """Return this epoch's batches, in this epoch's order."""
        return loader(self._batches(self.trainer.current_epoch), self.device)

    def _batches(self, epoch: int) -> PairBatches:
        split, tokens, seed = self._train_split, self._options.batch_tokens, self.seed
        rows = self._options.batch_sentences
        if self._validate_every is None:
            batches = PairBatches(split, tokens, seed, epoch, rows)
            return self._own_share(batches, _steps_of_pass(batches, self._options))
        # The last part is shorter, so that training ends with a whole pass over the split.
        # Counted by the batches of the first pass, so that a cap in epochs means as many steps
        # with any `validate_every`.
        total = _steps(split, self._options, seed)
        every = min(self._validate_every, total)
        batches = steps_of(
            split, tokens, seed, epoch, every * self._options.batches, self._counts, rows
        )
        return self._own_share(batches, min(every, total - epoch * every))

    def _own_share(self, batches: PairBatches, steps: int) -> PairBatches:
        """Return the batches of some steps that fall to this rank.

        What fills no step is dropped, since ranks with unlike numbers of batches would wait for
        ever.
        """
        rank, ranks = rank_and_ranks()
        batches.indices = batches.indices[: steps * self._options.batches][rank::ranks]
        return batches

    @staticmethod
    def max_epochs_of(
        train: EncodedSplit, options: NMTTrainingOptions, seed: int, validate_every: int | None
    ) -> int:
        """Return the greatest number of epochs; each has `validate_every` steps, if given."""
        if options.max_updates and validate_every is None:
            validate_every = UPDATES_A_VALIDATION
        if validate_every is None:
            return options.max_epochs
        return -(-_steps(train, options, seed) // validate_every)

    def val_dataloader(self) -> DataLoader:
        """Return the validation split in corpus order."""
        return loader(PairBatches(self._valid_split, self._options.batch_tokens, None), self.device)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return smoothed cross-entropy a token, in nats."""
        options = self._options
        batch = replace(batch, draft_BU=self.model.training_draft(batch, self._draft_options))
        loss = self._loss(batch, options.label_smoothing, options.context_discount)
        self.log("train_loss", loss, prog_bar=True, batch_size=1)
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Log the cross-entropy a token of the current sentence, unsmoothed, weighted by tokens."""
        batch = replace(batch, draft_BU=self.model.draft(batch.source_BS))
        # Batches have unlike numbers of tokens; weighted by these, the mean is that of the split.
        tokens = int(batch.current_BT.sum())
        self.log(MONITOR, self._loss(batch, 0.0, 0.0), prog_bar=True, batch_size=tokens)

    def on_validation_epoch_end(self) -> None:
        """Log what else training looks at."""
        if self._looked_at:
            values = {name: look(self.model) for name, look in self._looked_at.items()}
            self.log_dict(values | {TOGETHER: sum(values.values())}, batch_size=1)

    def _loss(self, batch: Batch, smoothing: float, discount: float) -> Tensor:
        # A discount of 0 leaves the context's words out altogether.
        mask = batch.target_mask_BT if discount else batch.current_BT
        # Only steps that count reach the output layer, the largest of the model.
        logits, labels = self.model.logits(self.model.states(batch)[mask]), batch.target_BT[mask]
        reduction = "mean" if discount in (0.0, 1.0) else "none"
        # In float32, since bfloat16 is too coarse for a sum over V.
        loss = smoothed_cross_entropy(logits.float(), labels, smoothing, reduction)
        if reduction == "mean":  # all words that are left weigh the same
            return loss
        weights = torch.where(batch.current_BT[mask], 1.0, discount)
        # Divided by the weights, or a batch with much context would have a smaller step.
        return (weights * loss).sum() / weights.sum()

    def configure_optimizers(self) -> Any:
        """Return Adam with the inverse-square-root schedule."""
        rate, warmup = self._options.learning_rate, self._options.warmup_steps
        # Vaswani et al. 2017, section 5.3.
        # A base that stays has no gradients, and needs no state of Adam's.
        learning = [weight for weight in self.parameters() if weight.requires_grad]
        optimizer = adam(learning, rate, betas=(0.9, 0.98), eps=1e-9)
        return {"optimizer": optimizer, "lr_scheduler": inverse_square_root(optimizer, warmup)}


def smoothed_cross_entropy(
    logits_NV: Tensor, labels_N: Tensor, smoothing: float, reduction: str
) -> Tensor:
    """Return cross-entropy with smoothed labels; words of no probability get no part of it.

    Args:
        logits_NV: unnormalised log-probabilities; -inf for words that are never written.
        labels_N: the words.
        smoothing: probability spread over all words that can be written.
        reduction: `mean` or `none`.
    """
    possible_V = logits_NV[0] > -torch.inf if smoothing and len(logits_NV) else None
    if possible_V is not None and not possible_V.all():
        logits_NV = logits_NV[:, possible_V]
        # A label's place among the words that are left.
        labels_N = (possible_V.cumsum(0) - 1)[labels_N]
    return F.cross_entropy(logits_NV, labels_N, label_smoothing=smoothing, reduction=reduction)


def _steps(train: EncodedSplit, options: NMTTrainingOptions, seed: int) -> int:
    """Return the steps of a training that reaches its cap: of updates, or of whole passes."""
    if options.max_updates:
        return options.max_updates
    batches = PairBatches(train, options.batch_tokens, seed, rows=options.batch_sentences)
    return options.max_epochs * _steps_of_pass(batches, options)


def _steps_of_pass(batches: PairBatches, options: NMTTrainingOptions) -> int:
    """Return the steps of a pass over the training pairs.

    Raises:
        XnmtError: there are fewer batches than a step takes.
    """
    if len(batches) < options.batches:
        problem = (
            f"more than the {len(batches)} batches of an epoch, of up to {options.batch_tokens} "
            "tokens each"
        )
        raise XnmtError(f"nmt.training.batches={options.batches}: {problem}")
    return len(batches) // options.batches
