"""Passages in which words that need the context, and words of it that they need, are marked."""
