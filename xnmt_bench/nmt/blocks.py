"""What each attention block of a model adds to its input, taken apart by where it comes from.

Shapes: as in `nmt.base`; Q states that attend, K that are attended to, E = D/H of a head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xnmt_bench.errors import XnmtError


@dataclass(frozen=True)
class AttentionBlock:
    """Attention, its residual, and the norm behind it if there is one.

    Attributes:
        weights_BHQK: of attention.
        values_BHKE: of each head.
        out: the layer that joins the heads.
        input_BQD: the residual.
        summed_BQD: residual and what is added.
        output_BQD: the same behind the norm; equal to it without one.
        norm: a post-norm's LayerNorm; None in a pre-norm model.
        branch_norm: an RMSNorm of what attention adds, before the residual is added; None in most
            models.
    """

    weights_BHQK: Tensor
    values_BHKE: Tensor
    out: nn.Linear
    input_BQD: Tensor
    summed_BQD: Tensor
    output_BQD: Tensor
    norm: Any
    branch_norm: Any = None

    def vectors(self, heads: Literal["all"] | int = "all") -> Tensor:
        """Return what comes from each state that is attended to, (B, Q, K, D).

        Their sum and the output layer's bias are what the block adds (Kobayashi et al. 2020,
        Eq. 4). An RMSNorm of what attention adds is linear with the mean square of all of it.

        Args:
            heads: what all heads bring, or one of them, counted from 0.

        Raises:
            XnmtError: the layer lacks the head.
        """
        vectors_BQKD = self._mapped(heads)
        if self.branch_norm is None:
            return vectors_BQKD
        return vectors_BQKD * gain(self.branch_norm, self._attended())[:, :, None]

    def without_values(self, heads: Literal["all"] | int = "all") -> Tensor:
        """Return the block's output with each state's value set to zero, (B, Q, K, D).

        The block is a sum over states, so leaving one out is a subtraction and no further pass.

        Args:
            heads: in all heads, or in one of them, counted from 0.

        Raises:
            XnmtError: the layer lacks the head.
        """
        mapped_BQKD = self._mapped(heads)
        if self.branch_norm is None:
            without_BQKD = self.summed_BQD[:, :, None] - mapped_BQKD
        else:
            added_BQKD = self.branch_norm(self._attended()[:, :, None] - mapped_BQKD)
            without_BQKD = self.input_BQD[:, :, None] + added_BQKD
        if self.norm is not None:
            without_BQKD = self.norm(without_BQKD)
        # A state that brings nothing changes nothing; rounding would leave a little.
        brings_BQK1 = (mapped_BQKD != 0).any(-1, keepdim=True)
        return without_BQKD.where(brings_BQK1, self.output_BQD[:, :, None])

    def _attended(self) -> Tensor:
        """Return what all heads bring together, before a norm of it, (B, Q, D)."""
        heads_BQHE = (self.weights_BHQK @ self.values_BHKE).transpose(1, 2)
        return self.out(heads_BQHE.flatten(2))  # type: ignore[no-any-return]

    def _mapped(self, heads: Literal["all"] | int) -> Tensor:
        """Return what comes from each state, before a norm of their sum, (B, Q, K, D)."""
        weights_BHQK, values_BHKE = self.weights_BHQK, self.values_BHKE
        out_DHE = self.out.weight.unflatten(1, (weights_BHQK.shape[1], -1))
        if heads != "all":
            require_head(heads, weights_BHQK.shape[1])
            chosen = slice(heads, heads + 1)
            weights_BHQK, values_BHKE = weights_BHQK[:, chosen], values_BHKE[:, chosen]
            out_DHE = out_DHE[:, chosen]
        mapped_BHKD = torch.einsum("bhke,dhe->bhkd", values_BHKE, out_DHE)
        return torch.einsum("bhqk,bhkd->bqkd", weights_BHQK, mapped_BHKD)

    def normed(self, part_BQXD: Tensor) -> Tensor:
        """Return parts (B, Q, X, D) of `summed_BQD` as they go through the norm.

        With the deviation of the sum the norm is linear, so that parts, the bias's and the norm's
        own bias sum to the output.
        """
        if self.norm is None:
            return part_BQXD
        variance_BQ = self.summed_BQD.var(-1, correction=0)
        deviation_BQ11 = (variance_BQ + self.norm.eps).sqrt()[..., None, None]
        centred_BQXD = part_BQXD - part_BQXD.mean(-1, keepdim=True)
        return centred_BQXD / deviation_BQ11 * self.norm.weight


def gain(norm: nn.Module, x_BQD: Tensor) -> Tensor:
    """Return what an RMSNorm multiplies each dimension of a vector by, (B, Q, D)."""
    # Of ones it is the norm's weights, less than a millionth off by its epsilon, which the factor
    # below makes up for. So how a family keeps its weights plays no part.
    weights_D = norm(torch.ones_like(x_BQD[0, 0]))
    weighted_BQD = x_BQD * weights_D
    square_BQ1 = weighted_BQD.square().sum(-1, keepdim=True)
    factor_BQ1 = (norm(x_BQD) * weighted_BQD).sum(-1, keepdim=True)
    return factor_BQ1 / square_BQ1.where(square_BQ1 > 0, 1) * weights_D


def require_head(head: int, heads: int) -> None:
    """Check that a layer of so many heads has this one.

    Raises:
        XnmtError: it has not.
    """
    if head >= heads:
        raise XnmtError(f"no head {head}; the layer has {heads}, from 0")


Block = TypeVar("Block")
Other = TypeVar("Other")


@dataclass(frozen=True)
class Blocks(Generic[Block]):
    """The attention blocks of one teacher-forced pass, or what was made of each.

    Columns of "all states" are the encoder's states and behind them those that the decoder attends
    to on its own side, K. The last ones of these attend, Q. The first K - Q hold no word.

    Attributes:
        encoder: self-attention, layer by layer; empty in a model that is a decoder only.
        decoder: of each layer self-attention and, if there is an encoder, attention to it.
        source: the column of each source id; -1 for an id that the model does not read.
        inputs: which of the decoder's states that attend are decoder inputs: the last ones.
    """

    encoder: Sequence[Block]
    decoder: Sequence[tuple[Block, ...]]
    source: slice | Tensor
    inputs: slice = field(default_factory=lambda: slice(None))

    def map(
        self,
        change: Callable[[Block], Other],
        of_encoder: Callable[[Block], Other] | None = None,
    ) -> Blocks[Other]:
        """Return what a function makes of each block.

        Args:
            change: of a block.
            of_encoder: of attention to the encoder's states, if it is another function.
        """
        decoder = [
            (change(own_side), *map(of_encoder or change, cross))
            for own_side, *cross in self.decoder
        ]
        return Blocks([*map(change, self.encoder)], decoder, self.source, self.inputs)

    def of_words(self, from_states: Tensor) -> tuple[Tensor, Tensor]:
        """Return of what reaches the decoder's states the part of words.

        What comes from ids that a model puts around a sentence is left out.

        Args:
            from_states: of all states, (..., Q, X).

        Returns:
            For decoder inputs, of source ids (..., T, S) and of inputs (..., T, T).
        """
        rows = from_states[..., self.inputs, :]
        # A column of zeros is the last one, -1.
        from_source = F.pad(rows, (0, 1))[..., self.source]
        return from_source, rows[..., -rows.shape[-2] :]
