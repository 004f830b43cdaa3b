"""The two commands as functions: what `train.py`, `evaluate.py` and an installed package run."""

from __future__ import annotations

import logging
import os
import sys

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig

from xnmt_bench.cli import (
    catch_signals,
    default_system,
    defer_to_jobs,
    flags_first,
    guarded,
    prepare,
    refused,
    resolve_explainers,
    submitted_failure,
)
from xnmt_bench.composition import read_signatures
from xnmt_bench.help import CONF, help_text
from xnmt_bench.overrides import quoted
from xnmt_bench.streams import standard_streams


def train() -> None:
    """Make what is missing, from subwords to proxies, and measures the configured metrics."""
    with standard_streams():
        _command("train")


def evaluate() -> None:
    """Print the tables, or with `explain=...` one sentence under every explainer."""
    with standard_streams():
        _command("evaluate")


def _run(name: str, config: DictConfig) -> None:
    """Check a configuration, read it, and do what a command does."""
    from xnmt_bench import run  # heavy, and `--help` should answer at once
    from xnmt_bench.pipeline.settings import read_settings
    from xnmt_bench.schema import check

    # Before anything is opened: a typing error must not cost the hours of a training. A system
    # may be without a path where nothing needs it, as in reports.
    check(config, complete=name == "train")
    getattr(run, name)(read_settings(config))


def _command(name: str) -> None:
    @hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
    def main(config: DictConfig) -> None:
        guarded(_run, name, config)

    added = default_system(sys.argv[1:]) if name == "evaluate" else []
    # Hydra names the log by it, also where the script has another name.
    added.append(f"hydra.job.name={name}")
    arguments = resolve_explainers([*map(quoted, sys.argv[1:]), *added])
    sys.argv[1:] = flags_first(arguments)
    if {"-m", "--multirun"} & set(sys.argv[1:]):
        sys.argv[1:] = defer_to_jobs(sys.argv[1:])
    logging.raiseExceptions = False  # a log that cannot be written ends no training
    catch_signals()
    guarded(prepare, sys.argv[1:], CONF)
    if {"--help", "-h"} & set(sys.argv[1:]):
        guarded(print, help_text(name))
        return
    read_signatures()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # or Hydra ends the program itself, in its own words
    try:
        guarded(main)  # before a job begins too, as where its folder cannot be made
    except HydraException as error:
        refused(error)
    except Exception as error:
        if (message := submitted_failure(error)) is None:
            raise
        sys.exit(f"error: {message}")
