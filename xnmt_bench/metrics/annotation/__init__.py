"""What people answered to sheets, compared with each other, automatic columns and relevance."""

from xnmt_bench.metrics.annotation.metric import Annotation

__all__ = ["Annotation"]
