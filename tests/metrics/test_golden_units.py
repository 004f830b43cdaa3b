"""The numbers of many metrics on small systems stay what they were."""

import json

import numpy as np
import pytest

from support import golden_units
from support.configurations import SYSTEMS
from xnmt_bench.measuring.units import Units


@pytest.mark.parametrize("name", SYSTEMS)
def test_units_are_those_that_were_written_down(name, workplace):
    """Another processor rounds otherwise, but moves no number by more than 1e-5 of it.

    A rank correlation alone jumps, where two words change their places that are equal but for
    rounding: by some hundredths of a sum of 70.
    """
    expected = json.loads(golden_units.GOLDEN.read_text(encoding="utf-8"))[name]
    measured = golden_units.digest_rows(name, workplace)
    assert list(measured) == list(expected)
    for row, columns in expected.items():
        if columns == golden_units.NOT_APPLICABLE:
            assert measured[row] == columns, row
        else:
            assert list(measured[row]) == list(columns), row
            for column, value in columns.items():
                least = 0.1 if column.startswith("rank ") else 1e-4
                assert measured[row][column] == pytest.approx(value, rel=1e-4, abs=least), row


def test_a_digest_depends_on_each_value_and_on_the_order():
    columns = [np.array([1.0, 2, 3]), np.array([1.0, 2, 4]), np.array([2.0, 1, 3])]
    digests = [golden_units.digest(Units("toy test", np.arange(3), {"x": x}))["x"] for x in columns]
    assert len(set(digests)) == 3
