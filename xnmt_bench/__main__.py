"""`python -m xnmt_bench ...` is `xnmt ...`."""

from xnmt_bench.program import xnmt

if __name__ == "__main__":
    xnmt()
