"""Reads what was measured, scores it and reports; never trains."""

from xnmt_bench.commands import evaluate

if __name__ == "__main__":
    evaluate()
