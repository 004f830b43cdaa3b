"""The predictions of a trained proxy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from proxies.base import Proxy
from proxies.data import PackedRules, batch_decisions

BATCH = 2048  # decisions that are scored together


@torch.no_grad()
def log_likelihoods(
    proxy: Proxy, decisions: PackedRules, batch_size: int = BATCH
) -> tuple[np.ndarray, np.ndarray]:
    """Log Q of each decision's label, and whether Q's first choice is the label; shapes (N,)."""
    scores, correct = [], []
    for label_B, words_BK, positions_BK in _batches(proxy, decisions, batch_size):
        choices_B, log_q_B = proxy.decide(words_BK, positions_BK, label_B)
        scores.append(log_q_B.cpu())
        correct.append((choices_B == label_B).cpu())
    # In double before they are summed over a test set.
    return torch.cat(scores).double().numpy(), torch.cat(correct).numpy()


@torch.no_grad()
def distributions(
    proxy: Proxy, decisions: PackedRules, batch_size: int = BATCH
) -> Iterator[tuple[slice, Tensor]]:
    """Log Q of the whole vocabulary, (B, V), of some decisions at a time, and which they are."""
    start = 0
    for label_B, words_BK, positions_BK in _batches(proxy, decisions, batch_size):
        rows = slice(start, start + len(label_B))
        yield rows, proxy.log_distributions(words_BK, positions_BK)
        start += len(label_B)


def _batches(
    proxy: Proxy, decisions: PackedRules, batch_size: int
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield labels, words and positions on the proxy's device."""
    # Dropout off, or two scorings of one proxy would differ.
    device = next(proxy.eval().parameters()).device
    for label_B, words_BK, positions_BK in batch_decisions(decisions, batch_size):
        yield label_B.to(device), words_BK.to(device), positions_BK.to(device)
