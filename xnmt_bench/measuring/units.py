"""Units: what a bootstrap resamples, with the sums that each contributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import numpy as np
import pyarrow as pa

from xnmt_bench.errors import StoreError
from xnmt_bench.parquet import read_table, write_table

NUMBER, TEST_SET = "unit", "test_set"
# By which sums in floating point may miss a bound, for each one of it.
ROUNDING = 1e-4


@dataclass(frozen=True)
class Bounds:
    """Between what the values of a column lie.

    Attributes:
        low, high: the least and the greatest value for each one of the column `of`.
        of: another column of the units; without one, the bounds are those of a unit.
        nan: whether a unit may have no value.
    """

    low: float = -np.inf
    high: float = np.inf
    of: str = ""
    nan: bool = False


@dataclass(frozen=True)
class Units:
    """One row a unit: a sentence, or what depends on each other, such as a source's variants.

    Attributes:
        test_set: names corpus and split, so that units of two measurements can be told the same.
        number_U: of each unit in its test set, from 0, ascending.
        columns: sufficient statistics by name, (U,) each; NaN where a unit has no value.

    Raises:
        ValueError: columns of unlike lengths, numbers that do not ascend, or an infinite value.
    """

    test_set: str
    number_U: np.ndarray
    columns: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        # Checked at once, since numpy would broadcast a column of one row over all units.
        if wrong := [n for n, column in self.columns.items() if len(column) != len(self)]:
            raise ValueError(f"column {wrong[0]!r} has another number of rows than there are units")
        number_U = self.number_U
        # Rows are paired by place once both hold the same numbers.
        if (number_U < 0).any() or (number_U[1:] <= number_U[:-1]).any():
            raise ValueError("the numbers of units should ascend from 0 without repeats")
        for name, column_U in self.columns.items():
            if column_U.dtype.kind == "f" and (infinite_U := np.isinf(column_U)).any():
                number = self._first(infinite_U)
                raise ValueError(f"column {name!r} is infinite in unit {number}")

    def __len__(self) -> int:
        return len(self.number_U)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    def require_within(self, bounds: Mapping[str, Bounds]) -> None:
        """Check that values are possible.

        Args:
            bounds: by the name of a column, or by its beginning and `*`, which means the same text
                in `of`. A column without bounds has a finite number in every unit, or texts.

        Raises:
            ValueError: a value is out of its bounds, or is missing.
        """
        for name, column_U in self.columns.items():
            bound = _bounds_of(name, bounds)
            if bound.of and bound.of not in self.columns:
                raise ValueError(f"no column {bound.of!r}, which bounds {name!r}")
            if column_U.dtype.kind not in "biuf":  # texts, as people's answers are
                continue
            if not bound.nan and (missing_U := np.isnan(column_U)).any():
                raise ValueError(f"column {name!r} has no number in unit {self._first(missing_U)}")
            of_U = self[bound.of].astype(np.float64) if bound.of else np.ones(len(self))
            slack_U = ROUNDING * np.maximum(1, of_U)
            # Comparisons with NaN are False.
            if np.isfinite(bound.low) and (out_U := column_U < bound.low * of_U - slack_U).any():
                raise ValueError(f"column {name!r} of unit {self._first(out_U)} is too small")
            if np.isfinite(bound.high) and (out_U := column_U > bound.high * of_U + slack_U).any():
                raise ValueError(f"column {name!r} of unit {self._first(out_U)} is too large")

    def _first(self, marked_U: np.ndarray) -> int:
        """Return the number of the first unit that is marked."""
        return int(self.number_U[marked_U][0])

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
            StoreError: the file is not readable, or its units are none.
        """
        table = read_table(path)
        test_set = (table.schema.metadata or {}).get(TEST_SET.encode())
        if NUMBER not in table.column_names or test_set is None:
            raise StoreError(f"{path}: not a table of units")
        # Not without a copy, since booleans are packed in bits.
        arrays = {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
        number_U = arrays.pop(NUMBER)
        if number_U.dtype.kind not in "iu":
            raise StoreError(f"{path}: the column {NUMBER!r} should hold whole numbers")
        try:
            return cls(test_set.decode(), number_U, arrays)
        except ValueError as error:
            raise StoreError(f"{path}: {error}") from None


def _bounds_of(name: str, bounds: Mapping[str, Bounds]) -> Bounds:
    """Return the bounds of a column, those of its first fitting name or beginning."""
    for pattern, bound in bounds.items():
        beginning, star, _ = pattern.partition("*")
        if name == pattern or (star and name.startswith(beginning)):
            return replace(bound, of=bound.of.replace("*", name.removeprefix(beginning)))
    return Bounds()


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


def side_by_side(
    numbers_N: np.ndarray, number_U: np.ndarray, columns: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the rows of each unit side by side, NaN where a unit has no more of them.

    Args:
        numbers_N: the unit of each row.
        number_U: the units, ascending.
        columns: of the rows, (N,), by the beginning of their names.

    Returns:
        Columns (U,) of the units' first rows, `name0`, of their second ones, `name1`, and so on.
    """
    order_N = np.argsort(numbers_N, kind="stable")
    unit_N = np.searchsorted(number_U, numbers_N[order_N])
    # How many rows of the same unit stand before each.
    place_N = np.arange(len(unit_N)) - np.searchsorted(unit_N, unit_N)
    tables: dict[str, np.ndarray] = {}
    for name, column_N in columns.items():
        values_UM = np.full((len(number_U), int(place_N.max(initial=-1)) + 1), np.nan)
        values_UM[unit_N, place_N] = column_N[order_N]
        tables |= {f"{name}{place}": values_U for place, values_U in enumerate(values_UM.T)}
    return tables
