"""A translator that is a decoder only: one stack reads the source, a separator and the target.

It is trained from parallel text alone, with the loss on the target, as Plume is (Gilabert et al.
2024). Each position sees those before it. BOS, the first decoder input, is the separator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xnmt_bench.corpora.vocabulary.subwords import Subwords
from xnmt_bench.device import exact
from xnmt_bench.nmt.batch import Batch, Encoding, Layout
from xnmt_bench.nmt.blocks import AttentionBlock, Blocks
from xnmt_bench.nmt.transformer import DecoderStack, causal, energies
from xnmt_bench.options import Few, Rate, Size

BASE = 10000.0  # of the rotations' wavelengths (Su et al. 2021, section 3.2.2)


def rotate(x_BHTE: Tensor, positions_BT: Tensor) -> Tensor:
    """Return queries or keys turned by their positions (Su et al. 2021, Eq. 34).

    Args:
        x_BHTE: of each head; E is even, and dimension e turns with e + E / 2.
        positions_BT: of each, broadcast to (B, T).
    """
    half = x_BHTE.shape[-1] // 2
    if exact(x_BHTE.device) != torch.float64:
        positions_BT = positions_BT.cpu()  # in float64, so that a far position is exact too
    powers = torch.arange(half, device=positions_BT.device, dtype=torch.float64) / half
    angle = positions_BT.double()[..., None] * torch.exp(powers * -math.log(BASE))
    # Heads turn alike.
    cosine, sine = (wave.unsqueeze(-3).to(x_BHTE) for wave in (angle.cos(), angle.sin()))
    first, second = x_BHTE[..., :half], x_BHTE[..., half:]
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


class Past(NamedTuple):
    """What decoder inputs attend to in front of them: the source.

    Attributes:
        keys_values: of the source in this layer, keys turned by their positions; (B, S, 2D).
        mask: True where attention is allowed, broadcast to (B, H, T, S).
        positions: of the inputs, broadcast to (B, T), the source's counted too.
        weights: where the weights of attention to the source (B, H, T, S) are appended, or None.
    """

    keys_values: Tensor
    mask: Tensor
    positions: Tensor
    weights: list[Tensor] | None = None


class CausalLayer(nn.Module):
    """A pre-norm layer with rotary attention and a gated feed-forward block (Shazeer 2020)."""

    def __init__(self, dimension: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        if dimension % (2 * heads):
            raise ValueError(f"{heads} heads do not divide {dimension} into even dimensions")
        self.heads, self.rate = heads, dropout
        self.norms = nn.ModuleList(nn.RMSNorm(dimension) for _ in range(2))
        self.query = nn.Linear(dimension, dimension, bias=False)
        self.key_value = nn.Linear(dimension, 2 * dimension, bias=False)
        self.out = nn.Linear(dimension, dimension, bias=False)
        self.gate_up = nn.Linear(dimension, 2 * inner, bias=False)
        self.down = nn.Linear(inner, dimension, bias=False)
        for layer in (self.query, self.key_value, self.out, self.gate_up, self.down):
            nn.init.xavier_uniform_(layer.weight)
        self.dropout = nn.Dropout(dropout)

    def split(self, x_BTD: Tensor) -> Tensor:
        """Return what each head has of queries, keys or values, (B, H, T, E)."""
        return x_BTD.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def keys_values(self, x_BTD: Tensor, positions: Tensor) -> Tensor:
        """Return keys, turned by their positions, and values of states, (B, T, 2D)."""
        keys, values = self.key_value(self.norms[0](x_BTD)).chunk(2, dim=-1)
        turned = rotate(self.split(keys), positions).transpose(1, 2).flatten(2)
        return torch.cat([turned, values], dim=-1)

    def forward(
        self,
        x_BTD: Tensor,
        mask: Tensor,
        pasts: Sequence[Past],
        self_weights: list[Tensor] | None = None,
        grown: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Run the layer on decoder inputs, or on the source with a past of no words.

        Args:
            x_BTD: states.
            mask: True where a state may attend to another of this side, broadcast to (B, H, T, T).
            pasts: the source, of which there is one.
            self_weights: where the weights of attention to this side are appended, or None.
            grown: gives, for the keys and values of these states, those of earlier ones too.
        """
        [past] = pasts
        inputs = self.keys_values(x_BTD, past.positions)
        inputs = grown(inputs) if grown else inputs
        query = rotate(self.split(self.query(self.norms[0](x_BTD))), past.positions)
        # One softmax over both: a word of the source competes with one of the prefix.
        source = past.keys_values.shape[1]
        keys, values = map(
            self.split, torch.cat([past.keys_values, inputs], dim=1).chunk(2, dim=-1)
        )
        shape = (*query.shape[:1], 1, query.shape[2], -1)
        allowed = torch.cat(
            [past.mask.expand(*shape[:3], source), mask.expand(*shape[:3], inputs.shape[1])], dim=-1
        )
        if self_weights is None:  # the fused kernel keeps no weights
            drop = self.rate if self.training else 0.0
            mixed = F.scaled_dot_product_attention(
                query, keys, values, attn_mask=allowed, dropout_p=drop
            )
        else:
            weights = energies(query, keys, allowed).softmax(-1)
            self_weights.append(weights[..., source:])
            if past.weights is not None:
                past.weights.append(weights[..., :source])
            mixed = weights @ values
        x_BTD = x_BTD + self.dropout(self.out(mixed.transpose(1, 2).flatten(2)))
        gate, up = self.gate_up(self.norms[1](x_BTD)).chunk(2, dim=-1)
        return x_BTD + self.dropout(self.down(self.dropout(F.gelu(gate) * up)))

    def block(
        self, x_BTD: Tensor, mask: Tensor, positions: Tensor
    ) -> tuple[Tensor, AttentionBlock]:
        """Return what `forward` does in evaluation mode, without a past, and its attention block.

        Args:
            x_BTD: states.
            mask: True where a state may attend to another, broadcast to (B, H, T, T).
            positions: of the states, broadcast to (B, T).
        """
        nothing, weights = x_BTD.new_empty(len(x_BTD), 0, 2 * x_BTD.shape[2]), list[Tensor]()
        output_BTD = self(x_BTD, mask, [Past(nothing, mask[..., :0], positions)], weights)
        values_BHTE = self.split(self.keys_values(x_BTD, positions).chunk(2, dim=-1)[1])
        mixed_BTD = (weights[0] @ values_BHTE).transpose(1, 2).flatten(2)
        summed_BTD = x_BTD + self.out(mixed_BTD)
        block = AttentionBlock(
            weights[0], values_BHTE, self.out, x_BTD, summed_BTD, summed_BTD, norm=None
        )
        return output_BTD, block


