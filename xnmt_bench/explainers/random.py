"""Random relevance: the floor that any explainer has to beat."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.options import Seed


class Random(Explainer):
    """Uniform draws, decided by the seed and the sentence's own words, never by its batch.

    Args:
        seed: another seed is another draw.
    """

    blind: ClassVar[bool] = True

    def __init__(self, seed: Seed = 0) -> None:
        self.seed = seed

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Return one draw for each word and step."""
        source_BTS = torch.zeros(*batch.target_BT.shape, batch.source_BS.shape[1])
        input_BTT = torch.zeros(*batch.target_BT.shape, batch.target_BT.shape[1])
        masks = (batch.source_mask_BS, batch.target_mask_BT)
        for row, (s, t) in enumerate(zip(*(mask.sum(1).tolist() for mask in masks), strict=True)):
            # Drawn on the CPU, without the padding: neither device nor batch plays a part.
            generator = seeded(self.seed, batch.source_BS[row, :s], batch.target_BT[row, :t])
            source_BTS[row, :t, :s] = torch.rand(t, s, generator=generator)
            input_BTT[row, :t, :t] = torch.rand(t, t, generator=generator)
        device = batch.source_BS.device
        return Relevance.of_inputs(batch, source_BTS.to(device), input_BTT.to(device))


def seeded(
    seed: int, source_S: Tensor | np.ndarray, target_T: Tensor | np.ndarray
) -> torch.Generator:
    """Return a generator that a seed and a sentence's own ids decide, on every platform."""
    value = seed
    for i in [*source_S.tolist(), *target_T.tolist()]:
        # A polynomial hash over a Mersenne prime: Python's own hash may differ between versions.
        value = (value * 1_000_003 + i + 1) % (2**61 - 1)
    return torch.Generator().manual_seed(value)
