"""Student: does a small model translate better that looks where an explainer says?"""

from xnmt_bench.metrics.student.metric import Student

__all__ = ["Student"]
