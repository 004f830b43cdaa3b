"""Attention norms: how long the vectors are that attention brings from each word."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from xnmt_bench.explainers.inside import BlockExplainer
from xnmt_bench.nmt.blocks import AttentionBlock, Blocks


class AttentionNorm(BlockExplainer):
    """The norm of a word's weighted and mapped value vector (Kobayashi et al. 2020, Eq. 5).

    A great weight on a short vector brings little. Source words by attention to the source, prefix
    words by the decoder's self-attention; in a decoder-only model one attention has both.

    Args:
        layer: which layer, counted from 0, negative from the end; None for the mean of all.
        heads: `all`, the vector that all heads bring together; or one of them, counted from 0.

    Raises:
        XnmtError: the model has no such layer or head.
    """

    papers = ("kobayashi2020",)
    attends: ClassVar[bool] = True

    def score_layers(self, blocks: Blocks[AttentionBlock]) -> Tensor:
        """Return norms."""
        # Columns of the encoder's states come first, and a layer's self-attention does too.
        by_layer = [
            torch.cat([block.vectors(self.heads).norm(dim=-1) for block in layer[::-1]], dim=-1)
            for layer in blocks.decoder
        ]
        return torch.stack(by_layer, dim=1)
