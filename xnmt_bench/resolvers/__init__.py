"""Coreference resolvers."""
