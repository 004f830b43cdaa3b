"""Attention norms: how long the vectors are that attention brings from each word."""

from __future__ import annotations

from typing import ClassVar

import torch

from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.explainers.inside import AllOrOne, pick_layer
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch


class AttentionNorm(Explainer):
    """The norm of a word's weighted and mapped value vector (Kobayashi et al. 2020, Eq. 5).

    A great weight on a short vector brings little. Source words by attention to the source, prefix
    words by the decoder's self-attention.

    Args:
        layer: which layer, counted from 0, negative from the end; None for the mean of all.
        heads: `all`, the vector that all heads bring together; or one of them, counted from 0.

    Raises:
        XnmtError: the model has no such layer or head.
    """

    attends: ClassVar[bool] = True

    def __init__(self, layer: int | None = -1, heads: AllOrOne = "all") -> None:
        self.layer, self.heads = layer, heads

    @torch.no_grad()
    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Return norms; labels play no part.

        Raises:
            NotApplicable: the model's blocks cannot be read.
        """
        blocks = model.attention_blocks(batch)

        def norms(side: int) -> torch.Tensor:
            # A layer has its self-attention first and its attention to the source second.
            by_layer = [layer[side].vectors(self.heads).norm(dim=-1) for layer in blocks.decoder]
            return pick_layer(torch.stack(by_layer, dim=1), self.layer)

        return Relevance.of_inputs(batch, *blocks.of_words(norms(1), norms(0)))
