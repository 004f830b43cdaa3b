"""Relevance as people read it: pieces to words, shares of a step, word alignment."""

from xnmt_bench.words.weighed import Tokens, Weighed

__all__ = ["Tokens", "Weighed"]
