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
        # The middle of a word's share: first words meet first words, and last words last ones.
        source_BS, target_BT = (
            (torch.arange(mask.shape[1], device=mask.device) + 0.5) / mask.sum(1, keepdim=True)
            for mask in (batch.source_mask_BS, batch.target_mask_BT)
        )
        distance_BTS = (target_BT[:, :, None] - source_BS[:, None]).abs()
        return Relevance.of_inputs(batch, -distance_BTS, previous_first(batch))


def previous_first(batch: Batch) -> Tensor:
    """Return scores over decoder inputs (B, T, T) that rank the nearest word first."""
    # Greater for what stands further right; what a step cannot see is marked absent later.
    size, steps = batch.target_BT.shape
    nearness = torch.arange(steps, dtype=torch.float32, device=batch.target_BT.device)
    return nearness.expand(size, steps, steps)
