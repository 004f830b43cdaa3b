"""Training by Lightning as every stage here needs it: resumable to the last digit.

What a batch draws (its order, its dropout) depends only on the seed and the step, never on what ran
before it in the process, so a run that was killed and started again ends with the same weights.
"""

from __future__ import annotations

import logging
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Literal
from zipfile import ZipFile

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.plugins.io import TorchCheckpointIO
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from xnmt_bench.engine import leave_to_first_rank, lightning_ranks, rank_and_ranks
from xnmt_bench.errors import XnmtError, refusal
from xnmt_bench.progress import Stage
from xnmt_bench.store import CHECKPOINTS, is_sealed, replacing, seal, unlink_sealed
from xnmt_bench.trainer import TrainerOptions

log = logging.getLogger(__name__)
logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)  # its import asks for greetings
MONITOR = "valid_loss"
Mode = Literal["min", "max"]
LOGGED_STEPS = 20
HOPELESS = 2  # times the loss of an even guess; a fresh network may begin a little above it


class SeededModule(pl.LightningModule):
    """A Lightning module whose every training step starts from a seed of its own.

    Attributes:
        batches: of a step, over all ranks; `train_dataloader` gives only this rank's.
        choices: labels to choose from.
        monitors: what is looked at after each epoch, and which way is better: `min` or `max`;
            training stops when none of them gets better any more.
        kept_by: which value the epoch is chosen by whose weights are kept; among what is logged.
    """

    seed: int = 0
    batches: int = 1
    choices: int
    monitors: Mapping[str, Mode] = MappingProxyType({MONITOR: "min"})
    kept_by: tuple[str, Mode] = (MONITOR, "min")

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Make this step's dropout a function of only the seed and the step."""
        rank, ranks = rank_and_ranks()
        part = (batch_idx * ranks + rank) % self.batches  # of the step, the same in any rank
        # The CPU's generator reads 32 bits only, so the seed has to be mixed into those.
        seed = (self.seed * 2_654_435_761 + self.global_step * self.batches + part) % 2**32
        if self.device.type == "cpu":
            # `torch.manual_seed` also seeds GPUs: where none was used yet, it formats the call
            # stack for a later error, in every step.
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)


class _Converged(pl.Callback):
    """Ends a training when nothing that is looked at gets better any more.

    It remembers, after a kill, what it had seen, and that it had already said stop.
    """

    def __init__(self, monitors: Mapping[str, Mode], patience: int, kept_by: str) -> None:
        self._monitors, self._patience = monitors, patience
        self._names = sorted({MONITOR, kept_by, *monitors})
        self.curve: list[dict[str, float]] = []  # what was seen, epoch by epoch

    @property
    def ended(self) -> bool:
        """Whether every value has been waited for as long as it may be."""
        # Even with patience 0, one epoch that is not better has to pass.
        return all(self._waited(name) >= max(1, self._patience) for name in self._monitors)

    def _waited(self, name: str) -> int:
        """Return epochs since a value was better than ever before."""
        values = [epoch[name] for epoch in self.curve]
        best = {"min": min, "max": max}[self._monitors[name]](values, default=0.0)
        return len(values) - 1 - values.index(best) if values else -1

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop at once where a training goes on that had ended."""
        trainer.should_stop |= self.ended

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Look at an epoch before its checkpoint is written."""
        if trainer.state.fn == "fit":
            values = {name: float(trainer.callback_metrics[name]) for name in self._names}
            # Each rank has validated all sentences; what one of them saw decides for all.
            values = trainer.strategy.broadcast(values)
            # Kept in checkpoints, so that a resumed training waits no longer than one that ran
            # through.
            self.curve.append({"step": trainer.global_step, **values})
            trainer.should_stop |= self.ended

    def state_dict(self) -> dict[str, Any]:
        """Return the epochs and losses so far, for a checkpoint."""
        return {"curve": self.curve}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.curve = state_dict["curve"]


def adam(
    weights: Iterable[torch.nn.Parameter], learning_rate: float, **options: Any
) -> torch.optim.Adam:
    """Return Adam that updates all weights in one operation.

    Args:
        weights: what it learns.
        learning_rate: the step size.
        options: further ones of `torch.optim.Adam`, such as `betas`.
    """
    optimizer = torch.optim.Adam(weights, lr=learning_rate, fused=True, **options)
    # Fused optimizers claim to unscale gradients, and Lightning refuses to clip those of such an
    # optimizer under mixed precision. Without the claim the scaler unscales them first.
    optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]
    return optimizer


