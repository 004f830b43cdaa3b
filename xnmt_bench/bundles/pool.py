"""Several bundles as one results folder, so that every table and analysis reads them together."""

from __future__ import annotations

import errno
import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from xnmt_bench.bundles.archive import Bundle, unpack
from xnmt_bench.bundles.rows import check_row
from xnmt_bench.errors import StoreError
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.measurement import (
    FILES,
    FOLDER,
    Measurement,
    described_rows,
    name_of,
)
from xnmt_bench.measuring.metric import Metric
from xnmt_bench.parsing import parse_json
from xnmt_bench.registry import entries, load
from xnmt_bench.report.report import collect
from xnmt_bench.report.table import tables
from xnmt_bench.store import write_atomically

log = logging.getLogger(__name__)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)  # errors of the disk that is written
POOLED = "bundles.json"  # marks a folder that was pooled: what of which bundle


@dataclass(frozen=True)
class PooledBundle:
    """What came of one bundle.

    Attributes:
        bundle: the file.
        rows: the measured rows that are read from it, as `fidelity/0123456789abcdef.json`.
        repeated: rows that an earlier bundle has too, with the same units.
        contradicted: rows that an earlier bundle has too, with other units.
    """

    bundle: Bundle
    rows: list[str]
    repeated: list[str]
    contradicted: list[str]


def pool(
    paths: Iterable[Path], folder: Path, refused: dict[Path, str] | None = None
) -> list[PooledBundle]:
    """Check bundles and put their rows into one results folder, in the place of earlier ones.

    Of rows that two bundles have, the first one's are kept, which a warning says.

    Args:
        paths: of the bundles.
        folder: a new one, or one that `pool` made.
        refused: takes what is wrong with a bundle, which is then left out; if not given, the first
            bad one is an error.

    Raises:
        StoreError: a bundle cannot be read or was altered, or the folder holds other results.
    """
    target = folder / FOLDER
    if _own_rows(folder):
        raise StoreError(
            f"{folder}: holds measurements of its own; choose another folder, pooled=FOLDER"
        )
    folder.mkdir(parents=True, exist_ok=True)
    pooled, kept = [], dict[str, Measurement]()
    # On the same disk, so that what was checked is moved and not copied.
    with TemporaryDirectory(dir=folder, prefix=".unpacked-") as place:
        together = Path(place) / "together"
        (together / FOLDER).mkdir(parents=True)
        for number, path in enumerate(paths):
            try:
                pooled.append(_add(path, Path(place) / str(number), together, kept))
            except StoreError as error:
                if refused is None:
                    raise
                refused[path] = str(error)
            # A stranger's file can be any error to the code that reads it.
            except Exception as error:
                if isinstance(error, OSError) and error.errno in FULL:
                    raise  # no fault of the bundle
                problem = f"{path}: cannot be read: {type(error).__name__}: {error}"
                if refused is None:
                    raise StoreError(problem) from error
                refused[path] = problem
            # Its rows were moved; of many bundles all else would fill the disk.
            shutil.rmtree(Path(place) / str(number), ignore_errors=True)
        described = [
            {"file": p.bundle.path.name, "sha256": p.bundle.digest, "rows": p.rows} for p in pooled
        ]
        # First, with the rows that are there: a run that is killed behind it leaves a folder that
        # may be pooled again.
        _describe(folder, [*described, {"file": "", "sha256": "", "rows": _row_names(folder)}])
        shutil.rmtree(target, ignore_errors=True)
        (together / FOLDER).replace(target)
        _describe(folder, described)
    return pooled


def _own_rows(folder: Path) -> bool:
    """Return whether a folder holds rows that did not come out of a bundle."""
    if not (folder / POOLED).exists():
        return (folder / FOLDER).exists()
    rows = {*_row_names(folder)}
    try:
        described = parse_json((folder / POOLED).read_text(encoding="utf-8"))
        return not rows <= {name for bundle in described for name in bundle["rows"]}
    except (ValueError, LookupError, TypeError):
        return bool(rows)


