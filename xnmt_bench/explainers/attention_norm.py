"""Attention norms: how long the vectors are that attention brings from each word."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from xnmt_bench.explainers.inside import BlockExplainer
from xnmt_bench.nmt.blocks import Blocks


class AttentionNorm(BlockExplainer):
    """The norm of a word's weighted and mapped value vector (Kobayashi et al. 2020, Eq. 5).

    A great weight on a short vector brings little. Source words by attention to the source, prefix
    words by the decoder's self-attention.

    Args:
        layer: which layer, counted from 0, negative from the end; None for the mean of all.
        heads: `all`, the vector that all heads bring together; or one of them, counted from 0.

    Raises:
        XnmtError: the model has no such layer or head.
    """

    papers = ("kobayashi2020",)
    attends: ClassVar[bool] = True

    def score_layers(self, blocks: Blocks) -> tuple[Tensor, Tensor]:
        """Return norms."""
        # A layer has its self-attention first and its attention to the source second.
        of_input_BLTT, of_source_BLTS = (
            torch.stack([block.vectors(self.heads).norm(dim=-1) for block in side], dim=1)
            for side in zip(*blocks.decoder, strict=True)
        )
        return of_source_BLTS, of_input_BLTT
