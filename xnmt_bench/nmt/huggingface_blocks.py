"""The attention blocks of Hugging Face models; each family has its own names for their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from xnmt_bench.errors import NotApplicable
from xnmt_bench.nmt.blocks import AttentionBlock

TOLERANCE = 1e-4  # of the greatest number that attention adds, between two ways to compute it
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


class CausalLayer(NamedTuple):
    """What a layer of a language model does, as far as its attention is taken apart.

    Attributes:
        layer: all of it; its output is the sum of its input, attention and the feed-forward block.
        out: joins the heads.
        branch_norm: of what attention adds; None in most families.
        feed_forward: what the feed-forward block adds.
    """

    layer: nn.Module
    out: nn.Linear
    branch_norm: nn.Module | None
    feed_forward: nn.Module


def causal_layers(stack: Any) -> list[CausalLayer]:
    """Return the layers of a language model.

    Raises:
        NotApplicable: they have other parts than those of the families that are known here.
    """
    try:
        # A model of text and images holds a language model.
        return [_causal_layer(layer) for layer in getattr(stack, "language_model", stack).layers]
    except AttributeError as error:
        problem = "the attention blocks of the model cannot be taken apart"
        raise NotApplicable(f"{problem}: {error}") from error


def _causal_layer(layer: Any) -> CausalLayer:
    # GPT-NeoX has other names than Llama, Mistral, Qwen and Gemma.
    attention = layer.attention if hasattr(layer, "attention") else layer.self_attn
    out = attention.dense if hasattr(attention, "dense") else attention.o_proj
    if hasattr(layer, "post_feedforward_layernorm"):  # Gemma 2 and 3
        norms = (layer.post_attention_layernorm, layer.post_feedforward_layernorm)
        return CausalLayer(layer, out, *norms)
    return CausalLayer(layer, out, None, layer.mlp)


class Passes:
    """What went through some modules: one after another, the inputs and outputs of each."""

    def __init__(self) -> None:
        self._kept: dict[nn.Module, list[tuple[Tensor, Tensor]]] = {}

    @contextmanager
    def record(self, modules: Sequence[nn.Module]) -> Iterator[None]:
        """Keep what goes through modules."""
        with ExitStack() as hooks:
            for module in modules:
                hooks.enter_context(module.register_forward_hook(self._keep, with_kwargs=True))
            yield

    def _keep(
        self, module: nn.Module, arguments: Any, options: dict[str, Any], output: Any
    ) -> None:
        first = arguments[0] if arguments else options["hidden_states"]
        output = output[0] if isinstance(output, tuple) else output  # in older versions
        self._kept.setdefault(module, []).append((first, output))

    def last_two(self, module: nn.Module) -> list[Tensor]:
        """Return inputs and outputs of the last two passes, one behind the other, (B, Q, D)."""
        return [torch.cat(parts, dim=1) for parts in zip(*self._kept[module][-2:], strict=True)]


def take_layer_apart(
    parts: CausalLayer, passes: Passes, weights_BHQK: Tensor, values_BGKE: Tensor
) -> AttentionBlock:
    """Compute the attention block of a layer again from what was read.

    Args:
        parts: of the layer.
        passes: of source and of inputs, the last two through the layer.
        weights_BHQK: of attention.
        values_BGKE: of each group of heads.

    Raises:
        NotApplicable: values are kept in another form than heads have them; or the block, its input
            and the feed-forward block do not sum to the output.
    """
    heads, groups, size = weights_BHQK.shape[1], values_BGKE.shape[1], values_BGKE.shape[-1]
    # Latent attention keeps keys and values compressed.
    if heads % groups or parts.out.weight.shape[1] != heads * size:
        raise NotApplicable(
            "the attention blocks of the model cannot be taken apart: its values are compressed"
        )
    input_BQD, output_BQD = passes.last_two(parts.layer)
    fed_BQD = passes.last_two(parts.feed_forward)[1]
    values_BHKE = values_BGKE.repeat_interleave(heads // groups, dim=1)
    added_BQD = parts.out((weights_BHQK @ values_BHKE).transpose(1, 2).flatten(2))
    if parts.branch_norm is not None:
        added_BQD = parts.branch_norm(added_BQD)
    summed_BQD = input_BQD + added_BQD
    # Sums of great numbers round; and what attention adds is often small beside them.
    precision = max(torch.finfo(dtype).eps for dtype in (summed_BQD.dtype, torch.float32))
    rounding_BQD = 8 * precision * (input_BQD.abs() + fed_BQD.abs() + added_BQD.abs())
    error_BQD = (summed_BQD + fed_BQD - output_BQD).abs()
    # Asked this way round, since not a number is not close either.
    if not (error_BQD <= TOLERANCE * added_BQD.abs().max() + rounding_BQD).all():
        raise NotApplicable(
            "the attention blocks of the model cannot be taken apart: what they add and the rest "
            "of a layer do not sum to what the layer gives"
        )
    sums = (summed_BQD, summed_BQD)
    return AttentionBlock(
        weights_BHQK, values_BHKE, parts.out, input_BQD, *sums, None, parts.branch_norm
    )
