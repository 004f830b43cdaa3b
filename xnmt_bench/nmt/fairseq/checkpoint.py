"""fairseq checkpoints: options and weights, never a free unpickling."""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from xnmt_bench.errors import XnmtError, refusal
from xnmt_bench.nmt.foreign import Renumbering


class Options:
    """A checkpoint's options of the model and of its task."""

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self.path, self._values = path, values

    def get(self, name: str, default: Any = None) -> Any:
        """Return an option, or its default where the checkpoint is older than the option."""
        return self._values.get(name, default)

    def __getitem__(self, name: str) -> Any:
        """Return an option that has no default; an XnmtError where the checkpoint lacks it."""
        if self._values.get(name) is None:
            raise XnmtError(f"{self.path}: the checkpoint's options lack {name}")
        return self._values[name]

    def refuse(self, **unsupported: object) -> None:
        """Raise an XnmtError for an option with another value than the only one that is read."""
        for name, only in unsupported.items():
            if self.get(name, only) not in (only, None, False, 0):  # all of these mean off
                raise XnmtError(f"{self.path}: {name}={self.get(name)!r} is not supported")


def read_checkpoint(path: Path) -> tuple[Options, dict[str, Tensor]]:
    """Return options and weights of a checkpoint.

    Only tensors, plain values and `argparse.Namespace` are unpickled; anything else in the file
    is refused before it can run.

    Raises:
        XnmtError: no such file, not a checkpoint of fairseq's, or it holds anything else.
    """
    if not path.is_file():
        raise XnmtError(f"{path}: no such fairseq checkpoint")
    try:
        # Old checkpoints hold their options as a Namespace, which has no code of its own.
        with torch.serialization.safe_globals([argparse.Namespace]):
            state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise XnmtError(f"{path}: refused: {refusal(error)}") from None
    except (RuntimeError, EOFError, OSError, ValueError) as error:
        raise XnmtError(f"{path}: not readable as a checkpoint: {refusal(error)}") from None
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise XnmtError(f"{path}: not a fairseq checkpoint: it has no model")
    # Since 0.10 the options are in `cfg`, by section; before, all of them in `args`.
    sections = state.get("cfg") or {}
    values: dict[str, Any] = {}
    for part in (sections.get("task"), sections.get("model"), state.get("args")):
        named = part if isinstance(part, Mapping) else vars(part or argparse.Namespace())
        # A section may have a name without a value that another one has.
        values.update((name, value) for name, value in named.items() if value is not None)
    # Some were saved in half precision, in which a sentence's numbers depend on its batch.
    return Options(path, values), {name: x.float() for name, x in state["model"].items()}


class Weights:
    """A checkpoint's tensors by fairseq's names, each to be taken once: none is left unread."""

    def __init__(self, path: Path, tensors: Mapping[str, Tensor]) -> None:
        self._path, self._left = path, dict(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str) -> Tensor:
        """Return a tensor by its name; an XnmtError where the checkpoint lacks it."""
        if name not in self._left:
            raise XnmtError(f"{self._path}: the weights lack {name}")
        return self._left.pop(name)

    def fill(self, module: nn.Module, stem: str) -> None:
        """Give a module its parameters, which have the same names here behind a stem."""
        for name, _ in list(module.named_parameters()):  # a list, since they are replaced
            # Replaced and not copied into: the checkpoint decides the sizes.
            setattr(module, name, nn.Parameter(self.take(f"{stem}.{name}")))

    def linear(self, stem: str) -> nn.Linear:
        """Return a linear layer, with a bias where there is one."""
        linear = nn.Linear(1, 1, bias=f"{stem}.bias" in self)  # its sizes come with its weights
        self.fill(linear, stem)
        return linear

    def embedding(self, side: str, ids: Renumbering) -> nn.Embedding:
        """Return the embeddings of a side, in our order."""
        table_VD = self.take(f"{side}.embed_tokens.weight")
        return nn.Embedding.from_pretrained(table_VD[ids.theirs_V])

    def close(self) -> None:
        """Raise an XnmtError for unread weights, since a model without them would be another."""
        # Version marks, and tables of sines that are computed anew.
        ignored = ("version", "_float_tensor", "embed_positions.weights")
        unread = sorted(name for name in self._left if not name.endswith(ignored))
        if unread:
            raise XnmtError(
                f"{self._path}: these weights are not supported: {', '.join(unread[:5])}"
            )
