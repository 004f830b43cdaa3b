"""Attention norms: how long the vectors are that attention brings from each word."""

from __future__ import annotations

from typing import ClassVar

import torch

from xnmt_bench.explainers.attention import Attention
from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch


class AttentionNorm(Explainer):
    """The norm of a word's weighted and mapped value vector (Kobayashi et al. 2020, Eq. 5).

    A great weight on a short vector brings little. Source words by attention to the source, prefix
    words by the decoder's self-attention.

    Args:
        layer: which layer, counted from 0, negative from the end; None for the mean of all.

    Raises:
        XnmtError: the model has no such layer.
    """

    attends: ClassVar[bool] = True

    def __init__(self, layer: int | None = -1) -> None:
        # Chooses the layer as attention does.
        self._layers = Attention(layer)

    @torch.no_grad()
    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Return norms; labels play no part.

        Raises:
            NotApplicable: the model's blocks cannot be read.
        """
        blocks = model.attention_blocks(batch)

        def norms(side: int) -> torch.Tensor:
            by_layer = [layer[side].vectors().norm(dim=-1) for layer in blocks.decoder]
            # One head: the norm is of the sum over heads.
            return self._layers.reduce(torch.stack(by_layer, dim=1)[:, :, None])

        return Relevance.of_inputs(batch, *blocks.of_words(norms(1), norms(0)))
