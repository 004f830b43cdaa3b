"""Makes what is missing, from subwords to proxies, and measures the configured metrics."""

import sys
from pathlib import Path

import hydra
from omegaconf import DictConfig

from xnmt_bench.cli import guarded, prepare


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config: DictConfig) -> None:
    """Runs one job of a sweep."""
    from xnmt_bench.run import train  # heavy, and `--help` should answer at once

    guarded(train, config)


# Also where a launcher's worker imports this file, so that it knows the same plug-ins.
prepare(sys.argv[1:], Path(__file__).parent / "conf")
if __name__ == "__main__":
    main()
