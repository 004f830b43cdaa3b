"""Alignment error rate: do an explainer's best source words match what humans align?"""

from xnmt_bench.metrics.aer.metric import AER

__all__ = ["AER"]
