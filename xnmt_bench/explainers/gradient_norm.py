"""Gradient norm: how much a word's embedding moves P(label given c_t), or another number."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from xnmt_bench.explainers.gradient import GradientExplainer
from xnmt_bench.explainers.objective import Foil, Of
from xnmt_bench.options import Count


class GradientNorm(GradientExplainer):
    """A norm of the gradient (Li et al. 2016; Li et al. 2020, Eq. 5).

    Args:
        of, foil, positions: as for `GradientExplainer`.
        norm: l1 as in the paper, or l2.
    """

    papers = ("li2016",)

    def __init__(
        self,
        of: Of = "probability",
        foil: Foil | None = None,
        norm: Literal["l1", "l2"] = "l1",
        positions: Count | None = None,
    ) -> None:
        super().__init__(of, foil, positions)
        self._norm = norm

    def reduce(self, gradient: Tensor, embedding: Tensor) -> Tensor:
        """Return the norm over dimensions, (...)."""
        return gradient.abs().sum(-1) if self._norm == "l1" else gradient.norm(dim=-1)
