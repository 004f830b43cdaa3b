"""Translation quality: BLEU, chrF, TER, and COMET where its program is at hand."""

from xnmt_bench.metrics.quality.metric import Quality

__all__ = ["Quality"]
