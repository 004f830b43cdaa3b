"""Generated corpora whose gold says which words decide each target word."""

from xnmt_bench.corpora.toy.sentences import ToyCorpus

__all__ = ["ToyCorpus"]
