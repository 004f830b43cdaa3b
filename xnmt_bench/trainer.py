"""How training runs, without Lightning, which is imported only when a training begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from xnmt_bench.device import CPU


@dataclass(frozen=True)
class TrainerOptions:
    """How training runs, as opposed to what is trained.

    Attributes:
        device: where.
        precision: Lightning's precision; `bf16-mixed` is the usual other choice.
        validate_every: steps of an NMT training between validations; None for a pass over the
            training split.
        progress_bar: show one.
        logger: makes Lightning's logger, or None for none. It is called when a training begins,
            since importing Lightning takes longer than most commands that train nothing.
    """

    device: torch.device = CPU
    precision: str = "32-true"
    validate_every: int | None = None
    progress_bar: bool = True
    logger: Callable[[], Any] | None = field(default=None, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return the options without the logger, which stays in its process."""
        return vars(self) | {"logger": None}
