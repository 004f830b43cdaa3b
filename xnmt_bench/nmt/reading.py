"""Reading a target word by word, as a search does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from xnmt_bench.corpora.subwords import PAD

if TYPE_CHECKING:
    from xnmt_bench.nmt.base import Encoding, NMTModel


class Reader:
    """Reads the decoder inputs of several rows; this one reads all of them anew each time.

    A model that can go on from where it stood has a reader of its own, which gives the same states.

    Args:
        model: the model.
        encoding: of each row's source.
    """

    def __init__(self, model: NMTModel, encoding: Encoding) -> None:
        self.model, self.encoding = model, encoding
        self._read: list[Tensor] = []

    def read(self, ids_RT: Tensor) -> Tensor:
        """Reads further inputs of every row, padded with PAD: the state behind the last, (R, D)."""
        new = [row[row != PAD] for row in ids_RT]
        old = self._read or [row[:0] for row in new]
        self._read = [torch.cat(both) for both in zip(old, new, strict=True)]
        input_RT = nn.utils.rnn.pad_sequence(self._read, batch_first=True, padding_value=PAD)
        model, encoding = self.model, self.encoding.decoding(input_RT)
        return last_of(model.decode(encoding, model.embed_target(input_RT)), input_RT != PAD)

    def select(self, rows: Tensor) -> None:
        """Goes on with some of the rows, in a new order, some perhaps more than once."""
        self.encoding = self.encoding.select(rows)
        self._read = [self._read[row] for row in rows.tolist()] if self._read else []


def last_of(states_RTD: Tensor, mask_RT: Tensor) -> Tensor:
    """Each row's state at its last input that is no padding, (R, D)."""
    last = mask_RT.sum(1) - 1
    return states_RTD[torch.arange(len(last), device=last.device), last]
