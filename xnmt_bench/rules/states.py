"""The model's states at decisions: a distribution over the vocabulary each, at a fraction of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import current_start
from xnmt_bench.device import Room, device_of
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.rules.extract import batches


@torch.no_grad()
def write_states(model: NMTModel, split: EncodedSplit, sentences: int, path: Path) -> np.ndarray:
    """Return the states of a split's first sentences at each step, whole context seen.

    The output layer turns them into the model's distributions, which are never stored.

    Args:
        model: the system.
        split: its sentences.
        sentences: how many of them, from the first.
        path: where the states go.

    Returns:
        States (N, D), memory-mapped, of the decisions in the order of the rules.
    """

    def written(size: int) -> np.ndarray:
        decisions = int(_ends(split, sentences)[-1])
        states_ND: np.memmap | None = None
        for rows, states_RD in iterate_states(model, split, sentences, size):
            if states_ND is None:
                shape = (decisions, states_RD.shape[-1])
                # On disk: the states of a training split may not fit into memory.
                states_ND = np.memmap(path, "<f4", "w+", shape=shape)
            # In the order of the rules, with which they are read; batches come by length.
            states_ND[rows] = states_RD.cpu().numpy()
        assert states_ND is not None, "a split has a sentence"
        states_ND.flush()
        return states_ND

    return states_room().tried(device_of(model), written)


@torch.no_grad()
def iterate_states(
    model: NMTModel, split: EncodedSplit, sentences: int, batch_tokens: int
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """Yield the states of some decisions at a time, and the places of these decisions.

    Args:
        model: the system.
        split: its sentences.
        sentences: how many of them, from the first.
        batch_tokens: target ids that are computed together.

    Yields:
        Places (R,) in the order of the rules, and states (R, D) on the model's device.
    """
    # Sentences come by length; their places here are those of their rules.
    ends_B = _ends(split, sentences)
    for indices, batch in batches(model, split, range(sentences), batch_tokens):
        lengths = batch.current_BT.sum(1).tolist()
        places = [
            np.arange(ends_B[i] - length, ends_B[i])
            for i, length in zip(indices, lengths, strict=True)
        ]
        yield np.concatenate(places), model.states(batch)[batch.current_BT]


def states_room() -> Room:
    """Return how many target ids are computed together, by what there is room for."""
    return Room(None, cpu=1024, each=2**20)


def _ends(split: EncodedSplit, sentences: int) -> np.ndarray:
    """Return the place behind each sentence's last decision, (B,)."""
    starts = [current_start(split.target[i]) for i in range(sentences)]
    # A context's steps are not explained and have no place.
    return np.cumsum(split.target.lengths()[:sentences] - starts)