class DecoderOnly(DecoderStack):
    """A decoder-only Transformer with rotary positions.

    Args:
        source_subwords: the source vocabulary.
        target_subwords: the target vocabulary.
        layers: of the one stack.
        heads: of each attention.
        dimension: of embeddings and states.
        feed_forward: inner dimension of the feed-forward blocks.
        dropout: share of activations dropped in training.
        tied: the output layer shares the target embeddings.
    """

    joint_attention = True
    hides_words = True

    def __init__(
        self,
        source_subwords: Subwords,
        target_subwords: Subwords,
        layers: Few = 4,
        heads: Few = 4,
        dimension: Size = 256,
        feed_forward: Size = 680,
        dropout: Rate = 0.1,
        tied: bool = True,
    ) -> None:
        super().__init__()
        self.make_embeddings(source_subwords, target_subwords, dimension)
        size = (dimension, heads, feed_forward, dropout)
        self.decoder = nn.ModuleList(CausalLayer(*size) for _ in range(layers))
        self.decoder_norm = nn.RMSNorm(dimension)
        self.dropout = nn.Dropout(dropout)
        self.make_output(dimension, tied)

    def place(
        self,
        x_BTD: Tensor,
        segment_BT: Tensor,
        positions: Tensor | None = None,
        target: bool = False,
    ) -> Tensor:
        """Return embeddings as they enter the stack; positions turn queries and keys in it."""
        return self.dropout(x_BTD)

    def encode(self, source_BSD: Tensor, layout: Layout) -> Encoding:
        """Read the source; `extra` holds each layer's keys and values."""
        return self._read_source(source_BSD, layout)

    def encode_again(
        self, encoding: Encoding, rows: Tensor, start: int, source_BSD: Tensor, layout: Layout
    ) -> Encoding:
        """Read the source from a place on; its keys and values before that are kept."""
        kept = [keys_values[rows, :start] for keys_values in encoding.extra]
        read = self._read_source(source_BSD, layout, kept=kept)
        states_BSD = torch.cat([encoding.states_BSD[rows, :start], read.states_BSD], dim=1)
        return replace(read, states_BSD=states_BSD)

    def _read_source(
        self,
        source_BSD: Tensor,
        layout: Layout,
        weights: list[Tensor] | None = None,
        kept: Sequence[Tensor] = (),
    ) -> Encoding:
        """Return the encoding, its states from those on that are not kept.

        Args:
            source_BSD: the embeddings of all ids.
            layout: of the rows.
            weights: where the weights of attention are appended, or None.
            kept: keys and values of each layer (B, X, 2D), of the first X ids.
        """
        rows, length, dimension = source_BSD.shape
        kept = kept or [source_BSD.new_empty(rows, 0, 2 * dimension)] * len(self.decoder)
        start, positions = kept[0].shape[1], torch.arange(length, device=source_BSD.device)
        # A word that is hidden sees itself, since attention needs a key; no other word sees it.
        itself = torch.eye(length, dtype=torch.bool, device=source_BSD.device)
        allowed = (causal(source_BSD) & layout.attended_BS[:, None, None]) | itself
        to_kept, to_new = allowed[..., start:, :start], allowed[..., start:, start:]
        x, positions = self.place(source_BSD, layout.source_BS)[:, start:], positions[start:]
        keys_values = []
        for layer, old in zip(self.decoder, kept, strict=True):
            new = layer.keys_values(x, positions)  # type: ignore[operator]
            keys_values.append(torch.cat([old, new], dim=1))
            x = layer(x, to_new, [Past(old, to_kept, positions)], weights)
        return Encoding(x, layout, tuple(keys_values))

    def encoder_attention(self, source_BSD: Tensor, layout: Layout) -> Tensor:
        """Return attention within the source of every layer and head, (B, L, H, S, S)."""
        weights: list[Tensor] = []
        self._read_source(source_BSD, layout, weights)
        return torch.stack(weights, dim=1)

    def memories(
        self, encoding: Encoding, positions: Tensor, weights: list[Tensor] | None = None
    ) -> list[Past]:
        """Return what each layer attends to of the source, and the positions of the inputs."""
        mask = encoding.layout.attended_BS[:, None, None]
        # Each row's own length, so that no number depends on the padding.
        placed = positions + encoding.layout.mask_BS.sum(1, keepdim=True)
        return [Past(keys_values, mask, placed, weights) for keys_values in encoding.extra]

    def attention_layers(self, batch: Batch) -> Blocks[Tensor]:
        """Return attention weights over source and inputs, each layer's as one block."""
        return self.attention_blocks(batch).map(lambda block: block.weights_BHQK)

    def attention_blocks(self, batch: Batch) -> Blocks[AttentionBlock]:
        """Return what each attention block adds, of source and inputs in one sequence."""
        layout, length = batch.layout, batch.source_BS.shape[1]
        sides = (self.embed_source(batch.source_BS), self.embed_target(batch.input_BT))
        x = torch.cat(sides, dim=1)
        place_X = torch.arange(x.shape[1], device=x.device)
        # The padding of a source stands before the inputs, and has no position.
        padding_B1 = length - layout.mask_BS.sum(1, keepdim=True)
        position_BX = place_X - padding_B1 * (place_X >= length)
        there_BX = F.pad(layout.mask_BS, (0, x.shape[1] - length), value=True)
        # Padding sees itself, since attention needs a key.
        itself = torch.eye(len(place_X), dtype=torch.bool, device=x.device)
        allowed = (causal(x) & there_BX[:, None, None]) | itself
        blocks = []
        for layer in self.decoder:
            x, block = layer.block(x, allowed, position_BX)  # type: ignore[operator]
            blocks.append((block,))
        return Blocks([], blocks, slice(length), slice(length, None))
