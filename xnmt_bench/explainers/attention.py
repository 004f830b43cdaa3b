"""Attention as relevance (Li et al. 2020, section 2.2, after Bahdanau et al. 2015)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.explainers.inside import Reduction, pick_layer, reduce_heads
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch, Forced


class Attention(Explainer):
    """Cross-attention for source words, decoder self-attention for prefix words.

    The default, the last layer's mean over heads, is fixed on first principles: the last layer is
    the one whose output the prediction is read from (only it is Eq. 4 of a one-layer model), and
    no head has a claim over another.

    Args:
        layer: which layer, counted from 0, negative from the end; None for the mean of all.
        heads: how heads are reduced: `mean` or `max`; or one of them, counted from 0.

    Raises:
        XnmtError: the model has no such layer or head.
    """

    papers = ("bahdanau2015",)
    tells_own_side: ClassVar[bool] = True
    attends: ClassVar[bool] = True

    def __init__(self, layer: int | None = -1, heads: Reduction = "mean") -> None:
        self.layer, self.heads = layer, heads
        # The greatest of several sums to more than 1.
        self.shares = "" if heads == "max" else "side"

    @torch.no_grad()
    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Return attention weights; labels play no part."""
        weights = Forced.of(model, batch).attention
        prefix = weights.prefix_BLHTT
        # None where a recurrent model has no attention over its prefix.
        return Relevance.of_inputs(
            batch, self.reduce(weights.cross_BLHTS), None if prefix is None else self.reduce(prefix)
        )

    def reduce(self, weights_BLHTX: Tensor) -> Tensor:
        """Return layers and heads made one, as configured: (B, T, X)."""
        return reduce_heads(pick_layer(weights_BLHTX, self.layer), self.heads)

    @torch.no_grad()
    def own_side(self, model: NMTModel, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return self-attention of encoder and decoder, reduced as configured.

        Raises:
            NotApplicable: the model lacks attention on one of its sides.
        """
        source_BSD = model.embed_source(batch.source_BS)
        encoder = model.encoder_attention(source_BSD, batch.layout)
        encoding = model.encode(source_BSD, batch.layout)
        decoder = model.attention(encoding, model.embed_target(batch.input_BT)).prefix_BLHTT
        if encoder is None or decoder is None:
            raise NotApplicable("the model has no self-attention")
        # Without BOS, the first input. EOS, the last label, is read by no step, and no word either.
        words_XX = self.reduce(decoder)[0, 1:, 1:]
        return self.reduce(encoder)[0], torch.nn.functional.pad(words_XX, (0, 1, 0, 1))
