"""A small resolver learnt from GAP and LitBank, which needs no network and only numpy."""

from xnmt_bench.resolvers.learnt.resolver import Learnt

__all__ = ["Learnt"]
