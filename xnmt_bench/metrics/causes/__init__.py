"""What a model does when a word is changed, and whether explainers name the words that matter."""

from xnmt_bench.metrics.causes.metric import Causes
from xnmt_bench.metrics.causes.natural_twins import NaturalTwins

__all__ = ["Causes", "NaturalTwins"]
