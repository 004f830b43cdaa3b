"""Parquet files that are there whole or not at all, and whose damage is noticed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from xnmt_bench.errors import StoreError
from xnmt_bench.store import replacing


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table, with a checksum for each page."""
    with replacing(path) as temporary:
        # Checksums find a flipped bit when a page is read.
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def column_names(path: Path) -> list[str]:
    """Return the names of a file's columns.

    Raises:
        StoreError: the file is missing, truncated or altered.
    """
    try:
        return list(pq.read_schema(path).names)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: not a readable table: {error}") from None


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read some columns, or all of them.

    Raises:
        StoreError: the file is missing, truncated or altered, or lacks a column.
    """
    names = None if columns is None else list(columns)
    try:
        # `pq.read_table` looks for a folder of files first, which takes as long as to read one.
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read(names)
        # A footer that was altered may show only when its names are read.
        present = table.column_names
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: not a readable table: {error}") from None
    if missing := sorted({*(names or ())} - {*present}):
        raise StoreError(f"{path}: the table has no column {missing[0]!r}")
    doubled = [name for name in present if present.count(name) > 1]
    if doubled:
        raise StoreError(f"{path}: the table has the column {doubled[0]!r} twice")
    return table
