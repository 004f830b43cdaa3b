"""Test suites: contrastive sets, and pronouns whose gender the translation shows."""
