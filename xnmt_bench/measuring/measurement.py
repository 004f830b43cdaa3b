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

import numpy as np

from xnmt_bench.errors import MissingError, StoreError
from xnmt_bench.measuring.units import Units
from xnmt_bench.store import file_hash, fingerprint, write_atomically

FOLDER = "measurements"
# What was measured is in the store, so this takes moments.
CURE = "run its train.py again, which writes the row anew"
OK, NOT_APPLICABLE, FAILED = "ok", "n/a", "failed"
# Among a row's facts:
DOUBTS = "doubts"  # why its numbers mean little, a sentence each
BLIND = "blind"  # its explainer never asks the model: a point of reference, never ranked
CAPPED = "capped"  # training ended at its cap of epochs and not by itself


@dataclass(frozen=True)
class Evidence:
    """Units, and where they came from.

    Attributes:
        units: one row each.
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
    """A row that was measured, or that could not be: what was planned of it, and the evidence.

    Attributes:
        identity: the columns that tell it from others; another run of the same job replaces it.
        status: `ok`, `n/a`, or `failed: ` and why.
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
            raise StoreError(f"{self.path}: the units of a row are missing; {CURE}")
        if file_hash(self.path) != self.digest:
            raise StoreError(f"{self.path}: truncated or altered since it was written; {CURE}")
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

    The `outcome` is what was measured, or the status that says why nothing was.
    """
    name = fingerprint({**planned.identity, "model": planned.model})
    file = results / FOLDER / metric / f"{name}.json"
    path = file.with_suffix(".parquet")
    row = Measurement(planned.identity, planned.model, facts=planned.facts)
    if isinstance(outcome, str):
        row = replace(row, status=outcome)
    else:
        # A job with nothing to do writes nothing, so that finished work may be read-only.
        if not _holds(path, outcome.units):
            outcome.units.save(path)
        found = {key: value for key, value in vars(outcome).items() if key != "units"}
        doubts = [d for facts in (planned.facts, outcome.facts) for d in facts.get(DOUBTS, [])]
        found["facts"] = planned.facts | outcome.facts | ({DOUBTS: doubts} if doubts else {})
        row = replace(row, **found, digest=file_hash(path), path=path)
    described = {key: value for key, value in asdict(row).items() if key != "path"}
    text = json.dumps(described, indent=1, ensure_ascii=False)
    if not (file.exists() and file.read_bytes() == text.encode()):
        write_atomically(file, text)
    return row


def _holds(path: Path, units: Units) -> bool:
    """Whether a file is there, whole, and has just these units."""
    try:
        there = Units.load(path)
    except StoreError:
        return False
    return (
        there.test_set == units.test_set
        and np.array_equal(there.number_U, units.number_U)
        and there.columns.keys() == units.columns.keys()
        and all(np.array_equal(there[name], units[name]) for name in units.columns)
    )


def read(metric: str, results: Path, identity: Sequence[str]) -> list[Measurement]:
    """Every row of a metric in a results folder.

    Raises:
        MissingError: there is none.
        StoreError: one is not readable, or lacks a column of the `identity`.
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
        damaged: its units are missing, truncated or altered.
    """

    measurement: Measurement
    values: dict[str, float]
    signature: str
    derived: bool = False
    damaged: bool = False

    @property
    def row(self) -> dict[str, Any]:
        """All of it, the columns of the CSV among them; what has no number is left out."""
        m = self.measurement
        return {
            **m.identity,
            "model": m.model,
            **{name: value for name, value in self.values.items() if value == value},
            "status": m.status,
            "remarks": " ".join(fact for fact in (BLIND, CAPPED) if m.facts.get(fact)),
            "signature": self.signature,
        }
