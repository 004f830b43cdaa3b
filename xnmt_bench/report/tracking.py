"""Where a job's metrics, tables and figures go besides the results folder."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from xnmt_bench.errors import XnmtError, import_extra
from xnmt_bench.report.summary import to_csv
from xnmt_bench.store import file_hash

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger

log = logging.getLogger(__name__)


class Tracker:
    """What every tracker answers; a job is tracked from `with` to its end, good or bad."""

    _logger: Any

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
        """Return the logger for Lightning; the trainings of a job share it."""
        logger: Logger = self._logger
        return logger

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
        wandb = import_extra("wandb", "wandb")
        # The user's own choice first; without it no job may stop for a login.
        mode = os.environ.get("WANDB_MODE") or ("online" if is_reachable() else "offline")
        if mode not in WANDB_MODES:
            raise XnmtError(f"WANDB_MODE={mode}: should be one of {', '.join(WANDB_MODES)}")
        self._run = wandb.init(
            project=self.project,
            group=group,
            job_type=job_type,
            # With the job: W&B's default, the current folder, is shared by all jobs of a sweep.
            dir=os.environ.get("WANDB_DIR") or str(folder),
            config=dict(config),
            mode=mode,
            # Jobs of a sweep run in one process, each as a run of its own.
            reinit="finish_previous",
            settings=wandb.Settings(silent=True),
        )
        if mode == "offline":
            where = self._run.dir
            log.info("W&B is offline; the run lies in %s (send it with `wandb sync`)", where)
        elif mode == "online":
            log.info("W&B: %s", self._run.url)
        return self

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


class MlflowTracker(Tracker):
    """MLflow, by Lightning's own logger.

    Args:
        project: the experiment's name.
        uri: of the server, or of a database; `MLFLOW_TRACKING_URI` if not given, and without it
            `mlflow.db` in `folder`.
        folder: where runs and files go that no server takes.
    """

    def __init__(
        self, project: str = "xnmt_bench", uri: str | None = None, folder: str = "outputs/mlflow"
    ) -> None:
        self.project, self.uri, self.folder = project, uri, Path(folder)

    def start(self, job_type: str, group: str, folder: Path, config: Mapping[str, Any]) -> Self:
        """Begin a run, and log where it lies if that is only here."""
        import_extra("mlflow", "mlflow")
        from pytorch_lightning.loggers import MLFlowLogger

        uri, artifacts = self.uri or os.environ.get("MLFLOW_TRACKING_URI"), None
        if uri is None:
            place = self.folder.absolute()
            place.mkdir(parents=True, exist_ok=True)
            uri, artifacts = f"sqlite:///{place / 'mlflow.db'}", (place / "files").as_uri()
            log.info("MLflow: see it by `mlflow ui --backend-store-uri %s`", uri)
        self._logger = MLFlowLogger(
            self.project,
            run_name=f"{job_type} {group}",
            tracking_uri=uri,
            tags={"job_type": job_type, "group": group},
            artifact_location=artifacts,
        )
        self._logger.log_hyperparams(dict(config))
        return self

    def table(self, name: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Log a table as CSV."""
        text = to_csv([dict(row) for row in rows], columns)
        self._logger.experiment.log_text(self._run, text, f"tables/{name}.csv")

    def figure(self, name: str, path: Path) -> None:
        """Log a figure."""
        self._logger.experiment.log_artifact(self._run, str(path), "figures")

    def artifact(self, name: str, path: Path) -> None:
        """Log a file."""
        self._logger.experiment.log_artifact(self._run, str(path), name)

    @property
    def _run(self) -> str:
        run_id = self._logger.run_id
        assert run_id is not None
        return run_id

    def close(self, failed: bool) -> None:
        """Close the run, also that of a failed job."""
        self._logger.finalize("failed" if failed else "success")


class TensorBoardTracker(Tracker):
    """TensorBoard, by Lightning's own logger.

    Args:
        folder: of all runs; `tensorboard --logdir` reads it.
    """

    def __init__(self, folder: str = "outputs/tensorboard") -> None:
        self.folder = Path(folder)

    def start(self, job_type: str, group: str, folder: Path, config: Mapping[str, Any]) -> Self:
        """Begin a run in a folder of its own."""
        import_extra("torch.utils.tensorboard", "tensorboard")
        from pytorch_lightning.loggers import TensorBoardLogger

        # Jobs of a sweep are folders below its own.
        version = job_type if folder.name == group else f"{job_type} {folder.name}"
        self._logger = TensorBoardLogger(self.folder, group, version)
        self._logger.experiment.add_text("configuration", _code(json.dumps(config, indent=1)))
        return self

    def table(self, name: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Log a table as text."""
        text = to_csv([dict(row) for row in rows], columns)
        self._logger.experiment.add_text(f"tables/{name}", _code(text))

    def figure(self, name: str, path: Path) -> None:
        """Log a figure."""
        from matplotlib.pyplot import imread

        self._logger.experiment.add_image(f"figures/{name}", imread(path), dataformats="HWC")

    def artifact(self, name: str, path: Path) -> None:
        """Log where a file lies and its SHA-256, since TensorBoard keeps no files."""
        self._logger.experiment.add_text(name, f"{path.name}, sha256 {file_hash(path)}")

    def close(self, failed: bool) -> None:
        """Write what is not written yet."""
        self._logger.finalize("failed" if failed else "success")


def _code(text: str) -> str:
    """Return a text that TensorBoard, which reads Markdown, shows as it stands."""
    return "".join(f"    {line}\n" for line in text.splitlines())


def is_reachable() -> bool:
    """Return whether a login exists and the server answers."""
    import wandb

    if not wandb.api.api_key:
        return False
    address = os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai"
    try:
        url = urlsplit(address if "//" in address else f"https://{address}")
        port = url.port or (80 if url.scheme == "http" else 443)
        # Asked first, since the client would wait for a server that is not there.
        with socket.create_connection((url.hostname, port), timeout=3):
            return True
    except (OSError, ValueError):  # no server there, or no address
        return False
