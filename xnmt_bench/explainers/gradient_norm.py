"""Gradient norm: how much a word's embedding moves P(label given c_t), or another number."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from captum.attr import Saliency
from torch import Tensor

from xnmt_bench.explainers.gradient import CaptumGradient
from xnmt_bench.explainers.objective import Foil, Of
from xnmt_bench.options import Count


class GradientNorm(CaptumGradient):
    """A norm of the gradient (Li et al. 2016; Li et al. 2020, Eq. 5).

    Args:
        of, foil, positions: as for `CaptumGradient`.
        norm: l1 as in the paper, or l2.
    """

    method = Saliency
    # Saliency takes absolute values, and the sum over the embedding then is the l1 norm.
    options: ClassVar[dict[str, Any]] = {"abs": True}

    def __init__(
        self,
        of: Of = "probability",
        foil: Foil | None = None,
        norm: Literal["l1", "l2"] = "l1",
        positions: Count | None = None,
    ) -> None:
        super().__init__(of, foil, positions)
        self._norm = norm

    def reduce(self, attributions: Tensor) -> Tensor:
        """Return the norm over dimensions, (...)."""
        # Of absolute values either norm is right; signs are gone already.
        return attributions.sum(-1) if self._norm == "l1" else attributions.norm(dim=-1)
