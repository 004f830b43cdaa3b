"""Which layer and which heads an explainer reads, where it reads the inside of a model.

Shapes: as in `nmt.base`; Q states that attend, X what they attend to.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt.blocks import require_head
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
