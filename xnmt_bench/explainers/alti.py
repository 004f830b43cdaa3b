"""ALTI+: what each word contributes, through all layers, by what each block really adds."""

from __future__ import annotations

import torch
from torch import Tensor

from xnmt_bench.explainers.inside import BlockExplainer, Mix, roll_out
from xnmt_bench.nmt.blocks import AttentionBlock, Blocks


class Alti(BlockExplainer):
    """Contributions of words to a decoder block (Ferrando et al. 2022, ALTI and ALTI+).

    A block's output y is a sum of transformed vectors, one of each state that it reads, the
    residual among them. What j contributes is max(0, |y| - |y - T_j|) in the l1 norm, as a share of
    the sum over j. Shares are multiplied through the layers, the encoder's into attention to the
    source; those of a decoder-only model over all that it reads. Each row sums to 1, over source
    words, EOS and inputs, BOS included, and ids that a model itself puts around a sentence.
    Feed-forward blocks, a last norm and the norms inside a pre-norm layer stand outside, as in the
    paper. Labels play no part.

    Args:
        layer: the decoder layer whose blocks are the last ones, counted from 0, negative from the
            end; None for the mean of all. The paper's is the last.
        heads: `all`, a state's vector is what all heads bring of it; or what one of them brings,
            counted from 0.

    Raises:
        XnmtError: the model has no such layer or head.
    """

    papers = ("ferrando2022alti", "ferrando2022towards")
    shares = "step"

    def score_layers(self, blocks: Blocks[AttentionBlock]) -> Tensor:
        """Roll contributions out."""
        return roll_out(blocks.map(self._mix_own_side, self._mix_encoder))

    def _mix_own_side(self, block: AttentionBlock) -> Mix:
        """Return the contributions of self-attention's states, each one's own too."""
        vectors_BQKD = block.vectors(self.heads)
        queries, keys = vectors_BQKD.shape[1:3]
        query_Q = torch.arange(queries)
        # The residual is the state's own, so it adds to what the state brings to itself.
        vectors_BQKD[:, query_Q, query_Q + keys - queries] += block.input_BQD
        return Mix(0.0, _shares(block, vectors_BQKD))

    def _mix_encoder(self, block: AttentionBlock) -> Mix:
        """Return the contributions of the encoder's states, and of the residual."""
        parts = [block.vectors(self.heads), block.input_BQD[:, :, None]]
        shares_BQX = _shares(block, torch.cat(parts, dim=2))
        return Mix(shares_BQX[..., -1:], shares_BQX[..., :-1])


def _shares(block: AttentionBlock, vectors_BQXD: Tensor) -> Tensor:
    """Return each vector's share of what a block puts out, by the l1 norm."""
    output_BQ1D = block.output_BQD[:, :, None]
    without_BQXD = output_BQ1D - block.normed(vectors_BQXD)
    # Subtracted dimension by dimension: a few great ones would leave few digits of the others.
    brought_BQX = (output_BQ1D.abs() - without_BQXD.abs()).sum(-1)
    # A vector that points away from the output makes it shorter and contributes nothing.
    brought_BQX = brought_BQX.clamp(min=0)
    sum_BQ1 = brought_BQX.sum(-1, keepdim=True)
    # Where none contributes the row is 0; NaN would spread to all steps of the sentence.
    return brought_BQX / sum_BQ1.where(sum_BQ1 > 0, 1)
