"""The stages from a corpus to relevance, rules and proxies, composed lazily into a job."""
