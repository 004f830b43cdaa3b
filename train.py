"""Makes what is missing, from subwords to proxies, and measures the configured metrics."""

from xnmt_bench.commands import train

if __name__ == "__main__":
    train()
