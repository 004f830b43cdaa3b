"""Passes that no gradient is asked of.

On a CPU torch computes a linear layer by copying its bias into every row and adding a product to
that. oneDNN, which torch brings along for compiled models, does both at once, and reads weights
faster that it has put into its own order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

LARGE = 2**24  # multiplications of a product, below which oneDNN's own preparations cost more


@contextmanager
def forward_only() -> Iterator[None]:
    """Computes without gradients, and large linear layers of a CPU by oneDNN."""
    with torch.no_grad():
        # Torch was built without oneDNN, or a GPU computes, for which looking on costs time.
        if not hasattr(torch.ops.mkldnn, "_linear_pointwise") or torch.cuda.is_initialized():
            yield
            return
        with _LinearByOneDNN():
            yield


class _LinearByOneDNN(TorchFunctionMode):
    """Large float32 products of linear layers go to oneDNN, everything else where it went."""

    def __init__(self) -> None:
        super().__init__()
        self._weights: dict[int, _Weights] = {}

    def __torch_function__(
        self,
        function: Callable,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if function is F.linear and not kwargs and _is_for_onednn(*args):
            x, weight, bias = (*args, None)[:3]
            weight = self._in_order(weight)
            return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return function(*args, **(kwargs or {}))

    def _in_order(self, weight: Tensor) -> Tensor:
        """A layer's weights in oneDNN's own order, kept as long as this is entered.

        The first use takes them as they are: a single pass is over before the order has paid. A
        change by way of `.data`, which torch does not count, is not seen.
        """
        # A part of a layer is another tensor each time, and one of inference mode has no version.
        if not isinstance(weight, nn.Parameter) or weight.is_inference():
            return weight
        seen = self._weights.get(id(weight))
        if seen is None or seen.version != weight._version:
            seen = self._weights[id(weight)] = _Weights(weight)
        seen.uses += 1
        if seen.uses == 2:
            seen.ordered = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
        return seen.ordered


class _Weights:
    """A layer's weights, held so that their id stays theirs, and how often they were asked for."""

    def __init__(self, given: nn.Parameter) -> None:
        self.given, self.version, self.uses = given, given._version, 0
        self.ordered: Tensor = given


def _is_for_onednn(x: Tensor, weight: Tensor, _bias: Tensor | None = None) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and x.numel() * len(weight) >= LARGE
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")  # shorter factors were asked for
    )
