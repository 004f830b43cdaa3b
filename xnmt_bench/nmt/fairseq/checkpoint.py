"""fairseq checkpoints: options and weights, never a free unpickling."""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from xnmt_bench.errors import XnmtError


class Options:
    """What a checkpoint says of the model and the task it was trained for.

    Args:
        path: of the checkpoint, for errors.
        values: options by name.
    """

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self.path, self._values = path, values

    def get(self, name: str, default: Any = None) -> Any:
        """An option, or its default where the checkpoint is older than the option."""
        return self._values.get(name, default)

    def __getitem__(self, name: str) -> Any:
        """An option that has no default.

        Raises:
            XnmtError: the checkpoint lacks it.
        """
        if self._values.get(name) is None:
            raise XnmtError(f"{self.path}: its options lack {name}")
        return self._values[name]

    def refuse(self, **unsupported: object) -> None:
        """Says which option this reader does not know how to follow.

        Args:
            unsupported: options with the only value that is read.

        Raises:
            XnmtError: an option has another value.
        """
        for name, only in unsupported.items():
            if self.get(name, only) not in (only, None, False, 0):
                raise XnmtError(f"{self.path}: {name}={self.get(name)!r} is not supported")


def read_checkpoint(path: Path) -> tuple[Options, dict[str, Tensor]]:
    """Options and weights of a checkpoint.

    Only tensors, plain values and `argparse.Namespace` are unpickled; whatever else the file holds
    is refused before it can run.

    Raises:
        XnmtError: no such file, not a checkpoint of fairseq's, or it holds anything else.
    """
    if not path.is_file():
        raise XnmtError(f"{path}: no such fairseq checkpoint")
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        first = str(error).partition("WeightsUnpickler error: ")[2].partition(". ")[0] or error
        raise XnmtError(f"{path}: refused: {first}") from None
    except (RuntimeError, EOFError, OSError, ValueError) as error:
        raise XnmtError(f"{path}: not readable as a checkpoint: {error}") from None
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise XnmtError(f"{path}: not a checkpoint of fairseq's: it has no model")
    # Since 0.10 the options stand in `cfg`, by section; before, all of them in `args`.
    sections = state.get("cfg") or {}
    parts = [sections.get("task"), sections.get("model"), state.get("args")]
    # A section may have a name without a value that another one has.
    values = {k: v for part in parts if part is not None for k, v in _plain(part).items()
              if v is not None}  # fmt: skip
    weights = {name: tensor.float() for name, tensor in state["model"].items()}
    return Options(path, values), weights


def _plain(part: Any) -> dict[str, Any]:
    return dict(part) if isinstance(part, Mapping) else vars(part)


class Weights:
    """A checkpoint's tensors, each to be taken once, so that none is left unread.

    Args:
        path: of the checkpoint, for errors.
        tensors: by fairseq's names.
    """

    def __init__(self, path: Path, tensors: Mapping[str, Tensor]) -> None:
        self._path, self._left = path, dict(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str) -> Tensor:
        """A tensor by its name.

        Raises:
            XnmtError: the checkpoint has none of this name.
        """
        if name not in self._left:
            raise XnmtError(f"{self._path}: the weights lack {name}")
        return self._left.pop(name)

    def peek(self, name: str) -> Tensor:
        """The same, to be taken again."""
        tensor = self._left[name] = self.take(name)
        return tensor

    def close(self) -> None:
        """Says what nobody has taken, since a model without it would be another.

        Raises:
            XnmtError: something is left.
        """
        # Version marks, and tables of sines that are computed anew.
        ignored = ("version", "_float_tensor", "embed_positions.weights")
        left = sorted(name for name in self._left if not name.endswith(ignored))
        if left:
            raise XnmtError(f"{self._path}: not supported: its weights {', '.join(left[:5])}")
