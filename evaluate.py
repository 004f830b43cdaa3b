"""Reads what was measured, scores it and reports; never trains."""

import sys
from pathlib import Path

import hydra
from omegaconf import DictConfig

from xnmt_bench.cli import guarded, prepare, quoted


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config: DictConfig) -> None:
    """Prints the tables, or with `explain=...` what explainers say of one sentence."""
    from xnmt_bench.run import evaluate  # heavy, and `--help` should answer at once

    guarded(evaluate, config)


if __name__ == "__main__":
    sys.argv[1:] = [quoted(argument) for argument in sys.argv[1:]]
    prepare(sys.argv[1:], Path(__file__).parent / "conf")
    main()
