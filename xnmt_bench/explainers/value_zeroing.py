"""Value zeroing: how each block's output turns when one state's value is taken out of it."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from xnmt_bench.explainers.inside import AllOrOne, BlockExplainer, Mix, roll_out
from xnmt_bench.nmt.blocks import AttentionBlock, Blocks


class ValueZeroing(BlockExplainer):
    """1 - cosine of a block's output with and without a state's value (Mohebbi et al. 2023).

    The attention weights do not change. Residual and a norm behind the block are part of its
    output, the feed-forward block is not. The scores of a block, as shares of their sum, are then
    rolled out as `rollout` does attention weights: each block is half its residual, which no value
    changes, and half its shares. Each row sums to 1, over source words, EOS and inputs, BOS
    included, and ids that a model itself puts around a sentence; to less where no value of a block
    changes anything, since no state then has a share. Labels play no part.

    Args:
        layer: the decoder layer whose states are followed down, counted from 0, negative from the
            end; None for the mean of all.
        heads: `all`, a state's value is taken out of all heads; or out of one, counted from 0.

    Raises:
        XnmtError: the model has no such layer or head.
    """

    papers = ("mohebbi2023",)
    shares = "step"

    def score_layers(self, blocks: Blocks[AttentionBlock]) -> Tensor:
        """Roll the blocks' scores out."""
        return roll_out(blocks.map(self._mix))

    def _mix(self, block: AttentionBlock) -> Mix:
        """Return as shares how much the output turns without each state's value."""
        turned_BQK = scores(block, self.heads)
        sum_BQ1 = turned_BQK.sum(-1, keepdim=True)
        # A row of zeros stays one, since 0 / 0 would mark its words as absent.
        return Mix(0.5, turned_BQK / sum_BQ1.where(sum_BQ1 > 0, 1.0) / 2)


def scores(block: AttentionBlock, heads: AllOrOne = "all") -> Tensor:
    """Return 1 - cosine of the block's output and its output without each value, (B, Q, K).

    Args:
        block: one attention block.
        heads: out of which heads a value is taken: `all`, or one of them.
    """
    # Half the squared distance of unit vectors is 1 - cosine, and small angles keep their digits.
    output_BQ1D = F.normalize(block.output_BQD, dim=-1)[:, :, None]
    turned_BQKD = F.normalize(block.without_values(heads), dim=-1) - output_BQ1D
    return turned_BQKD.square().sum(-1) / 2
