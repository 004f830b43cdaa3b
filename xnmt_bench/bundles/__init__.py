"""Bundles: what a report stands on, in one file that is checked where it is read."""
