"""Nearness in the place of an explanation: the closest words, for any model."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch


class Nearest(Explainer):
    """The source word at the same share of its sentence as the step, and the previous word."""

    blind: ClassVar[bool] = True

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Return minus the distance to the diagonal; neither model nor labels play a part."""
        source_BS, target_BT = _shares(batch.current_BS), _shares(batch.current_BT)
        distance_BTS = (target_BT[:, :, None] - source_BS[:, None]).abs()
        return Relevance.of_inputs(batch, -distance_BTS, previous_first(batch))


def _shares(current_BX: Tensor) -> Tensor:
    """Return where each word stands in the current sentence, from 0 to 1; others lie outside."""
    places_X = torch.arange(current_BX.shape[1], device=current_BX.device)
    start_B1 = current_BX.int().argmax(1, keepdim=True)
    # The middle of a word's share: first words meet first words, and last words last ones.
    return (places_X - start_B1 + 0.5) / current_BX.sum(1, keepdim=True)


def previous_first(batch: Batch) -> Tensor:
    """Return scores over decoder inputs (B, T, T) that rank the nearest word first."""
    # Greater for what stands further right; what a step cannot see is marked absent later.
    size, steps = batch.target_BT.shape
    nearness = torch.arange(steps, dtype=torch.float32, device=batch.target_BT.device)
    return nearness.expand(size, steps, steps)
