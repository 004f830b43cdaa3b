"""Test suites in which a pronoun stands for one of the sentence's words."""

from xnmt_bench.corpora.consistency.outputs import pairs, translations
from xnmt_bench.corpora.consistency.reading import ARTICLES, SUBSETS, SUITES, bare, read_suite
from xnmt_bench.corpora.consistency.suite import Item, Suite

__all__ = [
    "ARTICLES",
    "SUBSETS",
    "SUITES",
    "Item",
    "Suite",
    "bare",
    "pairs",
    "read_suite",
    "translations",
]
