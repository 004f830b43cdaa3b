"""Words that stand in for others of their kind."""
