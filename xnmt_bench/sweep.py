"""Which job of a sweep this is, of how many, and what was typed for it."""

from __future__ import annotations

import json
import logging
import math
import os
from functools import cache
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ValueType
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

from xnmt_bench.overrides import FUNCTION, parse, split

# Environment variables, since a launcher may start processes.
JOBS = "XNMT_BENCH_JOBS"
SWEPT = "XNMT_BENCH_SWEPT"  # of each option that is swept, the values as they were typed


class CountJobs(Callback):
    """Counts the jobs of a sweep before it begins, and keeps what was typed for them."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Keep the number of jobs: the product of all choices."""
        swept = [f"{key}={value}" for key, value in (config.hydra.sweeper.params or {}).items()]
        overrides = OverridesParser.create().parse_overrides([*swept, *config.hydra.overrides.task])
        # A sweep of an experiment is in its file; one on the command line replaces it.
        last = {override.key_or_group: override for override in overrides}.values()
        swept_options = [override for override in last if override.is_sweep_override()]
        typed = {o.key_or_group: _split_choices(o.input_line or "") for o in swept_options}
        os.environ[SWEPT] = json.dumps(typed)
        # Only Hydra's sweeper knows what a `glob` finds.
        if not any(o.value_type is ValueType.GLOB_CHOICE_SWEEP for o in swept_options):
            counts = (len(list(override.sweep_string_iterator())) for override in swept_options)
            os.environ[JOBS] = str(math.prod(counts))


def _split_choices(override: str) -> list[str]:
    """Return the values of a sweep as they were typed, also within `choice(...)`."""
    value = override.partition("=")[2]
    call = FUNCTION.fullmatch(value)
    return split(call[2] if call else value)


def as_typed(override: str) -> tuple[str, str]:
    """Return the name of an option of this job, and its value as it was typed.

    Hydra hands a `1e3` of a sweep on as `1000.0`.
    """
    name, _, value = override.lstrip("+").partition("=")
    for typed in json.loads(os.environ.get(SWEPT, "{}")).get(name, []):
        if (choice := parse(f"{name}={typed}")) and str(choice.value()) == value:
            return name, typed
    return name, value


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


@cache
def log_once(log: logging.Logger, level: int, line: str) -> None:
    """Log a line unless this process has logged it: jobs of a sweep share many lines."""
    log.log(level, "%s", line)


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
