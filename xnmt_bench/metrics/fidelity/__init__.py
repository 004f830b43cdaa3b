"""Fidelity: how well predictors decide from an explainer's words alone (Li et al. 2020)."""

from xnmt_bench.metrics.fidelity.metric import Fidelity

__all__ = ["Fidelity"]
