"""The trial of judges: which of them sees the model?"""

from xnmt_bench.metrics.fidelity.trial.analysis import Trial

__all__ = ["Trial"]
