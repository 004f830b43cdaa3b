"""Reads what is there, scores it and reports; never trains."""

import sys

import hydra
from omegaconf import DictConfig

from xnmt_bench.cli import guarded, quoted
from xnmt_bench.explainers.registry import register_plugins

guarded(register_plugins)


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config: DictConfig) -> None:
    """Prints the fidelity table, or with `explain=...` what explainers say of one sentence."""
    from xnmt_bench.stages.job import evaluate  # heavy, and `--help` should answer at once

    guarded(evaluate, config)


if __name__ == "__main__":
    sys.argv[1:] = [quoted(argument) for argument in sys.argv[1:]]
    main()
