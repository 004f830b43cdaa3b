"""Log-probabilities of given targets. N pairs; other shapes as in `nmt.base`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from xnmt_bench.device import device_of
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch, Ids, Layout, segments
from xnmt_bench.nmt.batching import buckets


@torch.no_grad()
def log_probability(
    model: NMTModel, pairs: Sequence[tuple[Ids, Ids]], batch_tokens: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return log P of each target's current sentence, EOS included, given all before it.

    A pair that is longer than the system reads has no number (NaN).

    Pairs of one source that meet in a batch share its encoding.

    Args:
        model: the system.
        pairs: source and target ids, closed by EOS.
        batch_tokens: rows times longest pair of a batch.

    Returns:
        Sums of natural logarithms (N,), and of how many ids each is the sum (N,).
    """
    lengths = np.array([max(len(x), len(y)) for x, y in pairs], dtype=np.int64)
    log_p_N, ids_N = np.full(len(pairs), np.nan), np.zeros(len(pairs), dtype=np.int64)
    device = device_of(model)
    most = [longest or np.inf for longest in (model.longest_source, model.longest_target)]
    readable = [len(x) <= most[0] and len(y) <= most[1] for x, y in pairs]
    for group in buckets(lengths, np.flatnonzero(readable), batch_tokens):
        batch = Batch.collate([pairs[n] for n in group]).to(device)
        # The variants of a contrastive group share their source, which is encoded once.
        sources, row_of_B = batch.source_BS.unique(dim=0, return_inverse=True)
        # As many rows as there are sources; the encoding is given its real inputs before it is
        # decoded.
        inputs = batch.layout.input_BT[: len(sources)]
        alone = Layout(segments(sources), inputs, model.draft(sources))
        encoding = model.encode(model.embed_source(sources), alone).select(row_of_B)
        input_BTD = model.embed_target(batch.input_BT)
        states_BTD = model.decode(encoding.reading(batch.layout.input_BT), input_BTD)
        # A context's sentences are given and not scored.
        now_BT = batch.current_BT
        log_p = model.log_probability(states_BTD[now_BT], batch.target_BT[now_BT])
        now_BT = now_BT.cpu()
        # Summed in double: the terms of a long target are many.
        log_p_BT = torch.zeros(now_BT.shape, dtype=torch.float64)
        log_p_BT[now_BT] = log_p.cpu().double()
        log_p_N[group], ids_N[group] = log_p_BT.sum(1).numpy(), now_BT.sum(1).numpy()
    return log_p_N, ids_N
