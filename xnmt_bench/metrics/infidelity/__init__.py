"""Infidelity: how badly an explainer's scores foretell what erasing words does."""

from xnmt_bench.metrics.infidelity.metric import Infidelity

__all__ = ["Infidelity"]
