"""Contrastive test sets: does a system prefer the translation that the context asks for?"""

from xnmt_bench.metrics.contrastive.metric import Contrastive

__all__ = ["Contrastive"]
