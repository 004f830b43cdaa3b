"""The Transformer of Vaswani et al. (2017); by default the paper's: 2 layers, 4 heads, 256."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xnmt_bench.corpora.vocabulary.subwords import PAD, SEPARATOR, Subwords
from xnmt_bench.device import exact
from xnmt_bench.nmt.base import NMTModel, Prefix, Reader, last_of
from xnmt_bench.nmt.batch import AttentionWeights, Batch, Encoding, Layout
from xnmt_bench.nmt.blocks import AttentionBlock, Blocks
from xnmt_bench.nmt.output import LinearOutput
from xnmt_bench.options import Few, Natural, Rate, Size


def sinusoids(positions: Tensor, dimension: int, like: Tensor) -> Tensor:
    """Return positions (...) as sines and cosines (..., D) (Vaswani et al. 2017, section 3.5)."""
    if exact(like.device) != torch.float64:
        positions = positions.cpu()  # in float64, so that a far position is exact too
    even = torch.arange(0, dimension, 2, device=positions.device, dtype=torch.float64)
    angle = positions.double()[..., None] * torch.exp(even * (-math.log(10000.0) / dimension))
    waves = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)
    return waves[..., :dimension].to(like)  # of an odd dimension the last cosine is left out


@lru_cache(16)
def first_sinusoids(steps: int, dimension: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return those of the positions from 0 on, (T, D); kept, since every pass asks for them."""
    return sinusoids(
        torch.arange(steps, device=device), dimension, torch.empty(0, dtype=dtype, device=device)
    )


class Memory(NamedTuple):
    """What a layer attends to besides its own side.

    Attributes:
        keys_values: of it, from `key_value`; (B, S, 2D).
        mask: True where attention is allowed, broadcast to (B, H, T, S).
        weights: where the weights (B, H, T, S) are appended, or None.
    """

    keys_values: Tensor
    mask: Tensor
    weights: list[Tensor] | None = None


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention over heads; gives its weights only when asked."""

    def __init__(
        self, dimension: int, heads: int, dropout: float, memory: int | None = None
    ) -> None:
        """Make attention with fresh weights.

        Args:
            dimension: of the queries and of the result.
            heads: which divide it.
            dropout: share of the weights dropped in training.
            memory: dimension of what is attended to; that of the queries, if not given.
        """
        super().__init__()
        if dimension % heads:
            raise ValueError(f"{heads} heads do not divide {dimension} dimensions")
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(dimension, dimension)
        # Keys and values in one product, which an encoding keeps as one tensor a layer.
        self.key_value = nn.Linear(memory or dimension, 2 * dimension)
        self.out = nn.Linear(dimension, dimension)
        for layer in (self.query, self.key_value, self.out):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(
        self, query_BTD: Tensor, keys_values: Tensor, mask: Tensor, weights: list[Tensor] | None
    ) -> Tensor:
        """Attend from queries to memory.

        Args:
            query_BTD: queries.
            keys_values: of the memory, from `key_value`; (B, S, 2D).
            mask: True where attention is allowed, broadcast to (B, H, T, S).
            weights: where the weights (B, H, T, S) are appended, or None.
        """
        q, k, v = self.split_heads(query_BTD, keys_values)
        if weights is None:  # the fused kernel keeps no weights
            drop = self.dropout if self.training else 0.0
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=drop)
        else:
            # Without dropout: weights are wanted only in evaluation mode.
            weights.append(energies(q, k, mask).softmax(-1))
            mixed = weights[-1] @ v
        return self.join_heads(mixed)

    def split_heads(self, query_BTD: Tensor, keys_values: Tensor) -> Iterator[Tensor]:
        """Yield queries (B, H, T, E), keys and values (B, H, S, E) of each head."""
        for x in (self.query(query_BTD), *keys_values.chunk(2, dim=-1)):
            yield x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def join_heads(self, mixed_BHTE: Tensor) -> Tensor:
        """Return what attention adds of what each head has mixed, (B, T, D)."""
        joined: Tensor = self.out(mixed_BHTE.transpose(1, 2).flatten(2))
        return joined

    def look(self, memory: Memory, query_BTD: Tensor) -> Tensor:
        """Return attention to a memory."""
        mixed: Tensor = self(query_BTD, *memory)
        return mixed


def energies(query_BHTE: Tensor, key_BHSE: Tensor, mask: Tensor) -> Tensor:
    """Return attention's weights before the softmax, -inf where the mask is False, (B, H, T, S)."""
    energy_BHTS = query_BHTE @ key_BHSE.transpose(-1, -2) / math.sqrt(query_BHTE.shape[-1])
    return energy_BHTS.masked_fill(~mask, -torch.inf)


