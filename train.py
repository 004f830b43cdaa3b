"""Makes what is missing: subwords, the NMT system, rules, and the proxy that learns from them."""

import hydra
from omegaconf import DictConfig

from xnmt_bench.cli import guarded
from xnmt_bench.explainers.registry import register_plugins

guarded(register_plugins)


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config: DictConfig) -> None:
    """Runs one job of a sweep."""
    from xnmt_bench.stages.job import train  # heavy, and `--help` should answer at once

    guarded(train, config)


if __name__ == "__main__":
    main()
