"""The predictions of a trained proxy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from proxies.base import Proxy
from proxies.data import PackedRules, loader

BATCH = 2048  # decisions that are scored together


@torch.no_grad()
def _log_q(
    proxy: Proxy, decisions: PackedRules, batch_size: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield labels (B,) and log Q (B, V) of decisions, batch by batch, so that V is never kept."""
    # Dropout off, or two scorings of one proxy would differ.
    device = next(proxy.eval().parameters()).device
    for batch in loader(decisions, batch_size):
        label_B, words_BK, positions_BK = (column.to(device) for column in batch)
        yield label_B, proxy(words_BK, positions_BK).log_softmax(-1)


def log_likelihoods(
    proxy: Proxy, decisions: PackedRules, batch_size: int = BATCH
) -> tuple[np.ndarray, np.ndarray]:
    """Log Q of each decision's label, and whether Q's first choice is the label; shapes (N,)."""
    scores, correct = [], []
    for label_B, log_q_BV in _log_q(proxy, decisions, batch_size):
        scores.append(log_q_BV.gather(-1, label_B[:, None])[:, 0].cpu())
        correct.append((log_q_BV.argmax(-1) == label_B).cpu())
    # In double before they are summed over a test set.
    return torch.cat(scores).double().numpy(), torch.cat(correct).numpy()


def distributions(
    proxy: Proxy, decisions: PackedRules, batch_size: int = BATCH
) -> Iterator[tuple[slice, Tensor]]:
    """Log Q of the whole vocabulary, (B, V), of some decisions at a time, and which they are."""
    start = 0
    for label_B, log_q_BV in _log_q(proxy, decisions, batch_size):
        yield slice(start, start + len(label_B)), log_q_BV
        start += len(label_B)
