"""How much a translation's own weights say that it can be believed (Rikters 2018)."""

from xnmt_bench.metrics.confidence.metric import Confidence

__all__ = ["Confidence"]
