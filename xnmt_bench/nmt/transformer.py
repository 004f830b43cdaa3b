"""The Transformer of Vaswani et al. (2017); by default the paper's: 2 layers, 4 heads, 256."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xnmt_bench.corpora.subwords import PAD, SEPARATOR, Subwords
from xnmt_bench.nmt.base import AttentionWeights, Encoding, Layout, NMTModel, Reader, last_of
from xnmt_bench.options import Count, Natural, Rate


def sinusoids(positions: Tensor, dimension: int, like: Tensor) -> Tensor:
    """Positions (...) as sines and cosines (..., D) (Vaswani et al. 2017, section 3.5)."""
    even = torch.arange(0, dimension, 2, device=like.device, dtype=torch.float64)
    # In float64, so that a far position is exact too.
    angle = positions.double()[..., None] * torch.exp(even * (-math.log(10000.0) / dimension))
    waves = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)
    return waves[..., :dimension].to(like.dtype)  # of an odd dimension the last cosine is left out


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention over heads; gives its weights only when asked."""

    def __init__(self, dimension: int, heads: int, dropout: float) -> None:
        super().__init__()
        if dimension % heads:
            raise ValueError(f"{heads} heads do not divide {dimension} dimensions")
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(dimension, dimension)
        self.key_value = nn.Linear(dimension, 2 * dimension)
        self.out = nn.Linear(dimension, dimension)
        for layer in (self.query, self.key_value, self.out):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(
        self, query_BTD: Tensor, keys_values: Tensor, mask: Tensor, weights: list[Tensor] | None
    ) -> Tensor:
        """Attends from queries to memory.

        Args:
            query_BTD: queries.
            keys_values: of the memory, from `key_value`; (B, S, 2D).
            mask: True where attention is allowed, broadcast to (B, H, T, S).
            weights: where the weights (B, H, T, S) are appended, or None.
        """
        q, k, v = (
            x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for x in (self.query(query_BTD), *keys_values.chunk(2, dim=-1))
        )
        if weights is None:  # the fused kernel keeps no weights
            drop = self.dropout if self.training else 0.0
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=drop)
        else:
            energy = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
            weights.append(energy.masked_fill(~mask, -torch.inf).softmax(-1))
            mixed = weights[-1] @ v
        return self.out(mixed.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """An encoder layer, or with `cross` a decoder layer."""

    def __init__(
        self, dimension: int, heads: int, inner: int, dropout: float, pre_norm: bool, cross: bool
    ) -> None:
        super().__init__()
        self.pre_norm = pre_norm
        self.self_attention = MultiHeadAttention(dimension, heads, dropout)
        self.cross_attention = MultiHeadAttention(dimension, heads, dropout) if cross else None
        self.feed_forward = nn.Sequential(
            nn.Linear(dimension, inner),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(inner, dimension),
        )
        self.norms = nn.ModuleList(nn.LayerNorm(dimension) for _ in range(3 if cross else 2))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        mask: Tensor,
        memory: tuple[Tensor, Tensor] | None = None,
        self_weights: list[Tensor] | None = None,
        cross_weights: list[Tensor] | None = None,
        grown: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Runs the layer.

        Args:
            x: states of this side, (B, T, D).
            mask: True where a state may attend to another of this side.
            memory: in a decoder, the other side's keys and values, and its mask.
            self_weights: where attention weights are appended, or None.
            cross_weights: the same for attention to the other side.
            grown: gives, for the keys and values of these states, those of earlier ones too.
        """

        def attend(h: Tensor) -> Tensor:
            keys_values = self.self_attention.key_value(h)
            keys_values = grown(keys_values) if grown else keys_values
            return self.self_attention(h, keys_values, mask, self_weights)

        blocks: list[Callable[[Tensor], Tensor]] = [attend, self.feed_forward]
        if (cross := self.cross_attention) is not None and memory is not None:
            blocks.insert(1, lambda h: cross(h, *memory, cross_weights))
        for norm, block in zip(self.norms, blocks, strict=True):
            if self.pre_norm:
                x = x + self.dropout(block(norm(x)))
            else:
                x = norm(x + self.dropout(block(x)))
        return x


class Transformer(NMTModel):
    """An encoder-decoder Transformer.

    Args:
        source_subwords: the source vocabulary.
        target_subwords: the target vocabulary.
        layers: on each side.
        heads: of each attention.
        dimension: of embeddings and states.
        feed_forward: inner dimension of the feed-forward blocks.
        dropout: share of activations dropped in training.
        pre_norm: normalise before each block instead of after it.
        tied: the output layer shares the target embeddings.
        position_shift: added to the positions of each further segment of a concatenation
            (segment-shifted positions, Lupo et al. 2022).
    """

    def __init__(
        self,
        source_subwords: Subwords,
        target_subwords: Subwords,
        layers: Count = 2,
        heads: Count = 4,
        dimension: Count = 256,
        feed_forward: Count = 1024,
        dropout: Rate = 0.1,
        pre_norm: bool = False,
        tied: bool = True,
        position_shift: Natural = 0,
    ) -> None:
        super().__init__()
        self.source_subwords, self.target_subwords = source_subwords, target_subwords
        self.scale, self.position_shift = math.sqrt(dimension), position_shift
        self.source_embedding = _embedding(len(source_subwords), dimension)
        self.target_embedding = _embedding(len(target_subwords), dimension)
        size = (dimension, heads, feed_forward, dropout, pre_norm)
        self.encoder = nn.ModuleList(Layer(*size, cross=False) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(*size, cross=True) for _ in range(layers))
        # Post-norm layers end in a norm of their own; pre-norm ones need a last one.
        last = nn.LayerNorm if pre_norm else (lambda _: nn.Identity())
        self.encoder_norm, self.decoder_norm = last(dimension), last(dimension)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(dimension, len(target_subwords), bias=False)
        if tied:  # scaled on the way in, so that both uses want weights of one size
            self.output.weight = self.target_embedding.weight
        else:
            nn.init.normal_(self.output.weight, std=dimension**-0.5)

    def embed_source(self, ids_BS: Tensor) -> Tensor:
        """Scaled source embeddings (B, S, D)."""
        return self.source_embedding(ids_BS) * self.scale

    def embed_target(self, ids_BT: Tensor) -> Tensor:
        """Scaled target embeddings (B, T, D)."""
        return self.target_embedding(ids_BT) * self.scale

    def place(
        self,
        x_BTD: Tensor,
        segment_BT: Tensor,
        positions: Tensor | None = None,
        target: bool = False,
    ) -> Tensor:
        """Embeddings with their positions added.

        Args:
            x_BTD: embeddings.
            segment_BT: the segment of each, counted from 1.
            positions: of each, broadcast to (B, T); counted from 0 in each row, if not given.
            target: whether they are decoder inputs; here both sides are placed alike.
        """
        if positions is None:
            positions = torch.arange(x_BTD.shape[1], device=x_BTD.device)
        if self.position_shift:
            positions = positions + self.position_shift * (segment_BT - 1).clamp(min=0)
        return self.dropout(x_BTD + sinusoids(positions, x_BTD.shape[2], x_BTD))

    def encode(self, source_BSD: Tensor, layout: Layout) -> Encoding:
        """Encodes source embeddings; `extra` holds each decoder layer's keys and values."""
        states = self._encode(source_BSD, layout)
        # Computed here, they are shared by all rows that share an encoding.
        keys_values = (layer.cross_attention.key_value(states) for layer in self.decoder)  # type: ignore[operator, union-attr]
        return Encoding(states, layout, tuple(keys_values))

    def _encode(self, source_BSD: Tensor, layout: Layout, *weights: list[Tensor]) -> Tensor:
        x, mask = self.place(source_BSD, layout.source_BS), layout.mask_BS[:, None, None]
        for layer in self.encoder:
            x = layer(x, mask, None, *weights)
        return self.encoder_norm(x)

    def encoder_attention(self, source_BSD: Tensor, layout: Layout) -> Tensor:
        """Self-attention of every encoder layer and head, (B, L, H, S, S)."""
        weights: list[Tensor] = []
        self._encode(source_BSD, layout, weights)
        return torch.stack(weights, dim=1)

    def decode(self, encoding: Encoding, input_BTD: Tensor) -> Tensor:
        """Decodes a teacher-forced prefix: states (B, T, D)."""
        return self._decode(encoding, input_BTD)

    def _decode(self, encoding: Encoding, input_BTD: Tensor, *weights: list[Tensor]) -> Tensor:
        """States; attention's weights are appended to lists, of the prefix and of the source."""
        x = self.place(input_BTD, encoding.layout.input_BT, target=True)
        # Padding stands behind every word, so that this hides it too.
        causal, seen = _causal(input_BTD), encoding.mask_BS[:, None, None]
        for layer, keys_values in zip(self.decoder, encoding.extra, strict=True):
            x = layer(x, causal, (keys_values, seen), *weights)
        return self.decoder_norm(x)

    def reader(self, encoding: Encoding) -> Reader:
        """Keeps the keys and values of what it has read."""
        return TransformerReader(self, encoding)

    def logits(self, states: Tensor) -> Tensor:
        """Unnormalised log-probabilities (..., V)."""
        return self.output(states)

    def attention(self, encoding: Encoding, input_BTD: Tensor) -> AttentionWeights:
        """Cross-attention and decoder self-attention of every layer and head."""
        prefix, cross = [], []  # type: list[Tensor], list[Tensor]
        self._decode(encoding, input_BTD, prefix, cross)
        return AttentionWeights(torch.stack(cross, dim=1), torch.stack(prefix, dim=1))


class TransformerReader(Reader):
    """Computes each input once, and keeps its keys and values for the inputs behind it."""

    model: Transformer

    def __init__(self, model: Transformer, encoding: Encoding) -> None:
        super().__init__(model, encoding)
        # Nothing has been read: no place in the cache yet, and no segment open.
        self._keys_values = [keys_values[:, :0] for keys_values in encoding.extra]
        self._seen_RT = encoding.mask_BS[:, :0]
        self._segment_R = torch.zeros_like(encoding.layout.source_BS[:, 0])

    def read(self, ids_RT: Tensor) -> Tensor:
        """Reads further inputs of every row, padded with PAD; the state behind the last, (R, D)."""
        mask_RT = ids_RT != PAD
        # Rows may have read unlike numbers of inputs, so places in the cache are no positions.
        positions = self._seen_RT.sum(1, keepdim=True) + (mask_RT.cumsum(1) - 1).clamp(min=0)
        segment_RT = self._segment_R[:, None] + (ids_RT == SEPARATOR).cumsum(1)
        x = self.model.place(self.model.embed_target(ids_RT), segment_RT, positions, target=True)
        earlier = self._seen_RT[:, None].expand(-1, ids_RT.shape[1], -1)
        allowed = torch.cat([earlier, _causal(x) & mask_RT[:, None]], dim=2)[:, None]
        seen = self.encoding.mask_BS[:, None, None]
        for n, layer in enumerate(self.model.decoder):
            x = layer(x, allowed, (self.encoding.extra[n], seen), grown=partial(self._grow, n))
        self._seen_RT = torch.cat([self._seen_RT, mask_RT], dim=1)
        self._segment_R = segment_RT[:, -1]
        return last_of(self.model.decoder_norm(x), mask_RT)

    def _grow(self, layer: int, new_RTD: Tensor) -> Tensor:
        """Keeps a layer's new keys and values behind its earlier ones; all of them."""
        self._keys_values[layer] = torch.cat([self._keys_values[layer], new_RTD], dim=1)
        return self._keys_values[layer]

    def select(self, rows: Tensor) -> None:
        """Goes on with some of the rows, in a new order, some perhaps more than once."""
        super().select(rows)
        self._keys_values = [kept[rows] for kept in self._keys_values]
        self._seen_RT, self._segment_R = self._seen_RT[rows], self._segment_R[rows]


def _causal(x_BTD: Tensor) -> Tensor:
    """True where input t may see input t', (T, T)."""
    steps = x_BTD.shape[1]
    return torch.ones(steps, steps, dtype=torch.bool, device=x_BTD.device).tril()


def _embedding(size: int, dimension: int) -> nn.Embedding:
    embedding = nn.Embedding(size, dimension, padding_idx=PAD)
    nn.init.normal_(embedding.weight, std=dimension**-0.5)
    with torch.no_grad():
        embedding.weight[PAD].zero_()
    return embedding
