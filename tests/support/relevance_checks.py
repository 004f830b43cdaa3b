"""Relevance against a slow computation of it."""

import torch

from xnmt_bench.rules.topk import top_k

TOLERANCE = 1e-9  # of the greatest |phi|


def assert_same(actual, expected):
    """Equal relative to the greatest value, absent in the same places, and of the same top-k."""
    assert torch.equal(actual.isnan(), expected.isnan())
    greatest = torch.nan_to_num(expected).abs().max()
    assert torch.nan_to_num(actual - expected).abs().max() <= TOLERANCE * greatest
    for k in (1, 3):
        rows = [x.flatten(0, 1).numpy() for x in (actual, expected)]
        chosen = [top_k(x, ~torch.isnan(torch.from_numpy(x)).numpy(), k)[0] for x in rows]
        assert (chosen[0] == chosen[1]).all()


def visible(batch, source, prefix):
    """Marks what the steps cannot see, independently of the project's own way."""
    for b in range(len(source)):
        s, t = int(batch.source_mask_BS[b].sum()), int(batch.target_mask_BT[b].sum())
        source[b, t:], source[b, :, s:] = torch.nan, torch.nan
        for step in range(source.shape[1]):
            prefix[b, step, step:] = torch.nan
        prefix[b, t:] = torch.nan
    return source, prefix
