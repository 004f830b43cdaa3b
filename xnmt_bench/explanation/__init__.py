"""Explanations of sentences as people read them: text, pictures, tables, files of other tools."""

from xnmt_bench.explanation.comparing import Comparison, compare
from xnmt_bench.explanation.explanation import Explanation, Explanations
from xnmt_bench.explanation.reading import from_inseq, load_explanations

__all__ = [
    "Comparison",
    "Explanation",
    "Explanations",
    "compare",
    "from_inseq",
    "load_explanations",
]
