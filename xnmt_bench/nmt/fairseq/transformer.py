"""fairseq's `transformer` and its named sizes, on this project's layers.

It is the Transformer of `nmt.transformer` with fairseq's positions, which count from 2, and with
what its options add: learned positions, a norm over embeddings, other activations.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from xnmt_bench.corpora.fairseq import THEIR_PAD
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
    """A checkpoint's Transformer.

    Args:
        source_subwords: the source dictionary.
        target_subwords: the target dictionary.
        options: the checkpoint's.
        weights: the checkpoint's.
    """

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
        NMTModel.__init__(self)
        self.source_subwords, self.target_subwords = source_subwords, target_subwords
        _check(options)
        self.position_shift, self.dropout = 0, nn.Dropout(0.0)
        sides = {"encoder": source_subwords, "decoder": target_subwords}
        embeddings = {
            side: nn.Embedding.from_pretrained(
                weights.take(f"{side}.embed_tokens.weight")[subwords.ids.theirs_V]
            )
            for side, subwords in sides.items()
        }
        self.source_embedding, self.target_embedding = embeddings["encoder"], embeddings["decoder"]
        dimension = self.source_embedding.embedding_dim
        self.scale = 1.0 if options.get("no_scale_embedding") else math.sqrt(dimension)
        self.positions, self.embedding_norms = nn.ModuleDict(), nn.ModuleDict()
        if options.get("decoder_learned_pos"):
            self.longest_target = len(weights.peek("decoder.embed_positions.weight")) - FIRST
        for side in sides:
            self._read_embedding_extras(side, options, weights, dimension)
        self.encoder = _layers("encoder", options, weights, dimension)
        self.decoder = _layers("decoder", options, weights, dimension)
        self.encoder_norm = _norm(weights, "encoder.layer_norm", dimension, optional=True)
        self.decoder_norm = _norm(weights, "decoder.layer_norm", dimension, optional=True)
        self.output = nn.Linear(dimension, len(target_subwords), bias=False)
        table = _output(weights, self.target_embedding, target_subwords)
        self.output.weight = nn.Parameter(table)

    def _read_embedding_extras(
        self, side: str, options: Options, weights: Weights, dimension: int
    ) -> None:
        stem = f"{side}.embed_positions.weight"
        if options.get("no_token_positional_embeddings"):
            self.positions[side] = _NoPositions()
        elif options.get(f"{side}_learned_pos"):
            self.positions[side] = nn.Embedding.from_pretrained(weights.take(stem))
        else:
            self.positions[side] = _Sinusoids(dimension)
        norm = _norm(weights, f"{side}.layernorm_embedding", dimension, optional=True)
        self.embedding_norms[side] = norm

    def place(
        self,
        x_BTD: Tensor,
        segment_BT: Tensor,
        positions: Tensor | None = None,
        target: bool = False,
    ) -> Tensor:
        """Embeddings with their positions added, and normed where the options say so."""
        side = "decoder" if target else "encoder"
        if positions is None:
            positions = torch.arange(x_BTD.shape[1], device=x_BTD.device)
        placed = x_BTD + self.positions[side](positions + FIRST).to(x_BTD.dtype)
        return self.embedding_norms[side](placed)  # type: ignore[no-any-return]

    def logits(self, states: Tensor) -> Tensor:
        """Unnormalised log-probabilities (..., V); BOS is EOS's input and no word to predict."""
        found = self.output(states)
        found[..., self.target_subwords.ids.unpredictable] = -torch.inf
        return found


class _Sinusoids(nn.Module):
    """fairseq's sines and cosines, one half of the dimensions each."""

    rate: Tensor

    def __init__(self, dimension: int) -> None:
        super().__init__()
        half = dimension // 2
        rate = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / (half - 1)))
        self.register_buffer("rate", rate, persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        angle = positions[..., None] * self.rate
        return torch.cat([angle.sin(), angle.cos()], dim=-1)


class _NoPositions(nn.Module):
    def forward(self, positions: Tensor) -> Tensor:
        return torch.zeros((*positions.shape, 1), device=positions.device)


def _check(options: Options) -> None:
    """What this reader does not follow is named.

    Raises:
        XnmtError: the options have any of it.
    """
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
        if options.get(name, dimension) != dimension:
            raise XnmtError(
                f"{options.path}: {name}={options.get(name)} beside encoder_embed_dim={dimension} "
                "is not supported"
            )
    if options.get("activation_fn", "relu") not in ACTIVATIONS:
        raise XnmtError(
            f"{options.path}: activation_fn={options.get('activation_fn')} is not supported"
        )


def _layers(side: str, options: Options, weights: Weights, dimension: int) -> nn.ModuleList:
    cross = side == "decoder"
    activation = ACTIVATIONS[options.get("activation_fn", "relu")]
    layers = nn.ModuleList()
    for n in range(options[f"{side}_layers"]):
        layer = Layer(
            dimension,
            options[f"{side}_attention_heads"],
            options[f"{side}_ffn_embed_dim"],
            0.0,
            bool(options.get(f"{side}_normalize_before")),
            cross,
        )
        layer.feed_forward[1] = activation()
        _fill(layer, f"{side}.layers.{n}", weights, dimension)
        layers.append(layer)
    return layers


def _fill(layer: Layer, stem: str, weights: Weights, dimension: int) -> None:
    """Gives a layer its weights."""
    _fill_attention(layer.self_attention, f"{stem}.self_attn", weights)
    norms = ["self_attn_layer_norm", "final_layer_norm"]
    if layer.cross_attention is not None:
        _fill_attention(layer.cross_attention, f"{stem}.encoder_attn", weights)
        norms.insert(1, "encoder_attn_layer_norm")
    # Before 2019 norms had numbers.
    numbered = f"{stem}.layer_norms.0.weight" in weights
    for n, name in enumerate(norms):
        layer.norms[n] = _norm(
            weights, f"{stem}.layer_norms.{n}" if numbered else f"{stem}.{name}", dimension
        )
    for place, name in ((0, "fc1"), (3, "fc2")):
        _fill_linear(layer.feed_forward[place], f"{stem}.{name}", weights)


def _fill_attention(attention: MultiHeadAttention, stem: str, weights: Weights) -> None:
    for kind in ("weight", "bias"):
        if f"{stem}.in_proj_{kind}" in weights:  # before 2019 the three were one
            q, k, v = weights.take(f"{stem}.in_proj_{kind}").chunk(3)
        else:
            q, k, v = (weights.take(f"{stem}.{name}_proj.{kind}") for name in "qkv")
        setattr(attention.query, kind, nn.Parameter(q.clone()))
        setattr(attention.key_value, kind, nn.Parameter(torch.cat([k, v])))
    _fill_linear(attention.out, f"{stem}.out_proj", weights)


def _fill_linear(linear: Any, stem: str, weights: Weights) -> None:
    linear.weight = nn.Parameter(weights.take(f"{stem}.weight"))
    linear.bias = nn.Parameter(weights.take(f"{stem}.bias"))


def _norm(weights: Weights, stem: str, dimension: int, optional: bool = False) -> nn.Module:
    if optional and f"{stem}.weight" not in weights:
        return nn.Identity()
    norm = nn.LayerNorm(dimension)
    _fill_linear(norm, stem, weights)
    return norm


def _output(weights: Weights, shared: nn.Embedding, subwords: DictionarySubwords) -> Tensor:
    """The output layer, in our order: of its own, or the target embeddings."""
    for name in ("decoder.output_projection.weight", "decoder.embed_out"):
        if name in weights:
            return weights.take(name)[subwords.ids.theirs_V]
    return shared.weight.clone()
