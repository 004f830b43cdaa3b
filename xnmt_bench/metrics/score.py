"""A score prints with its interval and with what it takes to make it again."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version


@dataclass(frozen=True)
class Score:
    """A number and its bootstrap interval.

    Attributes:
        value: the number.
        low: lower end of the interval.
        high: its upper end.
        signature: one line from which the number can be made again.
    """

    value: float
    low: float
    high: float
    signature: str

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def signature(metric: str, **parts: object) -> str:
    """Metric and parts as `PPL|corpus:toy|k:1|...`, closed by this project's version."""
    fields = [f"{key}:{value}" for key, value in parts.items()]
    return "|".join([metric, *fields, f"version:{version('xnmt_bench')}"])
