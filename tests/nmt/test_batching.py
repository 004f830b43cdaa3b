"""Batches by length, and a schedule that is what it says."""

import numpy as np
import pytest
import torch

from xnmt_bench.fitting import inverse_square_root
from xnmt_bench.nmt.batching import PairBatches, buckets


@pytest.mark.parametrize("tokens", [1, 30, 200, 10_000])
def test_every_pair_is_in_one_batch_within_the_limit(tokens):
    rng = np.random.default_rng(0)
    lengths, order = rng.integers(1, 40, 500), rng.permutation(500)
    batches = buckets(lengths, order, tokens)
    assert sorted(np.concatenate(batches)) == list(range(500))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= tokens


def test_no_pairs_no_batches():
    assert buckets(np.zeros(0, dtype=int), np.zeros(0, dtype=int), 100) == []


def test_epochs_differ_and_come_again(transformer):
    split = transformer.texts.split("train")

    def order(seed, epoch):
        return [batch.tolist() for batch in PairBatches(split, 500, seed, epoch).indices]

    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(0, 1)
    assert order(0, 0) != order(1, 0)


def test_little_is_padding(transformer):
    batches = list(PairBatches(transformer.texts.split("train"), 800, 0))
    real = sum(int(b.target_mask_BT.sum()) for b in batches)
    assert real / sum(b.target_BT.numel() for b in batches) > 0.85


def test_inverse_square_root_climbs_and_falls():
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
    factor = inverse_square_root(optimizer, 100)["scheduler"].lr_lambdas[0]
    assert [factor(0), factor(49), factor(99), factor(399)] == [0.01, 0.5, 1.0, 0.5]
