"""Fidelity: how well predictors decide from only an explainer's words (Li et al. 2020)."""

from xnmt_bench.metrics.fidelity.metric import Fidelity

__all__ = ["Fidelity"]
