"""Measurements: what a metric measured of each job, on disk; every report is made from them.

A job writes a small file of its own for each row, and only the report writes tables. So parallel
jobs cannot spoil a table, and a job that runs again replaces its rows. The folder is complete: the
units and all other files of a row lie in it, so it can be moved to another machine.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from xnmt_bench.errors import TRAIN_FIRST, MissingError, StoreError
from xnmt_bench.measuring.units import Units
from xnmt_bench.parsing import parse_json
from xnmt_bench.store import Stage, file_hash, fingerprint, replacing, write_atomically

log = logging.getLogger(__name__)
FOLDER = "measurements"
FILES = "files"  # the folder of further files, next to the rows of a metric
# What was measured is in the store, so this takes moments.
CURE = "run its train.py again, which writes the row anew"
OK, NOT_APPLICABLE, FAILED = "ok", "n/a", "failed"
REMARKS = ("blind", "ceiling", "capped")  # facts that have a column in the CSV
SEAL = "seal"  # fingerprint of all else that describes a row
SETTINGS = "settings"  # heads the column of what decides numbers besides a row's columns
# Names of some settings.
REVERSE, EXPLAINED = "reverse system", "explained"
TOKENIZER = "tokenizer"  # sacrebleu's, which cuts the words that are counted
DECISIONS = "decisions"  # which decisions a row is scored on
SENTENCES = "sentences"  # name of a content: the suite's sentences as the system reads them


@dataclass(frozen=True)
class Facts:
    """What is known of a row besides what it is and its units.

    Attributes:
        generated: its corpus was made by a program.
        blind: its explainer never asks the model: a point of reference, never ranked.
        ceiling: it searched for what the metric measures: a bound on the other rows, never ranked,
            behind them.
        alters: its explainer alters the relevance of another one: the other one's name, the
            alteration's, and its options. Such a row is in no table or ranking, and is there
            for `analysis=[meta]`.
        blind_explainer: as `blind`, of an explainer that a system's row names, where the
            row itself is ranked.
        judge: the name of its judge.
        pivot: how tables show its value of the pivot; see `PivotValue`.
        counted: it is scored on only some of the decisions: which, how many, and of how many.
        doubts: why its numbers mean little, a sentence each.
        omissions: what the experiment left out to be quick, a sentence each.
        capped: training ended at its cap of epochs.
        lineage: how its system was trained; see `pipeline.lineage`.
        opened: the name that its system was opened by; empty of one that was trained here.
        versions: of the libraries that made what is behind it, by name.
        agreement: how often its system says the target's own word (`right`), and a constant guess.
        joint_attention: whether its system's attention is over source and prefix words at once.
        of_metric: what only its metric reads.
    """

    generated: bool = False
    blind: bool = False
    ceiling: bool = False
    alters: Sequence[str] = ()
    blind_explainer: bool = False
    judge: str = ""
    pivot: Mapping[str, Any] = field(default_factory=dict)
    counted: Mapping[str, Any] = field(default_factory=dict)
    doubts: Sequence[str] = ()
    omissions: Sequence[str] = ()
    capped: bool = False
    lineage: Mapping[str, Any] = field(default_factory=dict)
    opened: str = ""
    versions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    agreement: Mapping[str, float] = field(default_factory=dict)
    joint_attention: bool = False
    of_metric: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, named: Mapping[str, Any]) -> Facts:
        """Return facts by their names; names that are unknown here are of the metric."""
        names = {each.name for each in fields(cls)} - {"of_metric"}
        of_metric = {name: value for name, value in named.items() if name not in names}
        return cls(**{n: v for n, v in named.items() if n in names}, of_metric=of_metric)

    def by_name(self) -> dict[str, Any]:
        """Return the facts by their names, for the row's file."""
        usual = Facts()
        named = {n: v for n, v in vars(self).items() if n != "of_metric" and v != getattr(usual, n)}
        return {**named, **self.of_metric}


@dataclass(frozen=True)
class Evidence:
    """Units, and where they came from.

    Attributes:
        units: one row each.
        made_by: fingerprints of the artefacts behind them, for the signature.
        facts: what is known of the row besides its units, by name; see `Facts`.
        settings: what decides the numbers besides the row's own settings, and is known only once
            they are measured.
        files: further files, for analyses and for the page; they are copied next to the row.
    """

    units: Units
    made_by: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedRow:
    """A row that a metric can measure; planning it makes nothing.

    Attributes:
        keys: the columns that the configuration decides.
        identify: gives the identity of the row. It may train the system, whose fingerprint is part
            of it.
        make: measures the row. It returns None where the job has no such row.
        stages: lists the stages that it needs; none is made.
    """

    keys: dict[str, Any]
    identify: Callable[[], Row]
    make: Callable[[], Evidence | None]
    stages: Callable[[], Iterable[Stage]] = tuple

    @classmethod
    def without_system(
        cls,
        keys: dict[str, Any],
        make: Callable[[], Evidence | None],
        content: Mapping[str, str],
        **facts: Any,
    ) -> PlannedRow:
        """Plan a row that no NMT system is behind, such as one of files.

        Args:
            keys: its columns.
            make: measures it.
            content: fingerprints of the files, by what they hold.
            facts: what is known of it.
        """
        return cls(keys, lambda: Row(keys, "", {}, facts, dict(content)), make)


