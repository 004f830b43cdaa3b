"""Weighted gradient: the gradient of P(label given c_t) times the word's embedding."""

from __future__ import annotations

from captum.attr import InputXGradient

from xnmt_bench.explainers.gradient import CaptumGradient


class WeightedGradient(CaptumGradient):
    """The gradient dotted with the embedding, signed (Ding et al. 2019)."""

    method = InputXGradient
