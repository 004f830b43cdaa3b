"""Passes that no gradient is asked of.

On a CPU torch computes a linear layer by copying its bias into every row and adding a product to
that. oneDNN, which torch brings along for compiled models, does both at once: layers of base size
take a tenth to a fifth less time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

LARGE = 2**24  # multiplications of a product, below which oneDNN's own preparations cost more


@contextmanager
def forward_only() -> Iterator[None]:
    """Computes without gradients, and large linear layers of a CPU by oneDNN."""
    with torch.no_grad():
        if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):  # torch was built without oneDNN
            yield
            return
        with _LinearByOneDNN():
            yield


class _LinearByOneDNN(TorchFunctionMode):
    """Large float32 products of linear layers go to oneDNN, everything else where it went."""

    def __torch_function__(
        self,
        function: Callable,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if function is F.linear and not kwargs and _is_for_onednn(*args):
            x, weight, bias = (*args, None)[:3]
            return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return function(*args, **(kwargs or {}))


def _is_for_onednn(x: Tensor, weight: Tensor, _bias: Tensor | None = None) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and x.numel() * len(weight) >= LARGE
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")  # shorter factors were asked for
    )
