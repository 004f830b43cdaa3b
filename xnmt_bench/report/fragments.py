"""Fragments: what each job says of itself, and from which the tables are collected.

A job writes a small file of its own for each number; nobody writes a table but the collector. So
parallel jobs cannot spoil it, and a job that runs again replaces what it said before.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from xnmt_bench.errors import MissingError, StoreError
from xnmt_bench.metrics.score import signature
from xnmt_bench.report.summary import Row
from xnmt_bench.store import fingerprint, verified, write_atomically

FOLDER = "fragments"


@dataclass(frozen=True)
class Fragment(ABC):
    """One number of one job, before it is scored.

    Attributes:
        identity: the columns that tell it from others; another run of the same job replaces it.
        model: fingerprint of the NMT system's weights, empty where there is none.
        status: `ok`, `n/a` or what went wrong.
        scores: the Parquet file that the number is computed from, absent unless ok.
        made_by: fingerprints of the artefacts behind the number, for its signature.
    """

    identity: dict[str, Any]
    model: str
    status: str = "ok"
    scores: str | None = None
    made_by: dict[str, str] | None = None

    METRIC: ClassVar[str]
    NAME: ClassVar[str]  # of the number, in its signature
    COLUMNS: ClassVar[Sequence[str]]

    def write(self, results: Path) -> None:
        """Writes the fragment under the fingerprint of its identity."""
        name = fingerprint({**self.identity, "model": self.model})
        text = json.dumps(self.__dict__, indent=1, ensure_ascii=False)
        write_atomically(results / FOLDER / self.METRIC / f"{name}.json", text)

    @classmethod
    def read(cls, results: Path) -> list[Self]:
        """Every fragment of this metric in a results folder.

        Raises:
            MissingError: there is none.
            StoreError: one is not readable.
        """
        paths = sorted((results / FOLDER / cls.METRIC).glob("*.json"))
        if not paths:
            raise MissingError(
                f"{results}: no {cls.METRIC} results are here yet; run train.py first"
            )
        fragments = []
        for path in paths:
            try:
                fragments.append(cls(**json.loads(path.read_text(encoding="utf-8"))))
            except (ValueError, TypeError) as error:
                raise StoreError(f"{path}: not a readable fragment: {error}") from None
        return fragments

    def score(self, samples: int, seed: int) -> Row:
        """The row of the table.

        Args:
            samples: bootstrap samples.
            seed: of the bootstrap.
        """
        row: Row = dict.fromkeys(self.COLUMNS, "")
        row |= {**self.identity, "status": self.status, "model": self.model}
        parts = {**self.identity, "model": self.model, **(self.made_by or {})}
        row["signature"] = signature(self.NAME, **parts, bootstrap=f"{samples}@{seed}")
        if self.scores is None:
            return row
        try:
            return row | self.numbers(verified(Path(self.scores)), row["signature"], samples, seed)
        except StoreError as error:
            return {**row, "status": f"failed: {error}"}

    @abstractmethod
    def numbers(self, scores: Path, signature: str, samples: int, seed: int) -> Row:
        """The columns that are computed from the scores."""
