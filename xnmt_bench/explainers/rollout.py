"""Attention rollout: attention weights followed through all layers, down to the words."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.explainers.inside import Reduction, pick_layer, reduce_heads
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch, Forced


class Rollout(Explainer):
    """What of each word reaches a step through attention and residuals (Abnar and Zuidema 2020).

    Each block is half its residual and half its attention, by default the mean over heads. For
    encoder layers l, from the words on,

        E = (A_L + I)/2 ... (A_1 + I)/2,

    and the decoder's states are mixtures X of source words and inputs, at first the inputs
    themselves: X := (X + A_self X)/2, then X := (X + A_cross E)/2, layer by layer. Each row sums to
    1, over source words, EOS and inputs, BOS included, less what goes to ids that a model itself
    puts around a sentence. Labels play no part.

    Args:
        layer: the decoder layer whose states are followed down, counted from 0, negative from the
            end; None for the mean of all.
        heads: how heads are reduced: `mean`; `max`, divided by its sum over the words; or one of
            them, counted from 0.

    Raises:
        XnmtError: the model has no such layer or head.
    """

    papers = ("abnar2020",)

    def __init__(self, layer: int | None = -1, heads: Reduction = "mean") -> None:
        self.layer, self.heads = layer, heads

    @torch.no_grad()
    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Roll the encoder into the decoder.

        Raises:
            NotApplicable: the layers of the model are not one stack of attention.
        """
        if not model.one_stack:
            # A second encoder or pass is another way down, which one product of layers leaves out.
            raise NotApplicable("it needs a model whose layers are one stack of attention")
        encoder = model.encoder_attention(model.embed_source(batch.source_BS), batch.layout)
        weights = Forced.of(model, batch).attention
        assert encoder is not None and weights.prefix_BLHTT is not None, "it is one stack"
        to_source, to_inputs, to_states = (
            [self._reduce(layer_BHQX) for layer_BHQX in weights_BLHQX.unbind(1)]
            for weights_BLHQX in (weights.cross_BLHTS, weights.prefix_BLHTT, encoder)
        )
        rolled_out = roll_out(to_states, [*zip(to_inputs, to_source, strict=True)])
        return Relevance.of_inputs(batch, *(pick_layer(x, self.layer) for x in rolled_out))

    def _reduce(self, weights_BHQX: Tensor) -> Tensor:
        reduced_BQX = reduce_heads(weights_BHQX, self.heads)
        if self.heads != "max":
            return reduced_BQX
        # The maximum of several heads sums to more than 1, and would outweigh the residual.
        return reduced_BQX / reduced_BQX.sum(-1, keepdim=True)


def roll_out(
    encoder: Sequence[Tensor], decoder: Sequence[tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """Return what of source states and decoder inputs reaches each step, behind each decoder layer.

    Args:
        encoder: by layer, what of each state the others take, (B, S, S); rows sum to 1.
        decoder: by layer, the same of its own side, (B, T, T), and of the source, (B, T, S).

    Returns:
        Of source states (B, L, T, S) and of decoder inputs (B, L, T, T).
    """
    source_BSS = _identity(encoder[0])
    for attention_BSS in encoder:
        source_BSS = _halved(source_BSS, attention_BSS @ source_BSS)
    from_input_BTT, from_source_BTS = _identity(decoder[0][0]), torch.zeros_like(decoder[0][1])
    by_layer: list[tuple[Tensor, Tensor]] = []
    for self_BTT, cross_BTS in decoder:
        # Self-attention first, as in a decoder layer: it mixes what earlier layers brought.
        from_source_BTS = _halved(from_source_BTS, self_BTT @ from_source_BTS)
        from_input_BTT = _halved(from_input_BTT, self_BTT @ from_input_BTT)
        from_source_BTS = _halved(from_source_BTS, cross_BTS @ source_BSS)
        # Attention to the source brings nothing of the inputs, so only the residual half is left.
        from_input_BTT = from_input_BTT / 2
        by_layer.append((from_source_BTS, from_input_BTT))
    from_source_BLTS, from_input_BLTT = (torch.stack(x, 1) for x in zip(*by_layer, strict=True))
    return from_source_BLTS, from_input_BLTT


def _identity(like_BXX: Tensor) -> Tensor:
    return torch.eye(like_BXX.shape[-1]).to(like_BXX).expand_as(like_BXX)


def _halved(residual: Tensor, attended: Tensor) -> Tensor:
    return (residual + attended) / 2
