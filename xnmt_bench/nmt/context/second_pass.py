"""The second pass of CADec (Voita et al. 2019, section 4.2): what is trained of it.

X rows of a memory, C ids of the current sentence; other shapes as in `nmt.base`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xnmt_bench.nmt.context.two_step import FARTHEST
from xnmt_bench.nmt.transformer import Layer, Memory, MultiHeadAttention, sinusoids

PLACES = FARTHEST + 1  # the current sentence and those before it


class SecondPassLayer(Layer):
    """A layer that attends to its own side, to source states, and to translations."""

    def __init__(
        self, dimension: int, heads: int, inner: int, dropout: float, pre_norm: bool
    ) -> None:
        super().__init__(dimension, heads, inner, dropout, pre_norm, cross=False)
        translations = 2 * dimension + PLACES  # word, state and a one-hot place
        self.source_attention = MultiHeadAttention(dimension, heads, dropout, dimension + PLACES)
        self.target_attention = MultiHeadAttention(dimension, heads, dropout, translations)
        self.norms = nn.ModuleList(nn.LayerNorm(dimension) for _ in range(4))

    @property
    def attentions(self) -> tuple[MultiHeadAttention, ...]:
        """To source states and to translations."""
        return self.source_attention, self.target_attention


class Memories(NamedTuple):
    """What the second pass reads: each layer's keys and values, and where there are any.

    Attributes:
        source_BSE: of the source's states; one tensor a layer.
        source_mask_BS: True where there is one.
        target_BXE: of the translations: the draft, then those of the context.
        target_mask_BX: True where there is one.
    """

    source_BSE: Sequence[Tensor]
    source_mask_BS: Tensor
    target_BXE: Sequence[Tensor]
    target_mask_BX: Tensor

    def select(self, rows: Tensor) -> Memories:
        """Return the rows of the given indices."""
        source, target = ([x[rows] for x in xs] for xs in (self.source_BSE, self.target_BXE))
        return Memories(source, self.source_mask_BS[rows], target, self.target_mask_BX[rows])


class Weights(NamedTuple):
    """Where attention's weights are appended: to the own prefix, the source, the translations."""

    prefix: list[Tensor]
    source: list[Tensor]
    target: list[Tensor]


class SecondPass(nn.Module):
    """A decoder that attends to what a first pass made of the sentence and of its context."""

    def __init__(
        self, layers: int, dimension: int, heads: int, inner: int, dropout: float, pre_norm: bool
    ) -> None:
        super().__init__()
        size = (dimension, heads, inner, dropout, pre_norm)
        self.layers = nn.ModuleList(SecondPassLayer(*size) for _ in range(layers))
        self.norm = nn.LayerNorm(dimension) if pre_norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def source_memory(self, states_BXD: Tensor, place_BX: Tensor) -> tuple[Tensor, ...]:
        """Return each layer's keys and values of source states and their sentences' places.

        Args:
            states_BXD: the encoder's.
            place_BX: 0 for the current sentence, 1 for the one before it, and so on.
        """
        rows = torch.cat([states_BXD, _one_hot(place_BX, states_BXD)], dim=-1)
        return tuple(layer.source_attention.key_value(rows) for layer in self.layers)  # type: ignore[union-attr, operator]

    def target_memory(
        self, word_BXD: Tensor, states_BXD: Tensor, place_BX: Tensor
    ) -> tuple[Tensor, ...]:
        """Return the embeddings of translations.

        Args:
            word_BXD: embeddings of their words.
            states_BXD: the decoder's states that predict these words, and have not read them.
            place_BX: of their sentences.
        """
        rows = torch.cat([word_BXD, states_BXD, _one_hot(place_BX, states_BXD)], dim=-1)
        return tuple(layer.target_attention.key_value(rows) for layer in self.layers)  # type: ignore[union-attr, operator]

    def forward(
        self,
        x_BCD: Tensor,
        positions: Tensor,
        allowed: Tensor,
        memories: Memories,
        weights: Weights | None = None,
        grow: Callable[[int, Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Read inputs: states (B, C, D).

        Args:
            x_BCD: their embeddings, zero for the first of a sentence.
            positions: of each, broadcast to (B, C).
            allowed: True where an input may attend to another.
            memories: what else it attends to.
            weights: where attention's weights go, if anywhere.
            grow: gives, for a layer and its new keys and values, those of earlier inputs too.
        """
        self_weights, source, target = weights or (None, None, None)
        source_mask, target_mask = (
            mask[:, None, None] for mask in (memories.source_mask_BS, memories.target_mask_BX)
        )
        x = self.dropout(x_BCD + sinusoids(positions, x_BCD.shape[-1], x_BCD))
        for n, layer in enumerate(self.layers):
            looked_at = [
                Memory(memories.source_BSE[n], source_mask, source),
                Memory(memories.target_BXE[n], target_mask, target),
            ]
            x = layer(x, allowed, looked_at, self_weights, grown=partial(grow, n) if grow else None)
        return self.norm(x)


def _one_hot(place_BX: Tensor, like: Tensor) -> Tensor:
    return F.one_hot(place_BX.clamp(0, FARTHEST), PLACES).to(like.dtype)
