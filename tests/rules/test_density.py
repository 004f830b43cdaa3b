"""Unique rules and their frequencies."""

from collections import Counter

import numpy as np
import pytest

from xnmt_bench.rules.density import Density, density
from xnmt_bench.rules.table import Rules


def rules(source, prefix, label):
    zeros = np.zeros(len(label), dtype=np.int64)
    wide = [np.stack([np.asarray(x), np.asarray(x) * 0 + 7], axis=1) for x in (source, prefix)]
    return Rules(zeros, zeros, np.asarray(label), zeros * 0.5, *wide, *wide)


def test_by_hand():
    shards = [rules([3, 3, -1], [4, 4, 9], [5, 5, 5]), rules([3, -1, 9], [4, 9, -1], [6, 5, 5])]
    # (3, 4 -> 5) and (-1, 9 -> 5) twice each, (3, 4 -> 6) and (9, -1 -> 5) once.
    assert density(shards, 6) == Density(6, 4, (2, 2, 0, 0, 0))


@pytest.mark.parametrize("in_memory", [10**6, 997, 50])
def test_the_paper_bins_in_any_memory(in_memory):
    rng = np.random.default_rng(0)
    columns = np.floor(rng.gamma(0.3, 6.0, (3, 20_000))).astype(np.int64)
    shards = [rules(*columns[:, start : start + 777]) for start in range(0, 20_000, 777)]
    counts = np.asarray(list(Counter(map(tuple, columns.T)).values()))
    edges = ((0, 1), (1, 10), (10, 100), (100, 1000), (1000, np.inf))
    expected = tuple(int(((counts > low) & (counts <= high)).sum()) for low, high in edges)
    assert min(expected) > 0
    assert density(shards, 20_000, in_memory) == Density(20_000, len(counts), expected)


def test_no_rule_at_all():
    assert density([], 0) == Density(0, 0, (0, 0, 0, 0, 0))


def test_ids_of_large_vocabularies_do_not_collide():
    large = 2**20
    counted = density([rules([large, large + 1], [0, 0], [large, large])], 2)
    assert counted.unique == 2
