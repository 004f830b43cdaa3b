"""The sentences of concatenations, for models that read them one by one.

N sentences of up to L ids, those of one row of the batch behind each other; X ids of a side; other
shapes as in `nmt.base`.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from xnmt_bench.nmt.batch import Layout


class Sentences:
    """Where the sentences of each row are, so that they can be rows of their own.

    Args:
        number_BX: the sentence of each id, counted from 1 in its row; 0 for none. A sentence's ids
            stand together.
    """

    def __init__(self, number_BX: Tensor) -> None:
        rows, width = number_BX.shape
        device = number_BX.device
        self._there_BX = number_BX > 0
        count = int(number_BX.max()) if number_BX.numel() else 0
        # Row and number as one key, by which sentences are sorted; numbers that are not there leave
        # gaps.
        slot_BX = torch.arange(rows, device=device)[:, None] * count + number_BX - 1
        slot_P = slot_BX[self._there_BX]
        filled = torch.zeros(rows * count, dtype=torch.bool, device=device)
        filled[slot_P] = True
        slot_N = filled.nonzero()[:, 0]
        self.row_N, self.number_N = slot_N // max(1, count), slot_N % max(1, count) + 1
        self._sentence_P = (filled.cumsum(0) - 1)[slot_P]
        place_X = torch.arange(width, device=device).expand(rows, -1)
        before_BX = torch.cat([torch.zeros_like(number_BX[:, :1]), number_BX[:, :-1]], dim=1)
        # The last place at which the number changed is where the sentence began.
        start_BX = torch.where(number_BX != before_BX, place_X, 0).cummax(1).values
        self.start_N = torch.zeros_like(slot_N)
        self.start_N[self._sentence_P] = start_BX[self._there_BX]
        self._place_P = (place_X - start_BX)[self._there_BX]
        self.length_N = torch.bincount(self._sentence_P, minlength=len(slot_N))

    @cached_property
    def mask_NL(self) -> Tensor:
        """True where a sentence has an id."""
        longest = int(self.length_N.max()) if len(self.length_N) else 0
        return torch.arange(longest, device=self.length_N.device) < self.length_N[:, None]

    def find(self, among: Sentences) -> Tensor:
        """Find the sentence with the row and the number of each of the others; all must exist."""
        # Ascending in both, as `searchsorted` needs; a number never reaches 2**32.
        own_keys, other_keys = (s.row_N * (1 << 32) + s.number_N for s in (self, among))
        return torch.searchsorted(own_keys, other_keys)

    @property
    def layout(self) -> Layout:
        """Each sentence as one that stands alone; of sources as of decoder inputs."""
        one_NL = self.mask_NL.long()
        return Layout(one_NL, one_NL)

    def split(self, x_BX: Tensor) -> Tensor:
        """Return values of ids (B, X, ...) by sentence, (N, L, ...), zero in the padding."""
        rows = x_BX.new_zeros(*self.mask_NL.shape, *x_BX.shape[2:])
        rows[self._sentence_P, self._place_P] = x_BX[self._there_BX]
        return rows

    def join(self, x_NL: Tensor) -> Tensor:
        """Return the way back: (N, L, ...) as (B, X, ...), zero where no sentence is."""
        joined = x_NL.new_zeros(*self._there_BX.shape, *x_NL.shape[2:])
        joined[self._there_BX] = x_NL[self._sentence_P, self._place_P]
        return joined

    def square(self, weights_NLHXX: Tensor) -> Tensor:
        """Return weights within sentences (N, L, H, X, X) as (B, L, H, S, S), else zero."""
        rows, width = self._there_BX.shape
        joined = weights_NLHXX.new_zeros(rows, *weights_NLHXX.shape[1:3], width, width)
        for weights, (row, span) in zip(weights_NLHXX, self.spans(), strict=True):
            size = span.stop - span.start
            joined[row, :, :, span, span] = weights[..., :size, :size]
        return joined

    def spans(self) -> list[tuple[int, slice]]:
        """Return the row of each sentence, and its ids there."""
        rows, starts, lengths = (x.tolist() for x in (self.row_N, self.start_N, self.length_N))
        return [(b, slice(x, x + n)) for b, x, n in zip(rows, starts, lengths, strict=True)]


def source_numbers(layout: Layout) -> Tensor:
    """Return the sentence's number of each source id (B, S), from 1; a separator closes its own."""
    segment_BS = layout.source_BS
    before_BS = torch.cat([torch.ones_like(segment_BS[:, :1]), segment_BS[:, :-1]], dim=1)
    # In a segment the separator is the first id; as the end of a sentence it belongs to the one
    # before.
    return segment_BS - (segment_BS > before_BS).long()