def _row_names(folder: Path) -> list[str]:
    """Return the rows of a results folder, as `fidelity/0123456789abcdef.json`."""
    files = sorted((folder / FOLDER).glob("*/*.json"))
    return [f"{file.parent.name}/{file.name}" for file in files]


def _describe(folder: Path, bundles: Sequence[Mapping[str, Any]]) -> None:
    """Write which rows of a pooled folder are of which bundle."""
    write_atomically(folder / POOLED, json.dumps(bundles, indent=1, ensure_ascii=False))


def _add(path: Path, unpacked: Path, together: Path, kept: dict[str, Measurement]) -> PooledBundle:
    """Check one bundle and move its rows to those of the others, `kept` by name."""
    bundle = unpack(path, unpacked, f"{FOLDER}/")
    result = PooledBundle(bundle, [], [], [])
    # All are checked before the first is moved.
    for metric, file, row in list(_checked_rows(path, unpacked)):
        stem = name_of(row)
        name = f"{metric}/{stem}.json"
        if earlier := kept.get(name):
            kind = result.repeated if _same_numbers(earlier, row) else result.contradicted
            kind.append(name)
            continue
        result.rows.append(name)
        place = together / FOLDER / metric
        moves = {file: place / f"{stem}.json"}
        if row.path:
            moves[row.path] = place / f"{stem}{row.path.suffix}"
        kept[name] = replace(row, path=moves.get(row.path) if row.path else None)
        for file_name in row.files.values():
            moves[file.parent / FILES / file_name] = place / FILES / file_name
        for part, moved in moves.items():
            moved.parent.mkdir(parents=True, exist_ok=True)
            # A file may stand beside several rows; its name is the start of its digest.
            if part.exists() and not moved.exists():
                part.replace(moved)
    _log(result)
    return result


def _same_numbers(first: Measurement, second: Measurement) -> bool:
    """Return whether two rows have the same units; two versions of pyarrow write other bytes."""
    if first.status != second.status:
        return False
    return not first.ok or first.digest == second.digest or first.units().equals(second.units())


def _checked_rows(path: Path, unpacked: Path) -> Iterator[tuple[str, Path, Measurement]]:
    """Yield each row that an installed metric can read, with its metric and its file.

    Raises:
        StoreError: one cannot be read.
    """
    folders = sorted(p for p in (unpacked / FOLDER).glob("*") if p.is_dir())
    if not folders:
        raise StoreError(f"{path}: no rows are in it")
    for folder in folders:
        if folder.name not in entries("metrics"):
            log.warning("%s: left out: rows of %s, which is not installed", path, folder.name)
            continue
        metric = load("metrics", folder.name)()
        try:
            rows = list(described_rows(folder, metric.identity))
        except StoreError as error:
            raise StoreError(f"{path}: {str(error).replace(f'{unpacked}/', '')}") from None
        for file, row in rows:
            check_row(metric, file, row, f"{path}: {file.relative_to(unpacked).as_posix()}")
        _check_tables(metric, unpacked, path)
        for file, row in rows:
            yield folder.name, file, row


def _check_tables(metric: Metric, unpacked: Path, path: Path) -> None:
    """Make the tables of a bundle's rows once, so that no row fails in a table of all bundles.

    Raises:
        StoreError: a row lacks a fact that a table shows.
    """
    try:
        for _ in tables(metric, collect(metric, unpacked, Draws(1, 0)), ()):
            pass
    # What a metric makes of facts that it lacks can be any error.
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise StoreError(f"{path}: rows of {metric.name} make no table: {problem}") from None


def _log(pooled: PooledBundle) -> None:
    """Say what was read of a bundle."""
    bundle, rows = pooled.bundle, pooled.rows
    names = ", ".join(dict.fromkeys(name.partition("/")[0] for name in rows)) or "nothing new"
    log.info(
        "%s: %d rows of %s, written by %s, sha256 %s",
        *(bundle.path, len(rows), names, bundle.made_by, bundle.digest),
    )
    if pooled.contradicted:
        log.warning(
            "%s: left out: %d rows that an earlier bundle measured with other numbers, such as %s",
            *(bundle.path, len(pooled.contradicted), pooled.contradicted[0]),
        )
