"""Units: what a bootstrap resamples, with the sums that each contributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import pyarrow as pa

from xnmt_bench.errors import StoreError
from xnmt_bench.parquet import read_table, write_table

NUMBER, TEST_SET = "unit", "test_set"


@dataclass(frozen=True)
class Units:
    """One row a unit: a sentence, or what depends on each other, such as a source's variants.

    Attributes:
        test_set: names corpus and split, so that units of two measurements can be told the same.
        number_U: of each unit in its test set, ascending.
        columns: sufficient statistics by name, (U,) each.
    """

    test_set: str
    number_U: np.ndarray
    columns: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        # Checked at once, since numpy would broadcast a column of one row over all units.
        if wrong := [n for n, column in self.columns.items() if len(column) != len(self)]:
            raise ValueError(f"column {wrong[0]!r} has not one row a unit")

    def __len__(self) -> int:
        return len(self.number_U)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    def take(self, numbers: np.ndarray) -> Units:
        """Return the units of the given numbers."""
        rows = np.isin(self.number_U, numbers)
        columns = {name: column[rows] for name, column in self.columns.items()}
        return Units(self.test_set, self.number_U[rows], columns)

    def save(self, path: Path) -> None:
        """Write the units as Parquet."""
        table = pa.table({NUMBER: self.number_U, **self.columns})
        # In the schema and not a column: it is the same for every unit.
        write_table(table.replace_schema_metadata({TEST_SET: self.test_set}), path)

    def equals(self, other: Units) -> bool:
        """Return whether two tables have the same units and numbers; NaN equals NaN."""
        return (
            self.test_set == other.test_set
            and np.array_equal(self.number_U, other.number_U)
            and self.columns.keys() == other.columns.keys()
            and all(_same(self[name], other[name]) for name in self.columns)
        )

    @classmethod
    def load(cls, path: Path) -> Units:
        """Read what `save` wrote.

        Raises:
            StoreError: the file is not readable.
        """
        table = read_table(path)
        test_set = (table.schema.metadata or {}).get(TEST_SET.encode())
        if NUMBER not in table.column_names or test_set is None:
            raise StoreError(f"{path}: no table of units")
        # Not without a copy, since booleans are packed in bits.
        arrays = {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
        return cls(test_set.decode(), arrays.pop(NUMBER), arrays)


def _same(first_U: np.ndarray, second_U: np.ndarray) -> bool:
    """Return whether two columns are equal; what has no value in both is equal too."""
    if first_U.shape != second_U.shape:
        return False
    # Only NaN differs from itself.
    return bool(((first_U == second_U) | ((first_U != first_U) & (second_U != second_U))).all())


def common(units: Sequence[Units]) -> np.ndarray | None:
    """Return the numbers of shared units; None where test sets differ or share none."""
    if len({u.test_set for u in units}) != 1:
        return None
    # `intersect1d` sorts, and `number_U` ascends, so rows of two units agree.
    numbers = reduce(np.intersect1d, (u.number_U for u in units))
    return numbers if len(numbers) else None


def by_unit(
    numbers_N: np.ndarray, **columns: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Sum columns (N,) over the rows of each number; the column `rows` counts them.

    Returns:
        The numbers (U,), and sums (U,) by name.
    """
    # `bincount` over the inverse sums each column in one pass, without sorting the rows.
    number_U, member_N = np.unique(numbers_N, return_inverse=True)
    sums = {name: np.bincount(member_N, column) for name, column in columns.items()}
    return number_U, sums | {"rows": np.bincount(member_N)}
