"""Weights of translations as other tools write them; each format is a plug-in."""

from xnmt_bench.dumps.base import Dump
from xnmt_bench.dumps.weighed import Tokens, Weighed

__all__ = ["Dump", "Tokens", "Weighed"]
