"""Attention rollout: attention weights followed through all layers, down to the words."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch, Forced


class Rollout(Explainer):
    """What of each word reaches a step through attention and residuals (Abnar and Zuidema 2020).

    Each block is half its residual and half its attention, the mean over heads. For encoder layers
    l, from the words on,

        E = (A_L + I)/2 ... (A_1 + I)/2,

    and the decoder's states are mixtures X of source words and inputs, at first the inputs
    themselves: X := (X + A_self X)/2, then X := (X + A_cross E)/2, layer by layer. Each row sums to
    1, over source words, EOS and inputs, BOS included, less what goes to ids that a model itself
    puts around a sentence. Labels play no part.
    """

    @torch.no_grad()
    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Roll the encoder into the decoder.

        Raises:
            NotApplicable: the layers of the model are not one stack of attention.
        """
        if not model.one_stack:
            raise NotApplicable("its layers are not one stack of attention to roll out")
        encoder = model.encoder_attention(model.embed_source(batch.source_BS), batch.layout)
        weights = Forced.of(model, batch).attention
        assert encoder is not None and weights.prefix_BLHTT is not None, "it is one stack"
        cross_BLTS, self_BLTT = weights.cross_BLHTS.mean(2), weights.prefix_BLHTT.mean(2)
        decoder = zip(self_BLTT.unbind(1), cross_BLTS.unbind(1), strict=True)
        return Relevance.of_inputs(batch, *roll_out(encoder.mean(2).unbind(1), [*decoder]))


def roll_out(
    encoder: Sequence[Tensor], decoder: Sequence[tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """Return what of source states and decoder inputs reaches each step, (B, T, S) and (B, T, T).

    Args:
        encoder: by layer, what of each state the others take, (B, S, S); rows sum to 1.
        decoder: by layer, the same of its own side, (B, T, T), and of the source, (B, T, S).
    """
    source_BSS = _identity(encoder[0])
    for attention_BSS in encoder:
        source_BSS = _halved(source_BSS, attention_BSS @ source_BSS)
    from_input_BTT, from_source_BTS = _identity(decoder[0][0]), torch.zeros_like(decoder[0][1])
    for self_BTT, cross_BTS in decoder:
        from_source_BTS = _halved(from_source_BTS, self_BTT @ from_source_BTS)
        from_input_BTT = _halved(from_input_BTT, self_BTT @ from_input_BTT)
        from_source_BTS = _halved(from_source_BTS, cross_BTS @ source_BSS)
        from_input_BTT = from_input_BTT / 2
    return from_source_BTS, from_input_BTT


def _identity(like_BXX: Tensor) -> Tensor:
    return torch.eye(like_BXX.shape[-1]).to(like_BXX).expand_as(like_BXX)


def _halved(residual: Tensor, attended: Tensor) -> Tensor:
    return (residual + attended) / 2
