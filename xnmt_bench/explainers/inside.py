"""Which layer and which heads an explainer reads, where it reads the inside of a model.

Shapes: as in `nmt.base`; Q states that attend, K what they attend to, X all states of `Blocks`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from xnmt_bench.errors import XnmtError
from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.blocks import AttentionBlock, Blocks, require_head
from xnmt_bench.options import Natural

Reduction = Literal["mean", "max"] | Natural
AllOrOne = Literal["all"] | Natural


def pick_layer(by_layer: Tensor, layer: int | None) -> Tensor:
    """Return one layer of (B, L, ...): (B, ...).

    Args:
        by_layer: a number of each layer.
        layer: counted from 0, negative from the end; None for the mean of all.

    Raises:
        XnmtError: the model lacks the layer.
    """
    layers = by_layer.shape[1]
    # The model's sizes are known only here: an opened system has no `nmt.sizes` to check against.
    if layer is None:
        return by_layer.mean(1)
    if not -layers <= layer < layers:
        raise XnmtError(f"no layer {layer}; the model has {layers}")
    return by_layer[:, layer]


def reduce_heads(weights_BHQK: Tensor, heads: Reduction) -> Tensor:
    """Return the weights of heads as one, (B, Q, K): their mean, their maximum, or one head's.

    Raises:
        XnmtError: the layer lacks the head.
    """
    if heads == "mean":
        return weights_BHQK.mean(1)
    if heads == "max":
        # Each word by a head of its own, so that a row may sum to more than 1.
        return weights_BHQK.amax(1)
    require_head(heads, weights_BHQK.shape[1])
    return weights_BHQK[:, heads]


class BlockExplainer(Explainer):
    """Base of explainers that read what each attention block adds; labels play no part.

    Args:
        layer: a decoder layer, counted from 0, negative from the end; None for the mean of all.
        heads: `all` together, or one of them, counted from 0.

    Raises:
        XnmtError: the model has no such layer or head.
    """

    def __init__(self, layer: int | None = -1, heads: AllOrOne = "all") -> None:
        self.layer, self.heads = layer, heads

    @torch.no_grad()
    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Return the scores of the chosen layer.

        Raises:
            NotApplicable: the model's blocks cannot be read.
        """
        blocks = model.attention_blocks(batch)
        words = blocks.of_words(pick_layer(self.score_layers(blocks), self.layer))
        return Relevance.of_inputs(batch, *words)

    @abstractmethod
    def score_layers(self, blocks: Blocks[AttentionBlock]) -> Tensor:
        """Return scores of all states for each decoder state, (B, L, Q, X)."""


class Mix(NamedTuple):
    """What a block makes its output of, in shares.

    Attributes:
        residual: of the state itself, broadcast to (B, Q, 1).
        attended_BQK: of the states that are attended to.
    """

    residual: Tensor | float
    attended_BQK: Tensor

    def of(self, state_BQX: Tensor, memory_BKX: Tensor) -> Tensor:
        """Return what reaches the output, of what had reached its inputs."""
        return self.residual * state_BQX + self.attended_BQK @ memory_BKX


def roll_out(blocks: Blocks[Mix]) -> Tensor:
    """Return what of all states' beginnings reaches each decoder state, behind each layer.

    Layer by layer, X := r X + A X: of a self-attention block all X are of its own side, of
    attention to the source A X is of the encoder's states behind its last layer.

    Args:
        blocks: of shares.

    Returns:
        Of all states, (B, L, Q, X). Rows sum to 1 where those of every mix do.
    """
    queries, keys = blocks.decoder[0][0].attended_BQK.shape[1:]
    source = blocks.encoder[0].attended_BQK.shape[1] if blocks.encoder else 0
    like = blocks.decoder[0][0].attended_BQK
    every_BXX = torch.eye(source + keys).to(like).expand(len(like), -1, -1)
    source_BSX, constant_BCX, state_BQX = every_BXX.split([source, keys - queries, queries], dim=1)
    for mix in blocks.encoder:
        source_BSX = mix.of(source_BSX, source_BSX)
    by_layer = []
    for own_side, *cross in blocks.decoder:
        state_BQX = own_side.of(state_BQX, torch.cat([constant_BCX, state_BQX], dim=1))
        for mix in cross:
            state_BQX = mix.of(state_BQX, source_BSX)
        by_layer.append(state_BQX)
    return torch.stack(by_layer, dim=1)