def inverse_square_root(optimizer: torch.optim.Optimizer, warmup_steps: int) -> dict[str, Any]:
    """Return Lightning's configuration of the Transformer's schedule (Vaswani et al. 2017, 5.3).

    The rate climbs linearly to the optimizer's own during the warm-up and falls with the inverse
    square root of the step after it.
    """

    def factor(step: int) -> float:
        # Both are 1 at the end of the warm-up, so the rate peaks at the optimizer's own.
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
    from_start: bool = False,
    average: int | None = None,
    to_the_end: bool = False,
) -> tuple[SeededModule, dict[str, Any]]:
    """Train a module to its best validation loss, going on where a killed run stood.

    Args:
        build: makes the module with fresh weights.
        folder: where checkpoints lie while training lasts, until the store removes them.
        seed: of weights, order and dropout.
        max_epochs: at most this many.
        patience: epochs without a better validation loss, or of the module's own measure,
            before training stops.
        options: device, precision, progress bar, logger.
        description: shown while training.
        from_start: the weights that training starts from are a result too: where no epoch has a
            better validation loss, they stay.
        average: the weights are the mean of those at the last so many validations, instead of the
            best one's.
        to_the_end: nothing but `max_epochs` ends training, which is then no cap.

    Returns:
        The module with its best weights, and the facts `epochs`, `valid_loss`, and whether training
        was `capped`: ended by `max_epochs`, not by convergence.

    Raises:
        XnmtError: training diverges.
        OSError: a checkpoint cannot be written; it is named.
    """
    # Before `build`, so that fresh weights follow from the seed.
    torch.manual_seed(seed)
    module = build()
    module.seed = seed
    kept_by, mode = module.kept_by
    checkpoint = _BestCheckpoint(
        folder / CHECKPOINTS, filename="best-{epoch}", monitor=kept_by, mode=mode, save_last=True
    )
    # With more patience than there are epochs, no value ends training.
    patience = max_epochs if to_the_end else patience
    stopping = _Converged(module.monitors, patience, kept_by)
    callbacks: list[pl.Callback] = [_Diverging(description), checkpoint, stopping]
    if average:
        callbacks.append(_LastWeights(folder / CHECKPOINTS / "last", average))
    if options.progress_bar:
        callbacks.append(_Progress(description, max_epochs))
    one_device: dict[str, Any] = {
        "devices": [options.device.index or 0] if options.device.type == "cuda" else 1,
        # One process, also where a scheduler has started several tasks.
        "plugins": [LightningEnvironment()],
    }
    devices = lightning_ranks() or one_device
    trainer = pl.Trainer(
        accelerator=options.device.type,
        **devices | {"plugins": [_WholeOrNot(), *devices["plugins"]]},
        accumulate_grad_batches=module.batches // rank_and_ranks()[1],
        precision=options.precision,  # type: ignore[arg-type]
        logger=options.logger() if options.logger else False,
        callbacks=callbacks,
        max_epochs=max_epochs,
        gradient_clip_val=1.0,
        # A validation before training would count as an epoch of the curve.
        num_sanity_val_steps=0,
        reload_dataloaders_every_n_epochs=1,  # each epoch has an order of its own
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=LOGGED_STEPS,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="pytorch_lightning|lightning_fabric")
        warnings.filterwarnings("ignore", message=".*LeafSpec.*|.*nested tensors.*")
        resumed = leave_to_first_rank(lambda: _resumable(folder / CHECKPOINTS))
        trainer.fit(module, ckpt_path=resumed, weights_only=True)
        if checkpoint.best_model_score is None:
            problem = "the checkpoints do not name the best epoch; remove the folder"
            raise XnmtError(f"{folder}: {problem}")
        best = float(checkpoint.best_model_score)
        # The loss of the epoch whose weights are kept, by whichever value it was chosen.
        kept = next((epoch for epoch in stopping.curve if epoch[kept_by] == best), {MONITOR: best})
        facts: dict[str, Any] = {
            "epochs": trainer.current_epoch,
            MONITOR: kept[MONITOR],
            "capped": not (to_the_end or stopping.ended),
        }
        if kept_by != MONITOR:
            facts["curve"] = stopping.curve
        if average:
            count = min(average, len(stopping.curve))
            module.load_state_dict(mean_weights(folder / CHECKPOINTS / "last", count))
            # The mean's own loss, since no epoch has it.
            [of_mean] = trainer.validate(module, verbose=False)
            return module.eval().cpu(), facts | {MONITOR: of_mean[MONITOR]}  # type: ignore[return-value]
        if from_start:
            start = build()
            [before] = trainer.validate(start, verbose=False)
            # Equal too: then training has taught nothing, and the start is kept.
            if before[MONITOR] <= facts[MONITOR]:
                return start.eval().cpu(), facts | {MONITOR: before[MONITOR]}  # type: ignore[return-value]
    module.load_state_dict(_load_checkpoint(Path(checkpoint.best_model_path))["state_dict"])
    return module.eval().cpu(), facts  # type: ignore[return-value]


