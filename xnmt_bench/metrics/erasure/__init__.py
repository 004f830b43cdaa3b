"""Erasure: what a decision loses without the words that an explainer names."""

from xnmt_bench.metrics.erasure.metric import Erasure

__all__ = ["Erasure"]
