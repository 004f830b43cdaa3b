"""A judge that sees no rule."""

import numpy as np
import pytest

from xnmt_bench.judges.unigram import unigram


def test_unigram_by_hand():
    # Counts 2, 1, 0 and one more for each of the three labels.
    log_p, first = unigram(np.array([0, 1, 0]), np.array([0, 1, 2, 0]), 3)
    assert np.exp(log_p) == pytest.approx([3 / 6, 2 / 6, 1 / 6, 3 / 6])
    assert first.tolist() == [True, False, False, True]
