"""Test suites in which pronouns stand for what their sentence, or an earlier one, names."""

from xnmt_bench.corpora.suites.consistency.chains import chains
from xnmt_bench.corpora.suites.consistency.corpus import SuiteCorpus
from xnmt_bench.corpora.suites.consistency.outputs import pairs, translations
from xnmt_bench.corpora.suites.consistency.pronouns import bare, with_article
from xnmt_bench.corpora.suites.consistency.reading import (
    CHAINS,
    OWN,
    SUITES,
    BringsSuite,
    read_suite,
)
from xnmt_bench.corpora.suites.consistency.resolver import Resolver
from xnmt_bench.corpora.suites.consistency.suite import Entity, Item, Suite
from xnmt_bench.corpora.suites.consistency.winomt import SUBSETS

__all__ = [
    "CHAINS",
    "OWN",
    "SUBSETS",
    "SUITES",
    "BringsSuite",
    "Entity",
    "Item",
    "Resolver",
    "Suite",
    "SuiteCorpus",
    "bare",
    "chains",
    "pairs",
    "read_suite",
    "translations",
    "with_article",
]
