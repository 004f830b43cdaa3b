"""Cues: which words need their context, and which words of it they need (Sarti et al. 2024)."""

from xnmt_bench.metrics.cues.metric import Cues

__all__ = ["Cues"]
