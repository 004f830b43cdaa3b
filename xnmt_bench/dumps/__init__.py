"""Weights of translations as other tools write them; each format is a plug-in."""

from xnmt_bench.dumps.base import Dump

__all__ = ["Dump"]
