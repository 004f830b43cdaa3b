"""Coreference resolvers for English source sentences, and what their clusters are used for."""

from xnmt_bench.resolvers.base import Cluster, Clusters, Resolver, Span

__all__ = ["Cluster", "Clusters", "Resolver", "Span"]