def feed_forward(dimension: int, inner: int, dropout: float) -> nn.Sequential:
    """Return the feed-forward block of Vaswani et al. (2017), section 3.3."""
    return nn.Sequential(
        nn.Linear(dimension, inner), nn.ReLU(), nn.Dropout(dropout), nn.Linear(inner, dimension)
    )


class Layer(nn.Module):
    """An encoder layer, or with `cross` a decoder layer."""

    def __init__(
        self, dimension: int, heads: int, inner: int, dropout: float, pre_norm: bool, cross: bool
    ) -> None:
        super().__init__()
        self.pre_norm = pre_norm
        self.self_attention = MultiHeadAttention(dimension, heads, dropout)
        self.cross_attention = MultiHeadAttention(dimension, heads, dropout) if cross else None
        self.feed_forward = feed_forward(dimension, inner, dropout)
        # One for each block, in their order.
        self.norms = nn.ModuleList(nn.LayerNorm(dimension) for _ in range(3 if cross else 2))
        self.dropout = nn.Dropout(dropout)

    @property
    def attentions(self) -> tuple[MultiHeadAttention, ...]:
        """To the memories, in their order."""
        return () if self.cross_attention is None else (self.cross_attention,)

    def forward(
        self,
        x: Tensor,
        mask: Tensor,
        memories: Sequence[Memory] = (),
        self_weights: list[Tensor] | None = None,
        grown: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Run the layer.

        Args:
            x: states of this side, (B, T, D).
            mask: True where a state may attend to another of this side.
            memories: what is attended to besides it; in a decoder, the other side.
            self_weights: where the weights of attention to this side are appended, or None.
            grown: gives, for the keys and values of these states, those of earlier ones too.
        """

        def attend(h: Tensor) -> Tensor:
            keys_values = self.self_attention.key_value(h)
            keys_values = grown(keys_values) if grown else keys_values
            return self.self_attention(h, keys_values, mask, self_weights)

        blocks: list[Callable[[Tensor], Tensor]] = [attend]
        for attention, memory in zip(self.attentions, memories, strict=True):
            blocks.append(partial(attention.look, memory))
        blocks.append(self.feed_forward)
        for norm, block in zip(self.norms, blocks, strict=True):
            if self.pre_norm:
                x = x + self.dropout(block(norm(x)))
            else:
                x = norm(x + self.dropout(block(x)))
        return x

    def blocks(
        self, x_BQD: Tensor, mask: Tensor, memories: Sequence[Memory] = ()
    ) -> tuple[Tensor, list[AttentionBlock]]:
        """Return what `forward` does in evaluation mode, and its attention blocks.

        Args:
            x_BQD: states of this side.
            mask: True where a state may attend to another of this side.
            memories: what is attended to besides it; in a decoder, the other side.
        """
        blocks = []
        attended = [(self.self_attention, None), *zip(self.attentions, memories, strict=True)]
        for norm, (attention, memory) in zip(self.norms, attended, strict=False):
            read_BQD = norm(x_BQD) if self.pre_norm else x_BQD
            own_side = Memory(attention.key_value(read_BQD), mask) if memory is None else memory
            weights: list[Tensor] = []
            summed_BQD = x_BQD + attention(read_BQD, own_side.keys_values, own_side.mask, weights)
            output_BQD = summed_BQD if self.pre_norm else norm(summed_BQD)
            values_BKD = own_side.keys_values.chunk(2, dim=-1)[1]
            values_BHKE = values_BKD.unflatten(-1, (attention.heads, -1)).transpose(1, 2)
            behind = None if self.pre_norm else norm
            blocks.append(
                AttentionBlock(
                    weights[0], values_BHKE, attention.out, x_BQD, summed_BQD, output_BQD, behind
                )
            )
            x_BQD = output_BQD
        last = self.norms[-1]
        if self.pre_norm:
            return x_BQD + self.feed_forward(last(x_BQD)), blocks
        return last(x_BQD + self.feed_forward(x_BQD)), blocks


class DecoderStack(LinearOutput, NMTModel):
    """What the Transformers of this project share: embeddings, a stack of layers, an output layer.

    A subclass has `place` and `memories`, and the layers of `decoder`.
    """

    decoder: nn.ModuleList
    decoder_norm: nn.Module

    def make_embeddings(
        self, source_subwords: Subwords, target_subwords: Subwords, dimension: int
    ) -> None:
        """Take the vocabularies, and give their words fresh embeddings."""
        self.source_subwords, self.target_subwords = source_subwords, target_subwords
        self.scale = math.sqrt(dimension)
        self.source_embedding = embedding(len(source_subwords), dimension)
        self.target_embedding = embedding(len(target_subwords), dimension)

    def make_output(self, dimension: int, tied: bool) -> None:
        """Make the output layer; if it is tied, its weights are the target embeddings."""
        self.output = nn.Linear(dimension, len(self.target_subwords), bias=False)
        if tied:  # scaled on the way in, so that both uses want weights of one size
            self.output.weight = self.target_embedding.weight
        else:
            nn.init.normal_(self.output.weight, std=dimension**-0.5)

    def embed_source(self, ids_BS: Tensor) -> Tensor:
        """Return scaled source embeddings (B, S, D)."""
        return self.source_embedding(ids_BS) * self.scale

    def embed_target(self, ids_BT: Tensor) -> Tensor:
        """Return scaled target embeddings (B, T, D)."""
        return self.target_embedding(ids_BT) * self.scale

    @abstractmethod
    def place(
        self,
        x_BTD: Tensor,
        segment_BT: Tensor,
        positions: Tensor | None = None,
        target: bool = False,
    ) -> Tensor:
        """Return embeddings as they enter the stack.

        Args:
            x_BTD: embeddings.
            segment_BT: the segment of each, counted from 1.
            positions: of each, broadcast to (B, T); counted from 0 in each row, if not given.
            target: whether they are decoder inputs.
        """

    @abstractmethod
    def memories(
        self, encoding: Encoding, positions: Tensor, weights: list[Tensor] | None = None
    ) -> Sequence[Any]:
        """Return what each decoder layer attends to of the source.

        Args:
            encoding: of the source.
            positions: of the inputs that attend, from 0, broadcast to (B, X).
            weights: where the weights of attention are appended, or None.
        """

    def decode(self, encoding: Encoding, input_BTD: Tensor) -> Tensor:
        """Decode a teacher-forced prefix: states (B, T, D)."""
        return self._decode(encoding, input_BTD)

    def _decode(
        self,
        encoding: Encoding,
        input_BTD: Tensor,
        prefix: list[Tensor] | None = None,
        source: list[Tensor] | None = None,
    ) -> Tensor:
        """Return states; append attention weights over prefix and source to lists."""
        x = self.place(input_BTD, encoding.layout.input_BT, target=True)
        # Padding stands behind every word, so that this hides it too.
        allowed = attended(encoding.layout, causal(input_BTD))
        positions = torch.arange(input_BTD.shape[1], device=input_BTD.device)
        memories = self.memories(encoding, positions, source)
        for layer, memory in zip(self.decoder, memories, strict=True):
            x = layer(x, allowed, [memory], prefix)
        return self.decoder_norm(x)  # type: ignore[no-any-return]

    def attention(self, encoding: Encoding, input_BTD: Tensor) -> AttentionWeights:
        """Return attention to the source and to the prefix of every layer and head."""
        prefix, source = [], []  # type: list[Tensor], list[Tensor]
        states = self._decode(encoding, input_BTD, prefix, source)
        return AttentionWeights(torch.stack(source, dim=1), torch.stack(prefix, dim=1), states)

    def reader(self, encoding: Encoding) -> Reader:
        """Keep the keys and values of what it has read."""
        return TransformerReader(self, encoding)

    def prefix(self, encoding: Encoding) -> Prefix:
        """Keep the keys and values of what it has read."""
        return TransformerPrefix(self, encoding)


class Transformer(DecoderStack):
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

    one_stack = True
    hides_words = True

    def __init__(
        self,
        source_subwords: Subwords,
        target_subwords: Subwords,
        layers: Few = 2,
        heads: Few = 4,
        dimension: Size = 256,
        feed_forward: Size = 1024,
        dropout: Rate = 0.1,
        pre_norm: bool = False,
        tied: bool = True,
        position_shift: Natural = 0,
    ) -> None:
        super().__init__()
        self.position_shift = position_shift
        self.make_embeddings(source_subwords, target_subwords, dimension)
        size = (dimension, heads, feed_forward, dropout, pre_norm)
        self.encoder = nn.ModuleList(Layer(*size, cross=False) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(*size, cross=True) for _ in range(layers))
        # Post-norm layers end in a norm of their own; pre-norm ones need a last one.
        last = nn.LayerNorm if pre_norm else (lambda _: nn.Identity())
        self.encoder_norm, self.decoder_norm = last(dimension), last(dimension)
        self.dropout = nn.Dropout(dropout)
        self.make_output(dimension, tied)

    def place(
        self,
        x_BTD: Tensor,
        segment_BT: Tensor,
        positions: Tensor | None = None,
        target: bool = False,
    ) -> Tensor:
        """Return embeddings with their positions added; both sides are placed alike."""
        if positions is None and not self.position_shift:
            waves_TD = first_sinusoids(*x_BTD.shape[1:], x_BTD.dtype, x_BTD.device)
            return self.dropout(x_BTD + waves_TD)
        if positions is None:
            positions = torch.arange(x_BTD.shape[1], device=x_BTD.device)
        if self.position_shift:
            # Padding is segment 0, which would be shifted to before the sentence.
            positions = positions + self.position_shift * (segment_BT - 1).clamp(min=0)
        return self.dropout(x_BTD + sinusoids(positions, x_BTD.shape[2], x_BTD))

    def encode(self, source_BSD: Tensor, layout: Layout) -> Encoding:
        """Encode source embeddings; `extra` holds each decoder layer's keys and values."""
        states = self.encoder_states(source_BSD, layout)
        # Computed here, they are shared by all rows that share an encoding.
        return Encoding(states, layout, self.keys_values(states))

    def keys_values(self, states_BSD: Tensor) -> tuple[Tensor, ...]:
        """Return each decoder layer's keys and values of the encoder's states, (B, S, 2D)."""
        return tuple(layer.cross_attention.key_value(states_BSD) for layer in self.decoder)  # type: ignore[operator, union-attr]

    def encoder_states(
        self, source_BSD: Tensor, layout: Layout, weights: list[Tensor] | None = None
    ) -> Tensor:
        """Return the encoder's states (B, S, D); append layers' weights to a list, if given."""
        # Broadcast over heads and queries.
        x, mask = self.place(source_BSD, layout.source_BS), layout.attended_BS[:, None, None]
        for layer in self.encoder:
            x = layer(x, mask, self_weights=weights)
        return self.encoder_norm(x)

    def encoder_attention(self, source_BSD: Tensor, layout: Layout) -> Tensor:
        """Return self-attention of every encoder layer and head, (B, L, H, S, S)."""
        weights: list[Tensor] = []
        self.encoder_states(source_BSD, layout, weights)
        return torch.stack(weights, dim=1)

    def memories(
        self, encoding: Encoding, positions: Tensor, weights: list[Tensor] | None = None
    ) -> list[Memory]:
        """Return what each decoder layer attends to of the source, at any position."""
        mask = encoding.layout.attended_BS[:, None, None]
        return [Memory(keys_values, mask, weights) for keys_values in encoding.extra]

    def attention_blocks(self, batch: Batch) -> Blocks[AttentionBlock]:
        """Return what each attention block adds, under teacher forcing, in evaluation mode."""
        layout, encoder = batch.layout, []
        x = self.place(self.embed_source(batch.source_BS), layout.source_BS)
        source_mask = layout.mask_BS[:, None, None]
        for layer in self.encoder:
            x, [block] = layer.blocks(x, source_mask)  # type: ignore[operator]
            encoder.append(block)
        keys_values = self.keys_values(self.encoder_norm(x))
        x = self.place(self.embed_target(batch.input_BT), layout.input_BT, target=True)
        allowed, decoder = causal(batch.input_BT), []
        for layer, memory in zip(self.decoder, keys_values, strict=True):
            x, [to_itself, cross] = layer.blocks(x, allowed, [Memory(memory, source_mask)])  # type: ignore[operator]
            decoder.append((to_itself, cross))
        return Blocks(encoder, decoder, slice(batch.source_BS.shape[1]))


class Cache:
    """Each layer's keys and values of the inputs that R rows have read.

    Rows may have read unlike numbers of inputs, so a place in the cache is not a position.
    """

    def __init__(self, rows: Tensor, layers: int) -> None:
        self._keys_values: list[Tensor | None] = [None] * layers
        # Places without a word stay in the cache and are masked, since rows of a tensor have one
        # length.
        self._seen_RT = torch.zeros(len(rows), 0, dtype=torch.bool, device=rows.device)

    def open(self, mask_RT: Tensor) -> tuple[Tensor, Tensor]:
        """Make room for further inputs; the position of each, and what each may attend to.

        Args:
            mask_RT: True where a row has an input.
        """
        steps = mask_RT.shape[1]
        # A row's own words before, and not the places of the cache: padding has no position.
        positions = self._seen_RT.sum(1, keepdim=True) + (mask_RT.cumsum(1) - 1).clamp(min=0)
        earlier = self._seen_RT[:, None].expand(-1, steps, -1)
        # The last dimension is of what is attended to: earlier places, then these. All heads alike.
        allowed = torch.cat([earlier, causal(mask_RT) & mask_RT[:, None]], dim=2)[:, None]
        self._seen_RT = torch.cat([self._seen_RT, mask_RT], dim=1)
        return positions, allowed

    def grow(self, layer: int, new_RTD: Tensor) -> Tensor:
        """Keep a layer's new keys and values behind its earlier ones; all of them."""
        old = self._keys_values[layer]
        grown = new_RTD if old is None else torch.cat([old, new_RTD], dim=1)
        self._keys_values[layer] = grown
        return grown

    def select(self, rows: Tensor) -> None:
        """Go on with some of the rows."""
        self._keys_values = [None if kept is None else kept[rows] for kept in self._keys_values]
        self._seen_RT = self._seen_RT[rows]


class TransformerReader(Reader):
    """Computes each input once, and keeps its keys and values for the inputs behind it."""

    model: Any  # a `Transformer`, or a model whose layers and `memories` are called alike

    def __init__(self, model: Any, encoding: Encoding) -> None:
        super().__init__(model, encoding)
        self._segment_R = torch.zeros_like(encoding.layout.source_BS[:, 0])  # none is open
        self._cache = Cache(self._segment_R, len(model.decoder))

    def read(self, ids_RT: Tensor) -> Tensor:
        """Read further inputs of every row, padded with PAD; the state behind the last, (R, D)."""
        mask_RT = ids_RT != PAD
        positions, allowed = self._cache.open(mask_RT)
        # BOS has the separator's id, so that the first sentence is segment 1.
        segment_RT = self._segment_R[:, None] + (ids_RT == SEPARATOR).cumsum(1)
        x = self.model.place(self.model.embed_target(ids_RT), segment_RT, positions, target=True)
        memories = self.model.memories(self.encoding, positions)
        for n, (layer, memory) in enumerate(zip(self.model.decoder, memories, strict=True)):
            x = layer(x, allowed, [memory], grown=partial(self._cache.grow, n))
        self._segment_R = segment_RT[:, -1]
        return last_of(self.model.decoder_norm(x), mask_RT)

    def select(self, rows: Tensor) -> None:
        """Go on with some of the rows, in a new order, some perhaps more than once."""
        super().select(rows)
        self._cache.select(rows)
        self._segment_R = self._segment_R[rows]


class TransformerPrefix(Prefix):
    """Computes each input once, and keeps each layer's keys and values."""

    model: Any  # a `Transformer`, or a model whose layers and `memories` are called alike

    def __init__(self, model: Any, encoding: Encoding) -> None:
        super().__init__(model, encoding)
        self._kept: list[list[Tensor]] = [[] for _ in model.decoder]

    def read(self, input_BXD: Tensor) -> Tensor:
        """Read further inputs of every row: the state behind each, (B, X, D)."""
        model, start, stop = self.model, self.steps, self.steps + input_BXD.shape[1]
        segment_BX = self.encoding.layout.input_BT[:, start:stop]
        positions = torch.arange(start, stop, device=input_BXD.device)
        x = model.place(input_BXD, segment_BX, positions, target=True)
        allowed = attended(self.encoding.layout, causal(input_BXD, start))
        memories = model.memories(self.encoding, positions)
        for n, (layer, memory) in enumerate(zip(model.decoder, memories, strict=True)):
            x = layer(x, allowed, [memory], grown=partial(self._grow, n))
        self.steps = stop
        return model.decoder_norm(x)  # type: ignore[no-any-return]

    def _grow(self, layer: int, new_BXD: Tensor) -> Tensor:
        self._kept[layer].append(new_BXD)
        return torch.cat(self._kept[layer], dim=1)

    def _keep(self, forked: Self, steps: int, rows: Tensor) -> None:
        if steps:
            for parts in self._kept:  # joined once, for all that fork here
                parts[:] = parts if len(parts) == 1 else [torch.cat(parts, dim=1)]
            forked._kept = [[states[rows, :steps]] for [states] in self._kept]


def attended(layout: Layout, causal_XT: Tensor) -> Tensor:
    """Return True where an input attends to an earlier one or itself, broadcast to (B, H, X, T)."""
    if layout.hidden_BT is None:
        return causal_XT
    return causal_XT & ~layout.hidden_BT[:, None, None, : causal_XT.shape[1]]


def causal(x_BT: Tensor, earlier: int = 0) -> Tensor:
    """Return True where input t may see input t' of these and E earlier ones, (T, T + E)."""
    steps = x_BT.shape[1]
    return torch.ones(steps, earlier + steps, dtype=torch.bool, device=x_BT.device).tril(earlier)


def embedding(size: int, dimension: int) -> nn.Embedding:
    """Return an embedding table with fresh weights, which are scaled on the way in."""
    embedding = nn.Embedding(size, dimension, padding_idx=PAD)
    # Scaled by the root of the dimension on the way in, embeddings have variance 1.
    nn.init.normal_(embedding.weight, std=dimension**-0.5)
    with torch.no_grad():
        embedding.weight[PAD].zero_()
    return embedding
