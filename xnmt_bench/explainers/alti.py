"""ALTI+: what each word contributes, through all layers, by what each block really adds."""

from __future__ import annotations

import torch
from torch import Tensor

from xnmt_bench.explainers.inside import BlockExplainer
from xnmt_bench.nmt.blocks import AttentionBlock, Blocks


class Alti(BlockExplainer):
    """Contributions of words to a decoder block (Ferrando et al. 2022, ALTI and ALTI+).

    A block's output y is a sum of transformed vectors, one of each state that it reads, the
    residual among them. What j contributes is max(0, |y| - |y - T_j|) in the l1 norm, as a share of
    the sum over j. Shares are multiplied through the layers, the encoder's into attention to the
    source. Each row sums to 1, over source words, EOS and inputs, BOS included, and ids that a
    model itself puts around a sentence. Feed-forward blocks, a last norm and the norms inside a
    pre-norm layer stand outside, as in the paper. Labels play no part.

    Args:
        layer: the decoder layer whose blocks are the last ones, counted from 0, negative from the
            end; None for the mean of all. The paper's is the last.
        heads: `all`, a state's vector is what all heads bring of it; or what one of them brings,
            counted from 0.

    Raises:
        XnmtError: the model has no such layer or head.
    """

    papers = ("ferrando2022alti", "ferrando2022towards")

    def score_layers(self, blocks: Blocks) -> tuple[Tensor, Tensor]:
        """Roll contributions through encoder and decoder."""
        states_BSD = blocks.encoder[0].input_BQD
        source_BSS = torch.eye(states_BSD.shape[1]).to(states_BSD)
        for block in blocks.encoder:
            source_BSS = self._own_side(block) @ source_BSS
        first = blocks.decoder[0][0].input_BQD
        from_input_BTT = torch.eye(first.shape[1]).to(first).expand(len(first), -1, -1)
        # Decoder inputs hold nothing of the source before the first cross-attention.
        from_source_BTS = first.new_zeros(*first.shape[:2], states_BSD.shape[1])
        by_layer: list[tuple[Tensor, Tensor]] = []
        for to_itself, cross in blocks.decoder:
            own_BTT = self._own_side(to_itself)
            # Of what is attended to and, last, of the residual.
            parts = [cross.vectors(self.heads), cross.input_BQD[:, :, None]]
            cross_BTX = _shares(cross, torch.cat(parts, dim=2))
            to_source_BTS, residual_BT1 = cross_BTX[..., :-1], cross_BTX[..., -1:]
            from_source_BTS = residual_BT1 * (own_BTT @ from_source_BTS)
            from_source_BTS = from_source_BTS + to_source_BTS @ source_BSS
            from_input_BTT = residual_BT1 * (own_BTT @ from_input_BTT)
            by_layer.append((from_source_BTS, from_input_BTT))
        from_source_BLTS, from_input_BLTT = (torch.stack(x, 1) for x in zip(*by_layer, strict=True))
        return from_source_BLTS, from_input_BLTT

    def _own_side(self, block: AttentionBlock) -> Tensor:
        """Return the contributions of self-attention's states, (B, Q, Q), each one's own too."""
        vectors_BQKD = block.vectors(self.heads)
        diagonal = torch.arange(vectors_BQKD.shape[1])
        # The residual is the state's own, so it adds to what the state brings to itself.
        vectors_BQKD[:, diagonal, diagonal] += block.input_BQD
        return _shares(block, vectors_BQKD)


def _shares(block: AttentionBlock, vectors_BQXD: Tensor) -> Tensor:
    """Return each vector's share of what a block puts out, by the l1 norm."""
    output_BQ1D = block.output_BQD[:, :, None]
    length_BQ1 = output_BQ1D.abs().sum(-1)
    without_BQX = (output_BQ1D - block.normed(vectors_BQXD)).abs().sum(-1)
    # A vector that points away from the output makes it shorter and contributes nothing.
    brought_BQX = (length_BQ1 - without_BQX).clamp(min=0)
    sum_BQ1 = brought_BQX.sum(-1, keepdim=True)
    # Where none contributes the row is 0; NaN would spread to all steps of the sentence.
    return brought_BQX / sum_BQ1.where(sum_BQ1 > 0, 1)