@dataclass(frozen=True)
class Row:
    """What tells a row from others, and what is known before it is measured.

    Attributes:
        columns: its columns.
        model: fingerprint of the NMT system, empty where there is none.
        settings: what decides its numbers besides its columns, by name; rows that differ in one are
            never ranked together.
        facts: such as the doubts about its corpus, by name; see `Facts`.
        content: fingerprints of the files that it is measured from, by what they hold; a file's
            name does not tell two files apart.
        rerun: the command that measures it.
    """

    columns: dict[str, Any]
    model: str
    settings: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    content: dict[str, str] = field(default_factory=dict)
    rerun: str = ""


@dataclass(frozen=True)
class Measurement:
    """A row that was measured, or that could not be.

    Attributes:
        identity: its columns; another run of the same job replaces it.
        model: fingerprint of the NMT system, empty where there is none.
        content: fingerprints of the files that it was measured from, by what they hold.
        rerun: the command that measured it; see `rerun_command`.
        status: `ok`, `n/a`, or `failed: ` and why.
        made_by: as in `Evidence`.
        settings: as in `Row`.
        facts: what is known of it.
        files: names of further files, by what they hold; read them with `file`.
        digest: SHA-256 of the file of its units.
        path: the file of its units; None where there are none.
    """

    identity: dict[str, Any]
    model: str
    status: str = OK
    made_by: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    facts: Facts = Facts()
    files: dict[str, str] = field(default_factory=dict)
    digest: str | None = None
    path: Path | None = None
    content: dict[str, str] = field(default_factory=dict)
    rerun: str = ""

    @property
    def ok(self) -> bool:
        """Whether it has units."""
        return self.status == OK

    @property
    def partial(self) -> bool:
        """Whether it is scored on only some of the decisions."""
        counted = self.facts.counted
        return bool(counted) and counted["decisions"] < counted["of"]

    def units(self) -> Units:
        """Read its units.

        Raises:
            StoreError: they are missing, truncated or altered.
        """
        assert self.path is not None, "a row that is not ok has no units"
        if not self.path.exists():
            raise StoreError(f"{self.path}: the units of a row are missing; {CURE}")
        # Hashed at each reading: a results folder may be edited while a process runs.
        if file_hash(self.path) != self.digest:
            raise StoreError(f"{self.path}: truncated or altered since it was written; {CURE}")
        return Units.load(self.path)

    def file(self, name: str) -> Path:
        """Return the path of one of its further files.

        Raises:
            StoreError: it is missing, truncated or altered.
        """
        assert self.path is not None, "a row that is not ok has no files"
        path = self.path.parent / FILES / self.files[name]
        if not path.exists():
            raise StoreError(f"{path}: a file of a row is missing; {CURE}")
        # A file is named by the start of its digest, so one copy serves every row.
        if not file_hash(path).startswith(path.name.partition(".")[0]):
            raise StoreError(f"{path}: truncated or altered since it was written; {CURE}")
        return path

    def signature(self, metric: str, **parts: object) -> str:
        """Return one line from which the row can be made again, such as `AER|corpus:toy|...`."""
        model = {"model": self.model}
        return signature(metric, self.identity, model, self.settings, self.made_by, parts)


def signature(name: str, *parts: Mapping[str, object]) -> str:
    """Return name and parts as `AER|corpus:toy|k:1|...`, closed by this project's version."""
    fields = [f"{key}:{value}" for part in parts for key, value in part.items()]
    return "|".join([name.upper(), *fields, f"version:{_own_version()}"])


@cache  # read from a file of the installed package, for each row of a table
def _own_version() -> str:
    return version("xnmt_bench")


def write(metric: str, row: Row, outcome: Evidence | str, results: Path) -> Measurement:
    """Write a row under the fingerprint of its identity: its files first, then its description.

    Args:
        metric: its name.
        row: its identity.
        outcome: what was measured, or the status that says why nothing was.
        results: the folder of results.
    """
    folder = results / FOLDER / metric
    unmeasured = Measurement(
        row.columns,
        row.model,
        settings=row.settings,
        facts=Facts.of(row.facts),
        content=row.content,
        rerun=row.rerun,
    )
    if isinstance(outcome, str):
        measurement = replace(unmeasured, status=outcome)
        _write_description(folder / f"{name_of(measurement)}.json", measurement)
        return measurement
    doubts = [d for facts in (row.facts, outcome.facts) for d in facts.get("doubts", [])]
    measurement = replace(
        unmeasured,
        made_by=outcome.made_by,
        settings={"test set": outcome.units.test_set} | row.settings | outcome.settings,
        facts=Facts.of(row.facts | outcome.facts | ({"doubts": doubts} if doubts else {})),
    )
    path = folder / f"{name_of(measurement)}.parquet"
    # A job with nothing to do writes nothing, so that finished work may be read-only.
    if not _holds(path, outcome.units):
        outcome.units.save(path)
    measurement = replace(
        measurement,
        files={key: _keep(file, folder / FILES) for key, file in outcome.files.items()},
        digest=file_hash(path),
        path=path,
    )
    # Written last: a row without its description is not there yet.
    _write_description(path.with_suffix(".json"), measurement)
    # What a run that failed has left of the row.
    (folder / f"{name_of(replace(unmeasured, status=FAILED))}.json").unlink(missing_ok=True)
    return measurement


