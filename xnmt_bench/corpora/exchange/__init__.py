"""Words that replace others of their kind."""
