"""Robustness: what explanations do when inputs are moved a little, or weights are destroyed."""

from xnmt_bench.metrics.robustness.metric import Robustness

__all__ = ["Robustness"]
