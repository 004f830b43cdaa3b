"""The page on which translations are read one by one: every listing, in one file."""

from xnmt_bench.report.debug.page import DEBUG, write_debug_page

__all__ = ["DEBUG", "write_debug_page"]
