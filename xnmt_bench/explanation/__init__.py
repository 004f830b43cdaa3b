"""Explanations of sentences as people read them: text, pictures, tables, files of other tools."""

from xnmt_bench.explanation.comparing import Comparison, compare
from xnmt_bench.explanation.explanation import Explanation, Explanations
from xnmt_bench.explanation.reading import load_explanations

__all__ = ["Comparison", "Explanation", "Explanations", "compare", "load_explanations"]
