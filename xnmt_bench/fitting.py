"""Training by Lightning as every stage here needs it: resumable to the last digit.

What a batch draws (its order, its dropout) depends only on the seed and the step, never on what ran
before it in the process, so a run that was killed and started again ends with the same weights.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.loggers import Logger
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

MONITOR = "valid_loss"


@dataclass(frozen=True)
class TrainerOptions:
    """How training runs, as opposed to what is trained.

    Attributes:
        accelerator: Lightning's accelerator.
        precision: Lightning's precision; `bf16-mixed` is the usual other choice.
        progress_bar: show one.
        logger: where metrics go, or None.
    """

    accelerator: str = "auto"
    precision: str = "32-true"
    progress_bar: bool = True
    logger: Logger | None = field(default=None, compare=False)


class SeededModule(pl.LightningModule):
    """A Lightning module whose every training step starts from a seed of its own."""

    seed: int = 0

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Makes this step's dropout a function of the seed and the step alone."""
        # The CPU's generator reads 32 bits only, so the seed has to be mixed into those.
        torch.manual_seed((self.seed * 2_654_435_761 + self.global_step) % 2**32)


class _EarlyStopping(EarlyStopping):
    """Early stopping that remembers, after a kill, that it had already said stop."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.wait_count >= self.patience:
            trainer.should_stop = True


def inverse_square_root(optimizer: torch.optim.Optimizer, warmup_steps: int) -> dict[str, Any]:
    """Lightning's configuration of the Transformer's schedule (Vaswani et al. 2017, 5.3).

    The rate climbs linearly to the optimizer's own during the warm-up and falls with the inverse
    square root of the step after it.
    """

    def factor(step: int) -> float:
        return min((step + 1) / warmup_steps, (warmup_steps / (step + 1)) ** 0.5)

    return {"scheduler": LambdaLR(optimizer, factor), "interval": "step"}


def fit(
    build: Callable[[], SeededModule],
    folder: Path,
    seed: int,
    max_epochs: int,
    patience: int,
    options: TrainerOptions,
    description: str,
) -> tuple[SeededModule, dict[str, float]]:
    """Trains a module to its best validation loss, going on where a killed run stood.

    Args:
        build: makes the module with fresh weights.
        folder: where checkpoints lie while training lasts; `clean` removes them.
        seed: of weights, order and dropout.
        max_epochs: at most this many.
        patience: epochs without a better validation loss before training stops.
        options: device, precision, progress bar, logger.
        description: shown while training.

    Returns:
        The module with its best weights, and the facts `epochs` and `valid_loss`.
    """
    torch.manual_seed(seed)
    module = build()
    module.seed = seed
    checkpoint = ModelCheckpoint(
        folder / "checkpoints", filename="best-{epoch}", monitor=MONITOR, save_last=True
    )
    stopping = _EarlyStopping(MONITOR, patience=patience)
    callbacks: list[pl.Callback] = [checkpoint, stopping]
    if options.progress_bar:
        callbacks.append(_progress_bar(description))
    trainer = pl.Trainer(
        accelerator=options.accelerator,
        devices=1,
        precision=options.precision,  # type: ignore[arg-type]
        logger=options.logger or False,
        callbacks=callbacks,
        max_epochs=max_epochs,
        gradient_clip_val=1.0,
        num_sanity_val_steps=0,
        reload_dataloaders_every_n_epochs=1,  # each epoch has an order of its own
        enable_progress_bar=options.progress_bar,
        enable_model_summary=False,
        log_every_n_steps=20,
    )
    last = folder / "checkpoints" / "last.ckpt"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="pytorch_lightning|lightning_fabric")
        warnings.filterwarnings("ignore", message=".*LeafSpec.*|.*nested tensors.*")
        trainer.fit(module, ckpt_path=str(last) if last.exists() else None, weights_only=True)
    module.load_state_dict(_weights(Path(checkpoint.best_model_path)))
    facts = {"epochs": trainer.current_epoch, MONITOR: float(checkpoint.best_model_score or 0.0)}
    return module.eval().cpu(), facts  # type: ignore[return-value]


def _weights(path: Path) -> dict[str, Tensor]:
    return torch.load(path, map_location="cpu", weights_only=True)["state_dict"]


def clean(folder: Path) -> None:
    """Removes the checkpoints of a training whose result has been saved."""
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)


def _progress_bar(description: str) -> pl.Callback:
    from pytorch_lightning.callbacks import TQDMProgressBar

    class Bar(TQDMProgressBar):
        """Lightning's bar, saying what is being trained."""

        def init_train_tqdm(self) -> Any:
            bar = super().init_train_tqdm()
            bar.set_description(description)
            return bar

        def on_train_epoch_start(self, trainer: pl.Trainer, *args: Any) -> None:
            super().on_train_epoch_start(trainer, *args)
            self.train_progress_bar.set_description(f"{description}, epoch {trainer.current_epoch}")

    return Bar(refresh_rate=10)
