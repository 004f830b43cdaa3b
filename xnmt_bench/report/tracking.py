"""Where a job's metrics, tables and figures go besides the results folder."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from xnmt_bench.errors import XnmtError

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger

log = logging.getLogger(__name__)


class Tracker:
    """What every tracker answers; a job is tracked from `with` to its end, good or bad."""

    def start(self, job_type: str, group: str, folder: Path, config: Mapping[str, Any]) -> Self:
        """Say which job begins.

        Args:
            job_type: the stage: train or evaluate.
            group: the sweep this job belongs to.
            folder: the job's own folder.
            config: its whole configuration.
        """
        raise NotImplementedError

    def lightning(self) -> Logger:
        """Return a logger for Lightning."""
        raise NotImplementedError

    def table(self, name: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Log a table."""

    def figure(self, name: str, path: Path) -> None:
        """Log a figure from a PNG file."""

    def artifact(self, name: str, path: Path) -> None:
        """Keep a file, such as the bundle, with the job."""

    def close(self, failed: bool) -> None:
        """End the job."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(failed=kind is not None)


class CsvTracker(Tracker):
    """Metrics as CSV in the job's folder; tables and figures lie in the results already."""

    def start(self, job_type: str, group: str, folder: Path, config: Mapping[str, Any]) -> Self:
        """Remember the folder."""
        # Nothing is made yet: most jobs train nothing, and an empty log would look like a lost one.
        self._folder = folder
        return self

    def lightning(self) -> Logger:
        """Return Lightning's CSV logger; the trainings of a job share its file."""
        return self._logger

    @cached_property
    def _logger(self) -> Logger:
        from pytorch_lightning.loggers import CSVLogger

        return CSVLogger(str(self._folder), name="metrics")


WANDB_MODES = ("online", "offline", "disabled")


class WandbTracker(Tracker):
    """Weights & Biases; offline without a login or a network.

    Args:
        project: the project on the server.
    """

    def __init__(self, project: str = "xnmt_bench") -> None:
        self.project = project

    def start(self, job_type: str, group: str, folder: Path, config: Mapping[str, Any]) -> Self:
        """Begin a run, and log where it lies if that is only here."""
        import wandb

        # The user's own choice first; without it no job may stop for a login.
        mode = os.environ.get("WANDB_MODE") or ("online" if _reachable() else "offline")
        if mode not in WANDB_MODES:
            raise XnmtError(f"WANDB_MODE={mode}: should be one of {', '.join(WANDB_MODES)}")
        self._run = wandb.init(
            project=self.project,
            group=group,
            job_type=job_type,
            # With the job: W&B's default, the current folder, is shared by all jobs of a sweep.
            dir=os.environ.get("WANDB_DIR") or str(folder),
            config=dict(config),
            mode=mode,  # type: ignore[arg-type]
            # Jobs of a sweep run in one process, each as a run of its own.
            reinit="finish_previous",
            settings=wandb.Settings(silent=True),  # type: ignore[arg-type]
        )
        if mode == "offline":
            where = self._run.dir
            log.info("W&B is offline; the run lies in %s (send it with `wandb sync`)", where)
        elif mode == "online":
            log.info("W&B: %s", self._run.url)
        return self

    def lightning(self) -> Logger:
        """Return Lightning's W&B logger on this run."""
        return self._logger

    @cached_property
    def _logger(self) -> Logger:
        from pytorch_lightning.loggers import WandbLogger

        return WandbLogger(experiment=self._run)

    def table(self, name: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Log a table; numbers stay numbers, and what has no number is empty."""
        import wandb

        # An empty text would make the whole column one of texts.
        data = [[None if row.get(c, "") == "" else row[c] for c in columns] for row in rows]
        table = wandb.Table(columns=list(columns), data=data, allow_mixed_types=True)
        self._run.log({f"tables/{name}": table})

    def figure(self, name: str, path: Path) -> None:
        """Log a figure."""
        import wandb

        self._run.log({f"figures/{name}": wandb.Image(str(path))})

    def artifact(self, name: str, path: Path) -> None:
        """Log a file as an artifact; a later run's becomes its next version."""
        import wandb

        artifact = wandb.Artifact(name, type=name)
        artifact.add_file(str(path))
        self._run.log_artifact(artifact)

    def close(self, failed: bool) -> None:
        """Close the run, also that of a failed job."""
        # Or the server would show a failed job of a sweep as one that still runs.
        self._run.finish(exit_code=int(failed))


def _reachable() -> bool:
    """Return whether a login exists and the server answers."""
    import wandb

    if not wandb.api.api_key:
        return False
    host = (os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai").split("//")[-1].strip("/")
    name, _, port = host.partition(":")
    try:
        # Asked first, since the client would wait for a server that is not there.
        with socket.create_connection((name, int(port or 443)), timeout=3):
            return True
    except OSError:
        return False