def name_of(row: Measurement) -> str:
    """Return the name of a row's files, which another run of its job gives again.

    It follows from the row's identity, and of a row with numbers from its settings too.
    """
    identity = {**row.identity, "model": row.model} | row.content
    return fingerprint(identity | ({SETTINGS: row.settings} if row.ok else {}))


def _write_description(file: Path, measurement: Measurement) -> None:
    """Write what describes a row, under a seal, unless the file holds it already."""
    description = vars(measurement) | {"facts": measurement.facts.by_name()}
    del description["path"]
    if _describes(file, description):
        return
    plain = json.loads(json.dumps(description))  # tuples become lists before they are sealed
    sealed = plain | {SEAL: fingerprint(plain)}
    write_atomically(file, json.dumps(sealed, indent=1, ensure_ascii=False))


def _describes(file: Path, description: dict[str, Any]) -> bool:
    """Return whether a file holds a description, apart from the command that measured its row."""
    try:
        stored = _read_description(file)
    except (OSError, ValueError):
        return False
    plain = json.loads(json.dumps(description))
    return stored | {"rerun": ""} == plain | {"rerun": ""}


def _read_description(file: Path) -> dict[str, Any]:
    """Read what describes a row.

    Raises:
        ValueError: it is not readable, or was altered since it was written.
    """
    description = parse_json(file.read_text(encoding="utf-8"))
    if not isinstance(description, dict):
        raise ValueError("not a JSON object")
    if description.pop(SEAL, None) != fingerprint(description):
        raise ValueError("altered since it was written")
    return description


def _keep(file: Path, folder: Path) -> str:
    """Copy a file into a folder, under a name that follows from its bytes; return the name."""
    # All endings, as of `.jsonl.gz`, by which readers choose how to open it.
    digest = file_hash(file)
    kept = folder / f"{digest[:16]}{''.join(file.suffixes)}"
    # One that was damaged since is written again.
    if not kept.exists() or file_hash(kept) != digest:
        with replacing(kept) as temporary:
            shutil.copyfile(file, temporary)
    return kept.name


def _holds(path: Path, units: Units) -> bool:
    """Return whether a file is there, whole, and has just these units."""
    try:
        stored = Units.load(path)
    except StoreError:
        return False
    return stored.equals(units)


def read(metric: str, results: Path, identity: Sequence[str]) -> list[Measurement]:
    """Read every row of a metric in a results folder.

    Raises:
        MissingError: there is none.
        StoreError: one is not readable, or lacks a column of the `identity`.
    """
    rows = [row for _, row in described_rows(results / FOLDER / metric, identity)]
    if not rows:
        raise MissingError(f"{results}: no {metric} results are here yet; {TRAIN_FIRST}")
    return rows


def described_rows(
    folder: Path, identity: Sequence[str] = ()
) -> Iterator[tuple[Path, Measurement]]:
    """Yield each row of a folder with the file that describes it, as `read` does.

    Raises:
        StoreError: one is not readable, or lacks a column of the `identity`.
    """
    for path in sorted(folder.glob("*.json")):
        try:
            description = _read_description(path)
            row = Measurement(**description | {"facts": Facts.of(description["facts"])})
            missing = set(identity) - row.identity.keys()
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise StoreError(f"{path}: not a readable measurement: {error}; {CURE}") from None
        if missing:
            # Measured anew it has another file, and this one stays.
            raise StoreError(
                f"{path}: no column {min(missing)!r}, since another version wrote it; delete it"
            )
        yield path, replace(row, path=path.with_suffix(".parquet")) if row.ok else row


@dataclass(frozen=True)
class ScoredRow:
    """A row with its numbers.

    Attributes:
        measurement: the row.
        values: `name`, `name_low` and `name_high` of each result, `units` and `empty_draws`; empty
            without a number.
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
        """All columns of the CSV; a result without a number is left out."""
        m = self.measurement
        return {
            **m.identity,
            "model": m.model,
            # Only NaN differs from itself; a result without a number is an empty cell.
            **{name: value for name, value in self.values.items() if value == value},
            "status": m.status,
            "remarks": " ".join(fact for fact in REMARKS if getattr(m.facts, fact)),
            "signature": self.signature,
            "rerun": m.rerun,
        }
