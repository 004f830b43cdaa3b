"""Proxy models Q: an NMT decision from only its rule (Li et al. 2020, section 3.2)."""
