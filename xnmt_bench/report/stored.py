"""The tables that a report wrote, printed again."""

from __future__ import annotations

from pathlib import Path

from xnmt_bench.errors import MissingError
from xnmt_bench.registry import entries

# As `measuring.measurement` has it, which imports pyarrow: tables are printed at once.
ROWS = "measurements"
TABLE = ".txt"


def stored_tables(results: Path) -> str:
    """Return the tables of a results folder, those of metrics before those of analyses.

    Last lines say where rows were measured since a table was written, or are gone.

    Args:
        results: the folder of results.

    Raises:
        MissingError: the folder holds no table.
    """
    tables = sorted(results.glob(f"*{TABLE}"))
    measured = {path.name for path in (results / ROWS).glob("*") if path.is_dir()}
    command = f"xnmt evaluate results={results}"
    if not tables:
        if measured:
            metrics = ",".join(sorted(measured))
            raise MissingError(
                f"{results}: rows were measured, and no table was made of them yet; "
                f"`{command} metric=[{metrics}]` makes them"
            )
        raise MissingError(f"{results}: no results are here yet; run `xnmt train` first")
    tables.sort(key=lambda path: path.stem not in measured)  # stable: by name within each part
    texts = [path.read_text(encoding="utf-8").rstrip() for path in tables]
    newest = max((_newest(results, metric) for metric in measured), default=0)
    older = [
        path.stem
        for path in tables
        if path.stem not in measured
        # A metric's other tables, such as fidelity_kl, are made with its own.
        and any(f"_{name}_" in f"_{path.stem}_" for name in entries("analyses"))
        and path.stat().st_mtime_ns < newest
    ]
    if older:
        texts.append(
            f"Older than the newest row: {', '.join(sorted(older))}; `{command} analysis=[...]` "
            "makes such tables anew."
        )
    if stale := sorted(name for name in measured if _is_older(results, name)):
        texts.append(
            f"Rows of {', '.join(stale)} were measured since; "
            f"`{command} metric=[{','.join(stale)}]` makes their tables anew."
        )
    if gone := sorted({path.stem for path in tables} & {*entries("metrics")} - measured):
        names = ", ".join(f"{name}{TABLE}" for name in gone)
        texts.append(f"Tables of rows that are no longer here: {names}. Delete or measure again.")
    return "\n\n".join(texts)


def _newest(results: Path, metric: str) -> int:
    """Return when a metric's newest row was written, in nanoseconds; 0 without rows."""
    rows = (results / ROWS / metric).glob("*.json")
    return max((path.stat().st_mtime_ns for path in rows), default=0)


def _is_older(results: Path, metric: str) -> bool:
    """Return whether a metric has no table, or one that is older than one of its rows."""
    table = results / f"{metric}{TABLE}"
    newest = _newest(results, metric)
    return newest > 0 and (not table.exists() or table.stat().st_mtime_ns < newest)
