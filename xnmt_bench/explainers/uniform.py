"""The same score for every word: a reference row for metrics that read scores."""

from __future__ import annotations

from typing import ClassVar

import torch

from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch


class Uniform(Explainer):
    """The same relevance for every word, so that a rule holds the first words of each side."""

    blind: ClassVar[bool] = True

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Return 1 for each word that a step sees; neither model nor labels play a part."""
        (size, steps), words = batch.target_BT.shape, batch.source_BS.shape[1]
        device = batch.source_BS.device
        # Of 1 and not 0: as shares of a step equal scores are even weights, and zeros are none.
        source_BTS = torch.ones(size, steps, words, device=device)
        return Relevance.of_inputs(batch, source_BTS, torch.ones(size, steps, steps, device=device))
