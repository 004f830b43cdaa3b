"""Subword vocabularies, and corpora as their ids."""
