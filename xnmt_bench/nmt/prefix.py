"""What a decoder has read: it goes on from there, or from an earlier step with other inputs.

Under teacher forcing a state depends on the inputs up to its own, so what stands before a change is
computed once. Shapes: as in `nmt.base`; X further inputs.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from xnmt_bench.nmt.batch import Encoding


class Decoder(Protocol):
    """The part of an `NMTModel` that reads decoder inputs."""

    def decode(self, encoding: Encoding, input_BTD: Tensor) -> Tensor:
        """Return the state behind each input, (B, T, D')."""


Model = TypeVar("Model", bound=Decoder)


class Prefix(Generic[Model]):
    """Decoder inputs that have been read as embeddings; this one reads all of them anew each time.

    A model that can go on from where it stood has one of its own, with the same states.

    Attributes:
        model: that reads.
        encoding: of the source; its layout is of all inputs, those that are yet to be read too.
        steps: how many inputs have been read.
    """

    def __init__(self, model: Model, encoding: Encoding) -> None:
        self.model, self.encoding, self.steps = model, encoding, 0
        self._inputs: list[Tensor] = []

    def read(self, input_BXD: Tensor) -> Tensor:
        """Read further inputs of every row: the state behind each, (B, X, D')."""
        self._inputs.append(input_BXD)
        self.steps += input_BXD.shape[1]
        encoding = self.encoding.reading(self.encoding.layout.input_BT[:, : self.steps])
        states_BTD = self.model.decode(encoding, torch.cat(self._inputs, dim=1))
        return states_BTD[:, self.steps - input_BXD.shape[1] :]

    def fork(self, steps: int, rows: Tensor) -> Prefix[Model]:
        """Return the first steps of some rows, each perhaps more than once, to go on from.

        What is read there never shows here.
        """
        forked = type(self)(self.model, self.encoding.select(rows))
        forked.steps = steps
        self._keep(forked, steps, rows)
        return forked

    def _keep(self, forked: Prefix[Model], steps: int, rows: Tensor) -> None:
        """Hand on what was computed of the first steps."""
        if steps:
            forked._inputs = [torch.cat(self._inputs, dim=1)[rows, :steps]]
