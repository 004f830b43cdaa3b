"""Soft erasure: what the system does when words are kept as much as an explainer scores them."""

from xnmt_bench.metrics.soft.metric import SoftErasure

__all__ = ["SoftErasure"]