class _BestCheckpoint(ModelCheckpoint):
    """Keeps the best epoch, and the last one to go on from.

    Lightning forgets the best loss where the folder has another name than when it was written, and
    writes the last epoch only where it is the best: a killed run would train all later ones again.
    """

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the epoch as the last one, too."""
        super().on_train_epoch_end(trainer, pl_module)
        if self._should_save_on_train_epoch_end(trainer):
            self._write_last(trainer)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Do the same where validations are between epochs' ends."""
        super().on_validation_end(trainer, pl_module)
        if not self._should_save_on_train_epoch_end(trainer):
            self._write_last(trainer)

    def _write_last(self, trainer: pl.Trainer) -> None:
        # Where the epoch is the best one, Lightning has written it.
        if not self._should_skip_saving_checkpoint(trainer):
            self._save_last_checkpoint(trainer, self._monitor_candidates(trainer))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what was written, with every path in the folder of now."""
        names = ("best_model_path", "kth_best_model_path", "last_model_path")
        paths = {name: self._here(state_dict[name]) for name in names}
        best = {self._here(path): score for path, score in state_dict["best_k_models"].items()}
        here = {"dirpath": self.dirpath, "best_k_models": best}
        super().load_state_dict(state_dict | paths | here)

    def _here(self, path: str) -> str:
        return str(Path(str(self.dirpath)) / Path(path).name) if path else path


class _LastWeights(pl.Callback):
    """Keeps the weights at the last validations."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder, self._count = folder, count

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Remove what a killed run wrote behind the step from which this one goes on."""
        if not trainer.is_global_zero:
            return
        for path in self._folder.glob("*.safetensors"):
            # Its weights belong to steps that this run takes again.
            if int(path.stem) > trainer.global_step:
                unlink_sealed(path)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the weights of now, whole or not at all, and remove the oldest."""
        if trainer.state.fn != "fit" or not trainer.is_global_zero:
            return
        # Twelve digits, so that names sort by step.
        path = self._folder / f"{trainer.global_step:012}.safetensors"
        with replacing(path) as temporary:
            weights = pl_module.state_dict().items()
            save_file({name: w.contiguous().cpu().clone() for name, w in weights}, temporary)
        seal(path)
        for old in sorted(self._folder.glob("*.safetensors"))[: -self._count]:
            unlink_sealed(old)


def mean_weights(folder: Path, count: int) -> dict[str, Tensor]:
    """Return the mean of the weights in a folder, summed in double.

    Raises:
        XnmtError: a file was altered since it was written, or there are not `count` of them.
    """
    paths = sorted(folder.glob("*.safetensors"))
    if len(paths) != count:
        problem = f"{len(paths)} files of weights to average; expected {count}"
        raise XnmtError(f"{folder}: {problem}; remove {folder.parent.parent}")
    if altered := [path for path in paths if not is_sealed(path)]:
        problem = f"altered since it was written; remove {folder.parent.parent}"
        raise XnmtError(f"{altered[0]}: {problem}")
    files = [load_file(path) for path in paths]
    return {
        # Back to the weight's own type.
        name: torch.stack([w[name].double() for w in files]).mean(0).to(weight)
        for name, weight in files[0].items()
    }


