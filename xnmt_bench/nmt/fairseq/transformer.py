"""fairseq's `transformer` and its named sizes, on this project's layers.

It is the Transformer of `nmt.transformer` with fairseq's positions, which count from 2, and with
what its options add: learned positions, a norm over embeddings, other activations.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from xnmt_bench.corpora.formats.fairseq import THEIR_PAD
from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.fairseq.checkpoint import Options, Weights
from xnmt_bench.nmt.fairseq.subwords import DictionarySubwords
from xnmt_bench.nmt.transformer import Layer, MultiHeadAttention, Transformer

ACTIVATIONS: dict[str, Any] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "gelu_fast": lambda: nn.GELU(approximate="tanh"),
    "gelu_accurate": lambda: nn.GELU(approximate="tanh"),
    "tanh": nn.Tanh,
    "swish": nn.SiLU,
}
FIRST = THEIR_PAD + 1  # fairseq's first position


class FairseqTransformer(Transformer):
    """A checkpoint's Transformer, of its dictionaries, options and weights."""

    reads_separators = False
    target_subwords: DictionarySubwords
    encoder_norm: nn.Module  # type: ignore[assignment]
    decoder_norm: nn.Module  # type: ignore[assignment]

    def __init__(
        self,
        source_subwords: DictionarySubwords,
        target_subwords: DictionarySubwords,
        options: Options,
        weights: Weights,
    ) -> None:
        NMTModel.__init__(self)  # the Transformer's would make layers of its own
        self.source_subwords, self.target_subwords = source_subwords, target_subwords
        _check(options)
        self.position_shift, self.dropout = 0, nn.Dropout(0.0)
        self.source_embedding = weights.embedding("encoder", source_subwords.ids)
        self.target_embedding = weights.embedding("decoder", target_subwords.ids)
        dimension = self.source_embedding.embedding_dim
        self.scale = 1.0 if options.get("no_scale_embedding") else math.sqrt(dimension)
        self.positions, self.embedding_norms = nn.ModuleDict(), nn.ModuleDict()
        for side in ("encoder", "decoder"):
            if options.get("no_token_positional_embeddings"):
                self.positions[side] = _NoPositions()
            elif options.get(f"{side}_learned_pos"):
                table = weights.take(f"{side}.embed_positions.weight")
                self.positions[side] = nn.Embedding.from_pretrained(table)
                longest = "longest_source" if side == "encoder" else "longest_target"
                setattr(self, longest, len(table) - FIRST)
            else:
                self.positions[side] = _Sinusoids(dimension)
            self.embedding_norms[side] = _norm(f"{side}.layernorm_embedding", dimension, weights)
        self.encoder = _layers("encoder", options, weights, dimension)
        self.decoder = _layers("decoder", options, weights, dimension)
        self.encoder_norm = _norm("encoder.layer_norm", dimension, weights)
        self.decoder_norm = _norm("decoder.layer_norm", dimension, weights)
        self.output = nn.Linear(dimension, len(target_subwords), bias=False)
        self.output.weight = self.target_embedding.weight  # unless one of these is there
        for name in ("decoder.output_projection.weight", "decoder.embed_out"):
            if name in weights:
                table = weights.take(name)[target_subwords.ids.theirs_V]
                self.output.weight = nn.Parameter(table)
                break
        self.impossible = target_subwords.ids.unpredictable  # BOS is EOS's input and no word

    def place(
        self,
        x_BTD: Tensor,
        segment_BT: Tensor,
        positions: Tensor | None = None,
        target: bool = False,
    ) -> Tensor:
        """Return embeddings with their positions added, and normed if so configured."""
        side, name = ("decoder", "target") if target else ("encoder", "source")
        steps, most = x_BTD.shape[1], self.longest_target if target else self.longest_source
        if most is not None and steps > most:
            raise XnmtError(f"a {name} of {steps} subwords; the model reads {most} at most")
        if positions is None:
            positions = torch.arange(steps, device=x_BTD.device)
        placed = x_BTD + self.positions[side](positions + FIRST).to(x_BTD.dtype)
        return self.embedding_norms[side](placed)  # type: ignore[no-any-return]


