"""Proxy models Q: an NMT decision from its rule alone (Li et al. 2020, section 3.2)."""
