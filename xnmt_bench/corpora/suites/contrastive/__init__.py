"""Contrastive test sets: readers of the published ones, a plain form, and sets that are made."""
