"""A small resolver learnt from GAP and LitBank, which needs no network and numpy alone."""

from xnmt_bench.resolvers.learnt.resolver import Learnt

__all__ = ["Learnt"]
