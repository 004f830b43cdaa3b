"""Attention norms: how long the vectors are that attention brings from each word."""

from __future__ import annotations

import torch

from xnmt_bench.explainers.attention import Attention
from xnmt_bench.explainers.base import Relevance
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.blocks import AttentionBlock


class AttentionNorm(Attention):
    """The norm of a word's weighted and mapped value vector (Kobayashi et al. 2020, Eq. 5).

    A great weight on a short vector brings little. Source words by attention to the source, prefix
    words by the decoder's self-attention.

    Args:
        layer: which layer, counted from 0, negative from the end; None for the mean of all.
    """

    gives_shares = False

    def __init__(self, layer: int | None = -1) -> None:
        super().__init__(layer, "mean")
        self.gives_shares = False

    @torch.no_grad()
    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Return norms; labels play no part.

        Raises:
            NotApplicable: the model's blocks cannot be read.
        """
        blocks = model.attention_blocks(batch).decoder

        def reduced(side: int) -> torch.Tensor:
            norms = [_norms(block[side]) for block in blocks]
            # One head, since heads are summed before the norm is taken.
            return self.reduce(torch.stack(norms, dim=1)[:, :, None])

        return Relevance.of_inputs(batch, reduced(1), reduced(0))


def _norms(block: AttentionBlock) -> torch.Tensor:
    return block.vectors().norm(dim=-1)
