"""Student: does a student that is told where to look learn to translate better?"""

from xnmt_bench.metrics.student.metric import Student

__all__ = ["Student"]
