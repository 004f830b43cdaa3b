"""The suites by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from xnmt_bench.corpora.suites.consistency.bug import bug
from xnmt_bench.corpora.suites.consistency.handcrafted import handcrafted
from xnmt_bench.corpora.suites.consistency.suite import Suite
from xnmt_bench.corpora.suites.consistency.wino_x import wino_x
from xnmt_bench.corpora.suites.consistency.winomt import winomt
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.registry import unknown

SUITES: Mapping[str, Callable[[Path, str], Suite]] = {
    "winomt": winomt,
    "wino_x": wino_x,
    "bug": bug,
    "handcrafted": handcrafted,
}
CHAINS = "chains"  # of the configured corpus itself, not of a file
OWN = "corpus"  # the suite that a generated corpus brings


@runtime_checkable
class BringsSuite(Protocol):
    """A corpus with a suite of its own."""

    def suite(self) -> Suite:
        """Return the suite."""


def read_suite(name: str, data: Path, language: str) -> Suite:
    """Read a suite from the folder that holds them.

    Args:
        name: one of `SUITES`.
        data: the folder that holds `winomt/`, `handcrafted/` and so on.
        language: of the translations.

    Raises:
        DataError: a line is not in its format, with file and line.
        XnmtError: the suite is unknown.
    """
    if name not in SUITES:
        problem = unknown("suite", name, [*SUITES, CHAINS, OWN])
        raise XnmtError(f"metric.consistency.suite: {problem}")
    suite = SUITES[name](data, language)
    if not suite.items:
        raise DataError(data / name, None, "no sentences")
    return suite
