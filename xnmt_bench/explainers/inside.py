"""Which layer and which heads an explainer reads, where it reads the inside of a model.

Shapes: as in `nmt.base`; Q states that attend, X what they attend to.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor

from xnmt_bench.errors import XnmtError
from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.blocks import Blocks, require_head
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


def reduce_heads(weights_BHQX: Tensor, heads: Reduction) -> Tensor:
    """Return the weights of heads as one, (B, Q, X): their mean, their maximum, or one head's.

    Raises:
        XnmtError: the layer lacks the head.
    """
    if heads == "mean":
        return weights_BHQX.mean(1)
    if heads == "max":
        # Each word by a head of its own, so that a row may sum to more than 1.
        return weights_BHQX.amax(1)
    require_head(heads, weights_BHQX.shape[1])
    return weights_BHQX[:, heads]


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
        words = blocks.of_words(*self.score_layers(blocks))
        return Relevance.of_inputs(batch, *(pick_layer(x, self.layer) for x in words))

    @abstractmethod
    def score_layers(self, blocks: Blocks) -> tuple[Tensor, Tensor]:
        """Return scores of source states (B, L, T, S) and of decoder inputs (B, L, T, T)."""
