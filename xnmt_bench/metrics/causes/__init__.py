"""What a model does when a word is changed, and whether explainers name the words that matter."""

from xnmt_bench.metrics.causes.metric import Causes

__all__ = ["Causes"]
