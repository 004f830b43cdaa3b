"""Attention over coreference links: does a context-aware system look at the antecedent?"""

from xnmt_bench.metrics.coref_attention.metric import CorefAttention

__all__ = ["CorefAttention"]
