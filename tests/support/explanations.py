"""An explanation of made-up words."""

import torch

from xnmt_bench.explainers.base import Explanation


def make_explanation(words, steps, prefix=True):
    earlier = torch.ones(steps, steps, dtype=torch.bool).tril(-1)
    return Explanation(
        ["▁", *(f"▁source{i}" for i in range(1, words))],
        [f"▁target{i}" for i in range(steps)],
        [f"▁target{i}" for i in range(steps)],
        torch.linspace(0.1, 1, steps),
        torch.arange(words * steps).view(steps, words) - words * steps / 2,
        torch.rand(steps, steps).masked_fill(~earlier, torch.nan) if prefix else None,
    )
