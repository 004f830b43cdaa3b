"""Errors come back from another process with file, line and each problem."""

import pickle
from pathlib import Path

import pytest

from xnmt_bench.errors import ConfigError, DataError, MissingError, NotApplicable


@pytest.mark.parametrize(
    "error",
    [
        DataError(Path("text.de"), 3, "no text"),
        DataError("text.de", None, "no text"),
        ConfigError(["k: too small", "k: odd"]),
        MissingError("no model is here"),
        NotApplicable("no gold"),
    ],
)
def test_pickled_and_back(error):
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back)) == (type(error), str(error))
    assert getattr(back, "problems", None) == getattr(error, "problems", None)
