"""What each attention block of a model adds to its input, taken apart by where it comes from.

Shapes: as in `nmt.base`; Q states that attend, K that are attended to, E = D/H of a head.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch
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
    """

    weights_BHQK: Tensor
    values_BHKE: Tensor
    out: nn.Linear
    input_BQD: Tensor
    summed_BQD: Tensor
    output_BQD: Tensor
    norm: Any

    def vectors(self, heads: Literal["all"] | int = "all") -> Tensor:
        """Return what comes from each state that is attended to, (B, Q, K, D).

        Their sum and the output layer's bias are what the block adds (Kobayashi et al. 2020,
        Eq. 4).

        Args:
            heads: what all heads bring, or one of them, counted from 0.

        Raises:
            XnmtError: the layer lacks the head.
        """
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


def require_head(head: int, heads: int) -> None:
    """Check that a layer of so many heads has this one.

    Raises:
        XnmtError: it has not.
    """
    if head >= heads:
        raise XnmtError(f"no head {head}; the layer has {heads}, from 0")


@dataclass(frozen=True)
class Blocks:
    """The attention blocks of one teacher-forced pass.

    Attributes:
        encoder: self-attention, layer by layer.
        decoder: self-attention and attention to the source, layer by layer.
        source: which of the encoder's states are source ids; a model may put its own around them.
        inputs: which of the decoder's states are decoder inputs.
    """

    encoder: list[AttentionBlock]
    decoder: list[tuple[AttentionBlock, AttentionBlock]]
    source: slice = field(default_factory=lambda: slice(None))
    inputs: slice = field(default_factory=lambda: slice(None))

    def of_words(self, from_source: Tensor, from_input: Tensor) -> tuple[Tensor, Tensor]:
        """Return of what reaches all states the rows of inputs, (..., T, S) and (..., T, T).

        What comes from ids that a model puts around a sentence is left out.
        """
        rows = (..., self.inputs)
        return from_source[*rows, self.source], from_input[*rows, self.inputs]
