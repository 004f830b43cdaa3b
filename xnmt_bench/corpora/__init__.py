"""Parallel text and gold annotation in, one kind of sentence object out."""
