"""Rows of a bundle, which a stranger wrote: checked before any metric reads them."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, Field, ValidationError

from xnmt_bench.bundles.archive import BLOCK, LIMITS, is_safe
from xnmt_bench.errors import StoreError
from xnmt_bench.measuring.measurement import FILES, Measurement, name_of
from xnmt_bench.measuring.metric import Metric
from xnmt_bench.store import FINGERPRINT

ROWS = 10_000_000  # of a table: units, decisions or sentences
BYTES = 1 << 31  # of a table, unpacked
WIDTH = 8  # bytes of a number in memory
PARQUET, GZIP = b"PAR1", b"\x1f\x8b"  # the first bytes of a file
Plain = str | int | float | bool | None


class _Pivot(BaseModel, strict=True):
    heading: str
    order: list[Plain]
    precedence: int = 0
    meaning: str = ""


class _Lineage(BaseModel, strict=True):
    family: str | None = None
    seed: int | None = None
    initial: str | None = None


class _Facts(BaseModel, strict=True):
    """The facts that tables and pages read. What only a metric reads is its own affair."""

    doubts: list[str] = []
    blind: bool = False
    ceiling: bool = False
    alters: list[str] | None = Field(default=None, min_length=3, max_length=3)
    blind_explainer: bool = False
    omissions: list[str] = []
    capped: bool = False
    lineage: _Lineage = _Lineage()
    opened: str = ""
    versions: dict[str, list[str]] = {}
    pivot: _Pivot | None = None
    generated: bool = False


class _Row(BaseModel, strict=True):
    identity: dict[str, Plain]
    model: str
    status: str = Field(pattern=r"^(ok$|n/a$|failed)")
    made_by: dict[str, str]
    settings: dict[str, Any]
    facts: _Facts
    files: dict[str, str]
    digest: str | None
    content: dict[str, str]
    rerun: str
    path: Literal[None] = None


def check_row(metric: Metric, file: Path, row: Measurement, where: str) -> None:
    """Check a row and its files.

    Args:
        metric: whose row it is.
        file: that describes it.
        row: as it was read; its path is that of its units.
        where: names the row in errors.

    Raises:
        StoreError: it is not a row of the metric, has not the name of its identity, a name in it
            leads elsewhere, or a file of it is altered, too large or unreadable.
    """
    try:
        # Only of a measured row has reading set the path; of another one the stranger wrote it.
        described = {"facts": row.facts.by_name(), "path": None if row.ok else row.path}
        _Row.model_validate(vars(row) | described)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"]))
        raise StoreError(f"{where}: not a row of {metric.name}: {place}: {fault['msg']}") from None
    # Names of figures and of CSV files are made of them.
    for text in (row.model, *row.identity.values(), *row.files.values()):
        if isinstance(text, str) and ".." in text.replace("\\", "/").split("/"):
            raise StoreError(f"{where}: {text!r} in it would be written outside the folder")
    if bad := [name for name in row.files.values() if "/" in name or not is_safe(name)]:
        raise StoreError(f"{where}: its file {bad[0]!r} would be written outside the folder")
    # Under another name it would stand beside a row of the same identity.
    if file.stem != name_of(row):
        raise StoreError(f"{where}: its name is not that of the row that it holds")
    if not row.ok:
        return
    assert row.path is not None
    for name in row.files:
        if not FINGERPRINT.fullmatch(row.files[name].partition(".")[0]):
            raise StoreError(f"{where}: its file {row.files[name]!r} is not named by its digest")
        try:
            row.file(name)
        except StoreError as error:
            problem = str(error).partition(": ")[2]
            raise StoreError(f"{where}: its file {row.files[name]!r}: {problem}") from None
    for path in (row.path, *(row.path.parent / FILES / name for name in row.files.values())):
        if not path.exists():  # `_check_units` refuses it
            continue
        # By its content too, since a reader does not ask for the ending.
        with path.open("rb") as opened:
            head = opened.read(len(PARQUET))
        if head == PARQUET or path.suffix == ".parquet":
            check_table(path, where)
        elif head.startswith(GZIP) or path.suffix == ".gz":
            _check_packed(path, where)
    _check_units(metric, row, where)


def check_table(path: Path, where: str) -> None:
    """Refuse a table that is packed so well that reading it would fill memory.

    Raises:
        StoreError: it has too many rows or bytes, or is not Parquet.
    """
    try:
        described = pq.read_metadata(path)
        groups = [described.row_group(n) for n in range(described.num_row_groups)]
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{where}: {path.name} is no readable table: {error}") from None
    rows = max(described.num_rows, sum(group.num_rows for group in groups))
    # Equal values take no room in a file, whose own figures count what is encoded. A list is one
    # row of many values.
    packed = sum(group.total_byte_size for group in groups)
    chunks = (group.column(n) for group in groups for n in range(group.num_columns))
    values = max(rows * described.num_columns, sum(chunk.num_values for chunk in chunks))
    if rows > ROWS or max(packed, values * WIDTH) > BYTES:
        raise StoreError(f"{where}: {path.name} has more rows than are read: {rows:,}")
    try:
        too_long = any(size > BYTES for size in accumulate(_text_sizes(path)))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{where}: {path.name} is no readable table: {error}") from None
    if too_long:
        raise StoreError(f"{where}: {path.name} has more text than is read")


def _text_sizes(path: Path) -> Iterator[int]:
    """Yield how many bytes of text each part of a table has, equal texts counted each time."""
    schema = pq.read_metadata(path).schema
    leaves = [schema.column(n) for n in range(len(schema))]
    texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    # As dictionaries: one text that stands in all rows is then read once.
    file = pq.ParquetFile(path, read_dictionary=texts)
    for group in range(file.num_row_groups):
        for chunk in (c for text in texts for c in file.read_row_group(group, [text])[0].chunks):
            while pa.types.is_nested(chunk.type):
                [chunk] = chunk.flatten() if pa.types.is_struct(chunk.type) else [chunk.flatten()]
            if not pa.types.is_dictionary(chunk.type):
                yield chunk.nbytes
                continue
            sizes = pc.binary_length(chunk.dictionary).take(chunk.indices)
            yield pc.sum(sizes).as_py() or 0


def _check_packed(path: Path, where: str) -> None:
    """Refuse a packed file of which too much comes out.

    Raises:
        StoreError: it is damaged, or has more than `LIMITS` allow.
    """
    most, count = min(LIMITS.member, LIMITS.ratio * path.stat().st_size), 0
    try:
        with gzip.open(path) as file:
            while block := file.read(BLOCK):
                count += len(block)
                if count > most:
                    raise StoreError(f"{where}: {path.name} unpacks to more than {most:,} bytes")
    except (OSError, EOFError, zlib.error) as error:
        raise StoreError(f"{where}: {path.name} is damaged: {error}") from None


def _is_text(column_U: np.ndarray) -> bool:
    """Return whether a column of units holds texts alone, as people's answers are."""
    return column_U.dtype.kind == "O" and all(type(value) is str for value in column_U)


def _check_units(metric: Metric, row: Measurement, where: str) -> None:
    """Score units once, as every table does.

    Raises:
        StoreError: they cannot be read, are impossible, or are not those of the metric.
    """
    try:
        units = metric.read_units(row)
    except StoreError as error:
        raise StoreError(f"{where}: its units: {str(error).partition(': ')[2]}") from None
    odd = [
        name
        for name, column in units.columns.items()
        if column.dtype.kind not in "biuf" and not _is_text(column)
    ]
    if odd:
        raise StoreError(
            f"{where}: the column {odd[0]!r} of its units holds no numbers and no text"
        )
    try:
        metric.score(units, np.ones((1, len(units))))
    # What a metric makes of columns that it lacks can be any error.
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise StoreError(f"{where}: its units are not those of {metric.name}: {problem}") from None
