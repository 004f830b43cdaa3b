"""Test suites in which pronouns stand for what their sentence, or an earlier one, names."""
