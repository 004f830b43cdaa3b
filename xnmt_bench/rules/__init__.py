"""Top-k selection, and the rules on disk."""
