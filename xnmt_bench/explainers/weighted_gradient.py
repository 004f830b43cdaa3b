"""Weighted gradient: the gradient of P(label given c_t) times the word's embedding."""

from __future__ import annotations

from torch import Tensor

from xnmt_bench.explainers.gradient import GradientExplainer


class WeightedGradient(GradientExplainer):
    """The gradient dotted with the embedding, signed (Ding et al. 2019)."""

    papers = ("ding2019",)

    def reduce(self, gradient: Tensor, embedding: Tensor) -> Tensor:
        """Return the dot product, (...)."""
        return (embedding * gradient).sum(-1)
