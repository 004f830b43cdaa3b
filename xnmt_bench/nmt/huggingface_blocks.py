"""The attention blocks of Hugging Face models; each family has its own names for their parts."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor, nn

from xnmt_bench.nmt.blocks import AttentionBlock

# Marian normalises behind each block, the others before it.
POST_NORM = ("marian",)


class Attention(NamedTuple):
    """One attention of a layer.

    Attributes:
        value: maps a state that is attended to.
        out: joins the heads.
        norm: of the block.
    """

    value: nn.Linear
    out: nn.Linear
    norm: nn.Module


def attentions(stack: Any) -> list[list[Attention]]:
    """Return each layer's attention to its own side and, in a decoder, to the source."""
    if stack.config.model_type == "t5":
        # The last part of a layer is feed-forward.
        return [[_of_t5(part) for part in block.layer[:-1]] for block in stack.block]
    names = ("self_attn", "encoder_attn")
    return [
        [_of_bart(layer, name) for name in names if hasattr(layer, name)] for layer in stack.layers
    ]


def _of_t5(part: Any) -> Attention:
    attention = getattr(part, "SelfAttention", None) or part.EncDecAttention
    return Attention(attention.v, attention.o, part.layer_norm)


def _of_bart(layer: Any, name: str) -> Attention:
    attention = getattr(layer, name)
    return Attention(attention.v_proj, attention.out_proj, getattr(layer, f"{name}_layer_norm"))


def take_apart(
    attention: Attention,
    weights_BHQK: Tensor,
    input_BQD: Tensor,
    memory_BKD: Tensor | None,
    post_norm: bool,
) -> AttentionBlock:
    """Compute one block again from the weights of a pass.

    Args:
        attention: its parts.
        weights_BHQK: of the pass.
        input_BQD: what the block read there.
        memory_BKD: what is attended to; None for the block's own side.
        post_norm: normalise behind the block instead of before it.
    """
    if memory_BKD is None:
        memory_BKD = input_BQD if post_norm else attention.norm(input_BQD)
    values_BHKE = attention.value(memory_BKD).unflatten(-1, (weights_BHQK.shape[1], -1))
    values_BHKE = values_BHKE.transpose(1, 2)
    heads_BQD = (weights_BHQK @ values_BHKE).transpose(1, 2).flatten(2)
    summed_BQD = input_BQD + attention.out(heads_BQD)
    output_BQD = attention.norm(summed_BQD) if post_norm else summed_BQD
    norm = attention.norm if post_norm else None
    return AttentionBlock(
        weights_BHQK, values_BHKE, attention.out, input_BQD, summed_BQD, output_BQD, norm
    )