class _Diverging(pl.Callback):
    """Ends a training whose loss is NaN, or far above that of an even guess."""

    def __init__(self, description: str) -> None:
        self._description = description

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, *arguments: Any
    ) -> None:
        """Look at the losses that are logged, since each look waits for the device."""
        if trainer.global_step % LOGGED_STEPS == 0:
            # Lightning divides it by the batches that one rank sums.
            loss = float(outputs["loss"]) * trainer.accumulate_grad_batches
            self._check(trainer, "", loss, HOPELESS * math.log(pl_module.choices))

    def on_validation_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Look before a checkpoint is kept; overfitting may raise this loss as far as it will."""
        self._check(trainer, "validation ", float(trainer.callback_metrics[MONITOR]), math.inf)

    def _check(self, trainer: pl.Trainer, kind: str, loss: float, most: float) -> None:
        if not loss < most:  # NaN is not less either
            where = f"epoch {trainer.current_epoch + 1}, step {trainer.global_step}"
            raise XnmtError(
                f"{self._description}: training diverges: the {kind}loss is {loss:.4g} in {where}; "
                "lower its learning_rate"
            )


class _WholeOrNot(TorchCheckpointIO):
    """Checkpoints that are there whole or not at all, on any file system.

    Lightning writes them in the system's temporary folder and moves them; to another file system
    that is a copy, and a kill in it leaves a half.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        with replacing(Path(path)) as temporary, temporary.open("wb") as file:
            write_checkpoint(checkpoint, file)
            # A rename may reach the disk before the bytes do.
            os.fsync(file.fileno())


def write_checkpoint(checkpoint: dict[str, Any], file: BinaryIO) -> None:
    """Write a checkpoint.

    Raises:
        OSError: the disk did not take it.
    """
    writer = _KeptError(file)
    try:
        torch.save(checkpoint, writer)  # type: ignore[arg-type]
    except RuntimeError as error:
        # torch names no cause where the disk is full.
        raise writer.error or error from None


class _KeptError:
    """Writes to a file and keeps the error of a write that failed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        """Write some bytes."""
        with self._keep():
            return self._file.write(data)

    def flush(self) -> None:
        """Write what is in the buffer."""
        with self._keep():
            self._file.flush()

    @contextmanager
    def _keep(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.error = error
            raise


def _resumable(folder: Path) -> str | None:
    """Return the last whole checkpoint of a training, if there is one."""
    # The newest first, behind `last.ckpt`: a kill may have left that one damaged.
    there = sorted(folder.glob("*.ckpt"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in sorted(there, key=lambda path: path.name != "last.ckpt"):
        try:
            _load_checkpoint(path)
        except Exception as error:  # half a file can raise anything
            log.warning("%s is damaged and skipped: %s", path, refusal(error))
            path.unlink()
        else:
            return str(path)
    return None


def _load_checkpoint(path: Path) -> dict[str, Any]:
    """Load a checkpoint.

    Raises:
        XnmtError: a byte of it was altered, which torch does not look for.
    """
    with ZipFile(path) as records:
        if record := records.testzip():
            raise XnmtError(f"{path}: altered since it was written, in {record}")
    return torch.load(path, map_location="cpu", weights_only=True)  # type: ignore[no-any-return]


class _Progress(pl.Callback):
    """One line for the whole training: epochs done, loss, time left at most."""

    def __init__(self, description: str, max_epochs: int) -> None:
        self._description, self._max_epochs = description, max_epochs
        self._stage: Stage | None = None
        self._note = ""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin the line, at the epoch from which training goes on."""
        done = trainer.current_epoch
        shown = trainer.is_global_zero
        self._stage = Stage(self._description, self._max_epochs, "epochs", shown, done=done)
        self._stage.__enter__()

    def on_train_batch_end(
        self, trainer: pl.Trainer, module: pl.LightningModule, outputs: Any, batch: Any, index: int
    ) -> None:
        """Say where it stands, every so often."""
        part = (index + 1) / trainer.num_training_batches
        assert self._stage
        self._stage.step(trainer.current_epoch + part, self._note)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep the loss to be said."""
        if MONITOR in trainer.callback_metrics:
            self._note = f"validation loss {float(trainer.callback_metrics[MONITOR]):.3f}"

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """End the line."""
        if self._stage:
            self._stage.__exit__(None, None, None)
        self._stage = None
