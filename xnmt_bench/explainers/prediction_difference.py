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
from xnmt_bench.nmt.switched import SwitchedOff
from xnmt_bench.options import Count


class PredictionDifference(Explainer):
    """P(y given c_t) - P(y given c_t without w), w's embedding replaced by zero.

    Args:
        positions: decoder positions computed in one pass; bounds memory, never changes a result.
    """

    def __init__(self, positions: Count = 8192) -> None:
        self.positions = positions

    @torch.no_grad()
    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Ablates each source word and each prefix word once."""
        ablation = Ablation(model, batch)
        source_BTS = self._ablate(ablation.without_source, batch.source_BS, batch)
        # Input 0 is BOS and no word; its score is never read.
        prefix_BTT = self._ablate(ablation.without_prefix, batch.input_BT[:, 1:], batch)
        bos = prefix_BTT.new_zeros(*prefix_BTT.shape[:2], 1)
        return Relevance.of_inputs(batch, source_BTS, torch.cat([bos, prefix_BTT], dim=-1))

    def _ablate(
        self, probability: Callable[[Tensor], Tensor], words_BX: Tensor, batch: Batch
    ) -> Tensor:
        """Probability lost without each of X words, (B, T, X)."""
        (size, steps), words = batch.target_BT.shape, words_BX.shape[1]
        if words == 0:
            return torch.zeros(size, steps, 0, device=words_BX.device)
        lost = FeatureAblation(probability).attribute(
            torch.ones(size, words, device=words_BX.device),
            baselines=0.0,
            perturbations_per_eval=min(words, max(1, self.positions // (size * steps))),
        )
        return lost.view(size, steps, words)


class Ablation:
    """Probabilities (R, T) of a batch's labels with words switched off; R is B times a block count.

    Captum asks row block after row block: b0 b1 .. b0 b1 .., one word less in each block.
    """

    def __init__(self, model: NMTModel, batch: Batch) -> None:
        self._model, self._labels_BT = model, require_labels(batch)
        self._steps_BT, self._switched = batch.target_mask_BT, SwitchedOff(model, batch)
        whole_BTD = self._switched.states()
        self._whole_BT = model.log_probability(whole_BTD, self._labels_BT).exp()

    def without_source(self, keep_RS: Tensor) -> Tensor:
        """Encodes anew without the words switched off; every step may change."""
        times = len(keep_RS) // len(self._labels_BT)
        changed_RT = self._steps_BT.repeat(times, 1) & (keep_RS == 0).any(1, keepdim=True)
        return self._probability(keep_RS, None, changed_RT)

    def without_prefix(self, keep_RX: Tensor) -> Tensor:
        """Shares the encoding; only the steps after a word that is switched off may change."""
        times = len(keep_RX) // len(self._labels_BT)
        keep_RT = torch.cat([torch.ones_like(keep_RX[:, :1]), keep_RX], dim=1)
        changed_RT = self._steps_BT.repeat(times, 1) & (keep_RT.cumprod(1) == 0)
        return self._probability(None, keep_RT, changed_RT)

    def _probability(
        self, keep_source_RS: Tensor | None, keep_input_RT: Tensor | None, changed_RT: Tensor
    ) -> Tensor:
        """Asks the output layer, the dearest part, only where the answer may have changed."""
        times = len(changed_RT) // len(self._labels_BT)
        probability_RT = self._whole_BT.repeat(times, 1)
        if changed_RT.any():
            states = self._switched.states(keep_source_RS, keep_input_RT)[changed_RT]
            labels = self._labels_BT.repeat(times, 1)[changed_RT]
            probability_RT[changed_RT] = self._model.log_probability(states, labels).exp()
        return probability_RT
