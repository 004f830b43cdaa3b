"""Test suites in which pronouns refer to what their sentence, or an earlier one, names."""
