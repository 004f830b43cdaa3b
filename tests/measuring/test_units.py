"""Units: in memory, on disk, and what two test sets share."""

import numpy as np
import pyarrow as pa
import pytest

from xnmt_bench.errors import StoreError
from xnmt_bench.measuring.units import Bounds, Units, by_unit, common, side_by_side
from xnmt_bench.parquet import write_table


def units(numbers=(2, 3, 5), test_set="en-de test 0123"):
    """Whole numbers and others, as metrics have them."""
    number_U = np.asarray(numbers, dtype=np.int64)
    columns = {"counts": 10 * number_U, "sums": -number_U / 7}
    return Units(test_set, number_U, columns)


@pytest.fixture
def saved_units(tmp_path):
    path = tmp_path / "units.parquet"
    units(range(0, 900, 3)).save(path)
    return path


def test_what_was_saved_comes_back(saved_units):
    loaded, expected = Units.load(saved_units), units(range(0, 900, 3))
    assert len(loaded) == len(expected) == 300
    assert loaded.test_set == expected.test_set
    np.testing.assert_array_equal(loaded.number_U, expected.number_U)
    assert list(loaded.columns) == ["counts", "sums"]
    for name in loaded.columns:
        assert loaded[name].dtype == expected[name].dtype
        np.testing.assert_array_equal(loaded[name], expected[name])


def test_no_unit_at_all_comes_back(tmp_path):
    units([]).save(tmp_path / "none.parquet")
    assert len(Units.load(tmp_path / "none.parquet")) == 0


@pytest.mark.parametrize("damage", ["missing", "truncated", "altered"])
def test_damaged_units_are_named(saved_units, damage):
    content = saved_units.read_bytes()
    if damage == "missing":
        saved_units.unlink()
    elif damage == "truncated":
        saved_units.write_bytes(content[:-20])
    else:  # in the middle of a column
        place = len(content) // 4
        saved_units.write_bytes(
            content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        )
    with pytest.raises(StoreError) as error:
        Units.load(saved_units)
    assert str(saved_units) in str(error.value)


@pytest.mark.parametrize("table", [pa.table({"unit": [1]}), pa.table({"other": [1]})])
def test_another_table_is_no_units(tmp_path, table):
    write_table(table, tmp_path / "other.parquet")
    with pytest.raises(StoreError, match=r"other\.parquet: not a table of units"):
        Units.load(tmp_path / "other.parquet")


def test_a_column_has_one_row_a_unit():
    with pytest.raises(ValueError, match="'short' has another number of rows than there are units"):
        Units("a test set", np.arange(3), {"whole": np.ones(3), "short": np.ones(2)})


@pytest.mark.parametrize("numbers", [[1, 1, 2], [2, 1, 3], [3, 2, 1], [-1, 0, 1]])
def test_units_ascend_and_are_there_once(tmp_path, numbers):
    with pytest.raises(ValueError, match="should ascend from 0 without repeats"):
        Units("a test set", np.array(numbers), {})
    table = pa.table({"unit": numbers}).replace_schema_metadata({"test_set": "a"})
    write_table(table, tmp_path / "units.parquet")
    with pytest.raises(StoreError, match=r"units\.parquet: the numbers of units should ascend"):
        Units.load(tmp_path / "units.parquet")


def test_an_infinite_value_is_no_sum():
    with pytest.raises(ValueError, match="'sums' is infinite in unit 4"):
        Units("a test set", np.array([2, 4]), {"sums": np.array([0, -np.inf])})


BOUNDS = {
    "rows": Bounds(1),
    "right *": Bounds(0, 1, of="of *"),
    "tau": Bounds(-1, 1, of="rows"),
    "weight": Bounds(0, 1, nan=True),
}


@pytest.mark.parametrize(
    ("column", "values", "problem"),
    [
        ("rows", [1, 0], "column 'rows' of unit 7 is too small"),
        ("right a", [3, 3.1], "column 'right a' of unit 7 is too large"),
        ("right b", [0, 0], "no column 'of b', which bounds 'right b'"),
        ("tau", [-2.1, 4], "column 'tau' of unit 3 is too small"),
        ("weight", [np.nan, 1.2], "column 'weight' of unit 7 is too large"),
        ("other", [np.nan, 1], "column 'other' has no number in unit 3"),
    ],
)
def test_a_value_that_is_not_possible_is_named(column, values, problem):
    possible = {
        "rows": np.array([2, 4]),
        "of a": np.array([3, 3]),
        "right a": np.array([0.0, 3 + 1e-9]),  # a sum in floating point
        "tau": np.array([-2.0, 4.0]),
        "weight": np.array([np.nan, 1.0]),
        "other": np.array([-7.0, 1e9]),
        "answers": np.array(["yes", ""], dtype=object),
    }
    Units("a", np.array([3, 7]), possible).require_within(BOUNDS)
    with pytest.raises(ValueError, match=problem):
        Units("a", np.array([3, 7]), possible | {column: np.array(values)}).require_within(BOUNDS)


def test_some_of_the_units():
    part = units().take(np.array([5, 2, 8]))
    assert part.number_U.tolist() == [2, 5]
    assert part["counts"].tolist() == [20, 50]
    assert part.test_set == units().test_set


def test_what_test_sets_share():
    assert common([units([1, 2, 3]), units([2, 3, 9]), units([2, 3])]).tolist() == [2, 3]
    assert common([units([1, 2]), units([3])]) is None
    assert common([units(), units(test_set="another")]) is None


def test_rows_are_summed_by_their_unit():
    numbers = np.array([4, 1, 4, 4])
    unit_numbers, sums = by_unit(
        numbers, x=np.array([1.0, 2, 3, 4]), y=np.array([True, False, 1, 0])
    )
    assert unit_numbers.tolist() == [1, 4]
    assert {name: column.tolist() for name, column in sums.items()} == {
        "x": [2, 8],
        "y": [0, 2],
        "rows": [1, 3],
    }


def test_rows_of_a_unit_stand_side_by_side():
    numbers = np.array([4, 1, 4, 4])
    tables = side_by_side(numbers, np.array([1, 4]), {"x": np.array([1.0, 2, 3, 4])})
    expected = {"x0": [2, 1], "x1": [np.nan, 3], "x2": [np.nan, 4]}
    assert list(tables) == list(expected)
    for name, column in expected.items():
        np.testing.assert_array_equal(tables[name], column)
