"""Attention rollout: attention weights followed through all layers, down to the words."""

from __future__ import annotations

import torch
from torch import Tensor

from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.explainers.inside import Mix, Reduction, pick_layer, reduce_heads, roll_out
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch


class Rollout(Explainer):
    """What of each word reaches a step through attention and residuals (Abnar and Zuidema 2020).

    Each block is half its residual and half its attention, by default the mean over heads. For
    encoder layers l, from the words on,

        E = (A_L + I)/2 ... (A_1 + I)/2,

    and the decoder's states are mixtures X of source words and inputs, at first the inputs
    themselves: X := (X + A_self X)/2, then X := (X + A_cross E)/2, layer by layer. A decoder-only
    model has E's product alone, over the prompt, the source, what stands between, and the inputs.
    Each row sums to 1, over source words, EOS and inputs, BOS included, less what goes to ids that
    a model itself puts around a sentence. Labels play no part.

    Args:
        layer: the decoder layer whose states are followed down, counted from 0, negative from the
            end; None for the mean of all.
        heads: how heads are reduced: `mean`; `max`, divided by its sum over the words; or one of
            them, counted from 0.

    Raises:
        XnmtError: the model has no such layer or head.
    """

    papers = ("abnar2020",)
    shares = "step"

    def __init__(self, layer: int | None = -1, heads: Reduction = "mean") -> None:
        self.layer, self.heads = layer, heads

    @torch.no_grad()
    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Roll the layers out, an encoder into the decoder.

        Raises:
            NotApplicable: the layers of the model are not one stack of attention.
        """
        layers = model.attention_layers(batch).map(self._mix)
        words = layers.of_words(pick_layer(roll_out(layers), self.layer))
        return Relevance.of_inputs(batch, *words)

    def _mix(self, weights_BHQK: Tensor) -> Mix:
        reduced_BQK = reduce_heads(weights_BHQK, self.heads)
        if self.heads == "max":
            # The maximum of several heads sums to more than 1, and would outweigh the residual.
            reduced_BQK = reduced_BQK / reduced_BQK.sum(-1, keepdim=True)
        return Mix(0.5, reduced_BQK / 2)
