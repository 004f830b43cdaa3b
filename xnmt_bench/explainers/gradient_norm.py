"""Gradient norm: how much a word's embedding moves P(label given c_t)."""

from __future__ import annotations

from typing import Any, ClassVar

from captum.attr import Saliency

from xnmt_bench.explainers.gradient import CaptumGradient


class GradientNorm(CaptumGradient):
    """The l1 norm of the gradient (Li et al. 2016; Li et al. 2020, Eq. 5)."""

    method = Saliency
    # Saliency takes absolute values, and the sum over the embedding then is the l1 norm.
    options: ClassVar[dict[str, Any]] = {"abs": True}
