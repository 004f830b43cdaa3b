"""What both commands share: an error a user can mend is one line, not a stack."""

from __future__ import annotations

import sys
from collections.abc import Callable

from omegaconf import DictConfig

from xnmt_bench.errors import XnmtError


def guarded(command: Callable[[DictConfig], None], config: DictConfig) -> None:
    """Runs a command; what the user can mend ends it with its message and status 1."""
    try:
        command(config)
    except XnmtError as error:
        sys.exit(f"error: {error}")
