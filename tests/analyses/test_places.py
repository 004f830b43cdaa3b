"""Places, and what agreement of two rankings means."""

import numpy as np
import pytest

from xnmt_bench.analyses.agreement import kendall_tau, places


def test_tau_by_hand():
    first = np.array([[1.0, 2.0, 3.0]] * 4).T
    second = np.array([[1, 2, 3], [3, 2, 1], [2, 1, 3], [1, 1, 1]], dtype=float).T
    assert kendall_tau(first, second) == pytest.approx([1, -1, 1 / 3, 0])


def test_places_begin_at_one_and_ties_share():
    scores = np.array([[3.0, 1.0, 2.0], [5.0, 5.0, 1.0]]).T
    assert places(scores).T.tolist() == [[3, 1, 2], [2, 2, 1]]
