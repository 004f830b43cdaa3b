"""Runs of `train.py` that are stopped whenever they are about to change something on disk.

What a kill leaves behind depends only on what was written before it. So tests that stop a run
before each change, and with each file half written, see all that a kill can leave; at the same
moments a disk can be full. Runs are forked from a process that has imported everything, so that
they take a second instead of ten.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support import forked_commands
from support.paths import ROOT
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.registry import load
from xnmt_bench.report.report import collect
from xnmt_bench.report.table import csv_columns

NO_SPACE = os.strerror(errno.ENOSPC)
WRITING = os.O_WRONLY | os.O_RDWR
# Every stage of every metric, as small as it may be. Translations of a system that knows so little
# end at a cap, so the sentences are few.
JOB = [
    "corpus.train=80",
    "corpus.valid=8",
    "corpus.test=8",
    "corpus.subwords.source_size=150",
    "corpus.subwords.target_size=150",
    "nmt=concat",
    "nmt.sizes.dimension=16",
    "nmt.sizes.feed_forward=16",
    "nmt.sizes.heads=2",
    "nmt.beam=1",
    "nmt.training.max_epochs=2",
    "nmt.training.batch_tokens=400",
    "explainer=attention",
    "rules.train_sentences=20",
    "rules.shard_sentences=10",
    "rules.largest_k=2",
    "proxy=fn",
    "proxy.training.max_epochs=2",
    "scenario=golden",
    "metric=[fidelity,quality,aer,coref_attention,confidence,repetition,contrastive]",
    f"metric.contrastive.sets=[{ROOT}/tests/fixtures/contrastive.jsonl]",
    "judge=[base,own,evalx,base_tuned,kl]",
    "bootstrap.samples=20",
    "trainer.progress_bar=false",
    "threads=1",
    "store=store",
    "results=results",
    "hydra.run.dir=run",
]


def table(folder: Path) -> list[dict]:
    """Every number of a results folder, with its signature, of every metric.

    Each row has every metric's columns, empty where they are not its own. Rows of eflomal, where
    it is installed, are left out: it has no seed.
    """
    tables = []
    for path in sorted((folder / "results" / "measurements").iterdir()):
        metric = load("metrics", path.name)()
        for scored in collect(metric, folder / "results", Draws(50, 0)):
            assert all(scored.measurement.file(name).exists() for name in scored.measurement.files)
            if scored.row.get("explainer") == "eflomal":
                continue
            # What a judge cost is unknown where its work was killed, and another time each time.
            facts = scored.measurement.facts.by_name().items()
            facts = {key: fact for key, fact in facts if not key.endswith("_seconds")}
            about = {"metric": metric.name, "facts": facts}
            tables.append((csv_columns(metric), about | scored.row))
    assert tables
    columns = {column for columns, _ in tables for column in columns}
    return [dict.fromkeys(columns, "") | row for _, row in tables]


def run(folder: Path, trap: Trap | None = None) -> tuple[int, str]:
    """Runs `train.py` in a folder, with a trap.

    Returns:
        Its exit status, as `subprocess` gives it, and its standard error.
    """
    errors = folder.with_suffix(".stderr")
    process = forked_commands.start(_run, folder, errors, trap)
    process.join(120)
    if process.exitcode is None:
        process.kill()
        raise AssertionError(f"a run in {folder} hangs")
    return process.exitcode, errors.read_text()


def _run(folder: Path, errors: Path, trap: Trap | None) -> None:
    from xnmt_bench import commands

    forked_commands.redirect(Path(os.devnull), errors)
    os.chdir(folder)
    sys.argv = ["train.py", *JOB]
    if trap:
        trap.set()
    commands.train()


@dataclass
class Trap:
    """Springs at every change that it has not met before, in this run or in an earlier one.

    Attributes:
        folder: of the run.
        once: kinds of changes that are met once in each stage, and once in the results; where none
            are given, every change is met.
        stages: where it springs; everywhere if none is given.
    """

    folder: Path
    once: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()

    @property
    def met(self) -> list[str]:
        """What it has met."""
        return self._notes.read_text().splitlines() if self._notes.exists() else []

    @property
    def _notes(self) -> Path:
        return self.folder.with_suffix(".met")

    def set(self) -> None:
        """Sets it, for as long as this process lives."""
        self._known = set(self.met)
        self._file = self._notes.open("a")
        _audit_native_writes()
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple) -> None:
        """Called by Python before each audited action."""
        match event, arguments:
            case "open", (str() | os.PathLike() as path, _, int() as flags) if flags & WRITING:
                self._about_to("lock" if ".lease" in str(path) else "write", path)
            case "os.rename", (_, path, *_):
                self._about_to("rename", path)
            case (("os.mkdir" | "os.remove" | "shutil.rmtree"), (path, *_)) if (
                ".lease" not in str(path)  # a holder that dies before it lets go is taken over
            ):
                kind = event.partition(".")[2]
                # To make what is there changes nothing, nor to remove what is not.
                if (self.folder / path).exists() == (kind != "mkdir"):
                    self._about_to(kind, path)

    def _about_to(self, kind: str, path: str | os.PathLike[str]) -> None:
        absolute = self.folder / path
        if any(absolute.is_relative_to(self.folder / place) for place in ("store", "results")):
            self.spring(kind, absolute)

    def first(self, kind: str, path: Path) -> bool:
        """Whether this was never met; now it was."""
        inside = path.relative_to(self.folder)
        if self.stages and not {*inside.parts[1:2]} & {*self.stages}:
            return False
        name = f"{kind} {Path(*inside.parts[:2]) if self.once else inside}"
        name = re.sub(r"[.][^.]+[.]\d+[.]\w{8}[.]tmp$", ".tmp", name)  # of another process
        if name in self._known or (self.once and kind not in self.once):
            return False
        self._known.add(name)
        print(name, file=self._file, flush=True)
        return True

    def spring(self, kind: str, path: Path) -> None:
        """Acts on a change that is about to happen."""
        raise NotImplementedError


def _audit_native_writes() -> None:
    """Lets libraries that write without Python announce each file, as Python does."""
    import pyarrow.parquet
    import safetensors.torch
    import torch

    def audited(write: Callable[..., Any]) -> Callable[..., Any]:
        def announce_and_write(content: Any, path: Any, *arguments: Any, **keywords: Any) -> Any:
            if isinstance(path, str | os.PathLike):
                sys.audit("open", os.fspath(path), "wb", os.O_WRONLY)
            return write(content, path, *arguments, **keywords)

        return announce_and_write

    pyarrow.parquet.write_table = audited(pyarrow.parquet.write_table)
    torch.save = audited(torch.save)
    safetensors.torch.serialize_file = audited(_serialize_file)


def _serialize_file(tensors: Any, path: str, *arguments: Any, **keywords: Any) -> None:
    """As safetensors does it, in a file of another name, and its error for a full disk."""
    from safetensors import SafetensorError, serialize_file

    if Path(path).is_symlink():
        Path(path).unlink()
        raise SafetensorError(f"Error while serializing: I/O error: {NO_SPACE} (os error 28)")
    serialize_file(tensors, path, *arguments, **keywords)


@dataclass
class Kill(Trap):
    """Kills the run before the change, and once with the file that it began last half written."""

    _begun: Path | None = field(default=None, repr=False)

    def spring(self, kind: str, path: Path) -> None:
        """Kills before the change, or with a half-written file."""
        if kind in ("mkdir", "lock"):  # what is next in there will do
            return
        half, self._begun = self._begun, path if kind == "write" else None
        if half and half.is_file() and half.stat().st_size and self.first("half", half):
            os.truncate(half, half.stat().st_size // 2)
        elif not self.first(kind, path):
            return
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class StopBefore(Trap):
    """Kills the run when it is about to begin a file.

    Attributes:
        pattern: of the file's path in the folder.
    """

    pattern: str = ""

    def spring(self, kind: str, path: Path) -> None:
        """Kills before a file whose path matches."""
        if kind == "write" and re.search(self.pattern, str(path.relative_to(self.folder))):
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Signal(Trap):
    """Sends the run a signal when it begins a file.

    Attributes:
        number: of the signal.
    """

    number: int = signal.SIGTERM

    def spring(self, kind: str, path: Path) -> None:
        """Sends the signal once for each stage."""
        if self.first(kind, path):
            os.kill(os.getpid(), self.number)


@dataclass
class Full(Trap):
    """Lets the disk be full from the change on: a file becomes a device that has no space left."""

    _full: bool = field(default=False, repr=False)

    def spring(self, kind: str, path: Path) -> None:
        """Fills the disk, once for each file and folder."""
        if kind not in ("write", "lock", "mkdir"):  # the others need no space
            return
        self._full = self._full or self.first(kind, path)
        if self._full and (kind != "write" or path.exists()):
            raise OSError(errno.ENOSPC, NO_SPACE, str(path))
        if self._full:
            path.symlink_to("/dev/full")

    def empty(self) -> None:
        """Makes space again. A file that was not written is left empty."""
        for path in self.folder.rglob("*"):
            if path.is_symlink():
                path.unlink()
                path.touch()
