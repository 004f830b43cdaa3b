"""The errors a user can cause and mend; each says what is wrong and where."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

TRAIN_FIRST = "run train.py (where the package is installed: xnmt train) first"


class XnmtError(Exception):
    """Base of every error this project raises on purpose."""


class DataError(XnmtError):
    """Bad input data, named by file and line."""

    def __init__(self, path: Path | str, line: int | None, problem: str) -> None:
        where = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{where}: {problem}")
        self._given = path, line, problem

    def __reduce__(self) -> tuple[type[DataError], tuple[Path | str, int | None, str]]:
        """Let an error come back from another process as it was."""
        return type(self), self._given


class StoreError(XnmtError):
    """A stored artefact is truncated, altered or missing."""


class MissingError(StoreError):
    """Nothing is there, as opposed to something that is damaged.

    Attributes:
        stage: whose result is missing, where it is a stage's.
    """

    def __init__(self, message: str, stage: object = None) -> None:
        super().__init__(message)
        self.stage = stage

    def __reduce__(self) -> tuple[type[MissingError], tuple[str]]:
        """Leave the stage in its process."""
        return type(self), (str(self),)


class NotApplicable(XnmtError):
    """A combination that has no meaning, such as prefix attention in RNNSearch."""


class ConfigError(XnmtError):
    """An invalid configuration; `problems` has a line for each fault."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[list[str]]]:
        """Let an error come back from another process as it was."""
        return type(self), (self.problems,)


def import_extra(package: str, extra: str) -> Any:
    """Return a package that only some users need.

    Raises:
        XnmtError: it is not installed; the line names the extra that brings it.
    """
    try:
        return import_module(package)
    except ImportError:
        problem = f"{package} is not installed: pip install 'xnmt_bench[{extra}]'"
        raise XnmtError(problem) from None


def refusal(error: Exception) -> str:
    """Return why a checkpoint was refused, without torch's advice to load it unsafely."""
    if named := re.search(r"GLOBAL (\S+)", str(error)):
        return f"it holds {named[1]}; only tensors and plain values are unpickled"
    message = str(error).partition("WeightsUnpickler error: ")[2] or str(error)
    if message.startswith("Unsupported operand"):
        return "recent versions of torch write no such pickle; it is not unpickled"
    first = re.split(r"\.\s|\n", message.strip())[0].rstrip(".")
    unsafe = re.search(r"weights_only|trusted|arbitrary code", first)
    return type(error).__name__ if unsafe or not first else first