class _Sinusoids(nn.Module):
    """fairseq's sines and cosines, one half of the dimensions each."""

    rate: Tensor

    def __init__(self, dimension: int) -> None:
        super().__init__()
        half = dimension // 2
        # In float32 and over half - 1, unlike the paper's: these are the ones it was trained with.
        rate = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / (half - 1)))
        self.register_buffer("rate", rate, persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        angle = positions[..., None] * self.rate
        return torch.cat([angle.sin(), angle.cos()], dim=-1)


class _NoPositions(nn.Module):
    def forward(self, positions: Tensor) -> Tensor:
        return torch.zeros((*positions.shape, 1), device=positions.device)


def _check(options: Options) -> None:
    """Name what this reader does not follow, as an XnmtError."""
    options.refuse(
        adaptive_input=False,
        adaptive_softmax_cutoff=None,
        cross_self_attention=False,
        no_cross_attention=False,
        base_layers=0,
        encoder_layers_to_keep=None,
        decoder_layers_to_keep=None,
        quant_noise_scalar=0,
    )
    dimension = options["encoder_embed_dim"]
    for name in ("decoder_embed_dim", "decoder_input_dim", "decoder_output_dim"):
        if (other := options.get(name, dimension)) != dimension:
            sizes = f"{name}={other} with encoder_embed_dim={dimension}"
            raise XnmtError(f"{options.path}: {sizes} is not supported; both should be equal")
    if (activation := options.get("activation_fn", "relu")) not in ACTIVATIONS:
        raise XnmtError(f"{options.path}: activation_fn={activation} is not supported")


def _layers(side: str, options: Options, weights: Weights, dimension: int) -> nn.ModuleList:
    """Return one side's layers with their weights."""
    activation = ACTIVATIONS[options.get("activation_fn", "relu")]
    norms = ["self_attn_layer_norm", "final_layer_norm"]
    if cross := side == "decoder":
        norms.insert(1, "encoder_attn_layer_norm")
    heads, inner = options[f"{side}_attention_heads"], options[f"{side}_ffn_embed_dim"]
    pre_norm = bool(options.get(f"{side}_normalize_before"))
    layers = nn.ModuleList()
    for n in range(options[f"{side}_layers"]):
        stem = f"{side}.layers.{n}"
        layer = Layer(dimension, heads, inner, 0.0, pre_norm, cross)
        layer.feed_forward[1] = activation()
        _fill_attention(layer.self_attention, f"{stem}.self_attn", weights)
        if layer.cross_attention is not None:
            _fill_attention(layer.cross_attention, f"{stem}.encoder_attn", weights)
        for i, name in enumerate(norms):
            numbered = f"{stem}.layer_norms.{i}"  # as they were before 2019
            old = f"{numbered}.weight" in weights
            weights.fill(layer.norms[i], numbered if old else f"{stem}.{name}")
        weights.fill(layer.feed_forward[0], f"{stem}.fc1")
        weights.fill(layer.feed_forward[3], f"{stem}.fc2")
        layers.append(layer)
    return layers


def _fill_attention(attention: MultiHeadAttention, stem: str, weights: Weights) -> None:
    for kind in ("weight", "bias"):
        if f"{stem}.in_proj_{kind}" in weights:  # before 2019 the three were one
            q, k, v = weights.take(f"{stem}.in_proj_{kind}").chunk(3)
        else:
            q, k, v = (weights.take(f"{stem}.{name}_proj.{kind}") for name in "qkv")
        setattr(attention.query, kind, nn.Parameter(q.clone()))
        setattr(attention.key_value, kind, nn.Parameter(torch.cat([k, v])))
    weights.fill(attention.out, f"{stem}.out_proj")


def _norm(stem: str, dimension: int, weights: Weights) -> nn.Module:
    """Return a norm that only some checkpoints have."""
    if f"{stem}.weight" not in weights:
        return nn.Identity()
    norm = nn.LayerNorm(dimension)
    weights.fill(norm, stem)
    return norm
