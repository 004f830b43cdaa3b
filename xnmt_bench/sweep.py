"""Which job of a sweep this is, and of how many."""

from __future__ import annotations

import logging
import math
import os
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

JOBS = "XNMT_BENCH_JOBS"  # an environment variable, since a launcher may start processes


class CountJobs(Callback):
    """Counts the jobs of a sweep before it begins."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Keep the number of jobs: the product of all choices."""
        swept = [f"{key}={value}" for key, value in (config.hydra.sweeper.params or {}).items()]
        overrides = OverridesParser.create().parse_overrides([*swept, *config.hydra.overrides.task])
        # A sweep of an experiment stands in its file; one on the command line replaces it.
        last = {override.key_or_group: override for override in overrides}.values()
        choices = (len(list(o.sweep_string_iterator())) for o in last if o.is_sweep_override())
        os.environ[JOBS] = str(math.prod(choices))


def job_name() -> str:
    """Return such as `job 3 of 8`; empty outside of a sweep."""
    if not HydraConfig.initialized() or HydraConfig.get().mode != RunMode.MULTIRUN:
        return ""
    total = os.environ.get(JOBS)
    return f"job {HydraConfig.get().job.num + 1}" + (f" of {total}" if total else "")


def name_lines() -> None:
    """Let each line of this job's log begin with the job's name, where there are several jobs."""
    if name := job_name():
        for handler in logging.getLogger().handlers:
            handler.addFilter(_Prefix(name))


class _Prefix(logging.Filter):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._prefix = f"{name}: "

    def filter(self, record: logging.LogRecord) -> bool:
        """Put the job's name in front of a message, once."""
        message = record.getMessage()
        if not message.startswith(self._prefix):  # a record goes through each handler
            record.msg, record.args = self._prefix + message, ()
        return True
