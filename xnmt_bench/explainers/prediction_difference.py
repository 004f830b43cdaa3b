"""Prediction difference (Li et al. 2019): how much probability is lost without a word.

Under teacher forcing one row, with one embedding zeroed, answers for all steps at once. So a pair
costs S + T rows: a source word's removal is encoded anew, a prefix word's shares the encoding.
Captum's FeatureAblation does the ablating, on a switch for each word rather than on its embedding.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from captum.attr import FeatureAblation
from torch import Tensor

from xnmt_bench.explainers.base import Explainer, Relevance, require_labels
from xnmt_bench.nmt.base import Batch, NMTModel


class PredictionDifference(Explainer):
    """P(y given c_t) - P(y given c_t without w), w's embedding replaced by zero.

    Args:
        positions: decoder positions computed in one pass; bounds memory, never changes a result.
    """

    def __init__(self, positions: int = 8192) -> None:
        self.positions = positions

    @torch.no_grad()
    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Ablates each source word and each decoder input once."""
        labels_BT, mask_BS = require_labels(batch), batch.source_mask_BS
        source_BSD, input_BTD = model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)
        encoding = model.encode(source_BSD, mask_BS)

        def without_source(keep_RS: Tensor) -> Tensor:
            times = len(keep_RS) // len(source_BSD)
            ablated = source_BSD.repeat(times, 1, 1) * keep_RS[..., None]
            anew = model.encode(ablated, mask_BS.repeat(times, 1))
            return self._probability(model, anew, input_BTD.repeat(times, 1, 1), labels_BT)

        def without_input(keep_RT: Tensor) -> Tensor:
            times = len(keep_RT) // len(input_BTD)
            ablated = input_BTD.repeat(times, 1, 1) * keep_RT[..., None]
            return self._probability(model, encoding.tile(times), ablated, labels_BT)

        return Relevance.of_inputs(
            batch,
            self._ablate(without_source, source_BSD, labels_BT),
            self._ablate(without_input, input_BTD, labels_BT),
        )

    @staticmethod
    def _probability(model, encoding, input_RTD, labels_BT) -> Tensor:  # type: ignore[no-untyped-def]  # noqa: ANN001
        states = model.decode(encoding, input_RTD)
        labels = labels_BT.repeat(len(states) // len(labels_BT), 1)
        return model.log_probability(states, labels).exp()

    def _ablate(
        self, probability: Callable[[Tensor], Tensor], words_BXD: Tensor, labels_BT: Tensor
    ) -> Tensor:
        """Probability lost without each of X words, (B, T, X)."""
        size, words = words_BXD.shape[:2]
        rows = max(1, self.positions // max(1, labels_BT.numel()))
        lost = FeatureAblation(probability).attribute(
            words_BXD.new_ones(size, words),
            baselines=0.0,
            perturbations_per_eval=min(rows, words),
        )
        return lost.view(size, labels_BT.shape[1], words)
