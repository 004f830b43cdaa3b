"""The model's states at decisions: a distribution over the vocabulary each, at a fraction of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from xnmt_bench.corpora.encoded import EncodedSplit
from xnmt_bench.corpora.subwords import current_start
from xnmt_bench.device import Room, device_of
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.rules.extract import batches


@torch.no_grad()
def write_states(
    model: NMTModel,
    split: EncodedSplit,
    sentences: int,
    path: Path,
    batch_tokens: int | None = None,
) -> np.ndarray:
    """Return the states of a split's first sentences at each step, whole context seen.

    The output layer turns them into the model's distributions, which are never stored.

    Args:
        model: the system.
        split: its sentences.
        sentences: how many of them, from the first.
        path: where the states go.
        batch_tokens: target ids that are computed together; what there is room for, if not given.

    Returns:
        States (N, D), memory-mapped, of the decisions in the order of the rules.
    """
    starts = [current_start(split.target[i]) for i in range(sentences)]
    ends_B = np.cumsum(split.target.lengths()[:sentences] - starts)

    def written(size: int) -> np.ndarray:
        states_ND: np.memmap | None = None
        for indices, batch in batches(model, split, range(sentences), size):
            found_BTD, current_BT = model.states(batch).cpu(), batch.current_BT.cpu()
            if states_ND is None:
                shape = (int(ends_B[-1]), found_BTD.shape[-1])
                states_ND = np.memmap(path, "<f4", "w+", shape=shape)
            for b, i in enumerate(indices):
                own_TD = found_BTD[b, current_BT[b]].numpy()
                states_ND[ends_B[i] - len(own_TD) : ends_B[i]] = own_TD
        assert states_ND is not None, "a split has a sentence"
        states_ND.flush()
        return states_ND

    return Room(batch_tokens, cpu=1024, each=2**20).tried(device_of(model), written)
