"""Measurements: what a metric found of each job, on disk, from which everything is reported.

A job writes a small file of its own for each row; nobody writes a table but the report. So parallel
jobs cannot spoil it, and a job that runs again replaces what it said before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from xnmt_bench.errors import MissingError, StoreError
from xnmt_bench.metrics.units import Units
from xnmt_bench.store import file_hash, fingerprint, write_atomically

FOLDER = "measurements"
OK, NOT_APPLICABLE, FAILED = "ok", "n/a", "failed"


@dataclass(frozen=True)
class Evidence:
    """Units, and where they came from.

    Attributes:
        units: one row a unit.
        made_by: fingerprints of the artefacts behind them, for the signature.
        facts: what is known of the row beside its units.
        files: further files in the store, for analyses and for the page.
    """

    units: Units
    made_by: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Planned:
    """A row that a metric can measure.

    Attributes:
        identity: the columns that tell it from others.
        model: fingerprint of the NMT system, empty where there is none.
        make: measures it.
        facts: what is known before.
    """

    identity: dict[str, Any]
    model: str
    make: Callable[[], Evidence]
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Measurement:
    """A row that was measured, or that could not be.

    Attributes:
        identity: the columns that tell it from others; another run of the same job replaces it.
        model: fingerprint of the NMT system, empty where there is none.
        status: `ok`, `n/a`, or `failed: ` and why.
        made_by: fingerprints of the artefacts behind the units.
        facts: what is known of the row beside its units.
        files: further files in the store.
        digest: SHA-256 of the file of its units.
        path: the file of its units; None where there are none.
    """

    identity: dict[str, Any]
    model: str
    status: str = OK
    made_by: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    digest: str | None = None
    path: Path | None = None

    @property
    def ok(self) -> bool:
        """Whether it has units."""
        return self.status == OK

    def units(self) -> Units:
        """Its units.

        Raises:
            StoreError: they are missing, truncated or altered.
        """
        assert self.path is not None, "a row that is not ok has no units"
        if not self.path.exists():
            raise StoreError(f"{self.path}: the units of a measurement are missing")
        if file_hash(self.path) != self.digest:
            raise StoreError(f"{self.path}: truncated or altered since it was written")
        return Units.load(self.path)

    def signature(self, metric: str, **parts: object) -> str:
        """One line from which the row can be made again, such as `AER|corpus:toy|...`."""
        return signature(metric, self.identity, {"model": self.model}, self.made_by, parts)


def signature(name: str, *parts: Mapping[str, object]) -> str:
    """Name and parts as `AER|corpus:toy|k:1|...`, closed by this project's version."""
    fields = [f"{key}:{value}" for part in parts for key, value in part.items()]
    return "|".join([name.upper(), *fields, f"version:{version('xnmt_bench')}"])


def write(metric: str, planned: Planned, outcome: Evidence | str, results: Path) -> Measurement:
    """Writes a row under the fingerprint of its identity: its units first, then what it says.

    Args:
        metric: its name.
        planned: what was to be measured.
        outcome: what was found, or the status that says why nothing was.
        results: the folder of the report.
    """
    name = fingerprint({**planned.identity, "model": planned.model})
    stem = results / FOLDER / metric / name
    row = Measurement(planned.identity, planned.model, facts=planned.facts)
    if isinstance(outcome, str):
        row = replace(row, status=outcome)
    else:
        path = stem.with_suffix(".parquet")
        outcome.units.save(path)
        row = replace(
            row,
            made_by=outcome.made_by,
            facts=planned.facts | outcome.facts,
            files=outcome.files,
            digest=file_hash(path),
            path=path,
        )
    said = {key: value for key, value in asdict(row).items() if key != "path"}
    write_atomically(stem.with_suffix(".json"), json.dumps(said, indent=1, ensure_ascii=False))
    return row


def read(metric: str, results: Path, identity: Sequence[str]) -> list[Measurement]:
    """Every row of a metric in a results folder.

    Args:
        metric: its name.
        results: the folder.
        identity: the columns that each row has to have.

    Raises:
        MissingError: there is none.
        StoreError: one is not readable.
    """
    paths = sorted((results / FOLDER / metric).glob("*.json"))
    if not paths:
        raise MissingError(f"{results}: no {metric} results are here yet; run train.py first")
    rows = []
    for path in paths:
        try:
            row = Measurement(**json.loads(path.read_text(encoding="utf-8")))
            if missing := set(identity) - set(row.identity):
                raise ValueError(f"no column {min(missing)!r}")
        except (ValueError, TypeError, AttributeError) as error:
            raise StoreError(f"{path}: not a readable measurement: {error}") from None
        rows.append(replace(row, path=path.with_suffix(".parquet")) if row.ok else row)
    return rows


@dataclass(frozen=True)
class Scored:
    """A row with its numbers.

    Attributes:
        measurement: the row.
        values: `name`, `name_low` and `name_high` of each result, `units` and `empty_draws`; empty
            where there is no number.
        signature: from which it can be made again.
        derived: made of other rows, as Comb is.
    """

    measurement: Measurement
    values: dict[str, float]
    signature: str
    derived: bool = False

    @property
    def row(self) -> dict[str, Any]:
        """Everything about it in one dictionary, the columns of the CSV among them.

        What has no number is not in it.
        """
        m = self.measurement
        return {
            **m.identity,
            "model": m.model,
            **{name: value for name, value in self.values.items() if value == value},
            "status": m.status,
            "signature": self.signature,
        }
