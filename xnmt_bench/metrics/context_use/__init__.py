"""How much of its context does a system use (Fernandes et al. 2021, 2023)?"""

from xnmt_bench.metrics.context_use.metric import ContextUse

__all__ = ["ContextUse"]
