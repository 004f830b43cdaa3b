"""Words erased at random, and the probabilities of labels without them.

One row, with some words erased, gives all steps of a sentence.

Shapes: N decisions, R rows of a sentence, S source ids, T target ids.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.corpora.vocabulary.subwords import SPECIAL
from xnmt_bench.device import READ_BYTES, Room
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.batching import alike
from xnmt_bench.nmt.switched import Removal, SwitchedOff

OFF = 0.5  # the chance of each word to be erased
Erased = tuple[np.ndarray, np.ndarray]
"""The words that each row of a sentence erases, (R, S) and (R, T)."""


def erased_words(source_S: np.ndarray, target_T: np.ndarray, samples: int, seed: int) -> Erased:
    """Return True for the words that each row erases, (R, S) and (R, T); EOS stays.

    Args:
        source_S: ids of one sentence.
        target_T: ids of its target.
        samples: rows, R.
        seed: of the draws, which follow from it and the ids.
    """
    # From the ids, so that a sentence's draws depend on no other.
    rng = np.random.default_rng([seed, *source_S.tolist(), *target_T.tolist()])
    return tuple(  # type: ignore[return-value]
        (rng.random((samples, len(ids))) < OFF) & ~np.isin(ids, SPECIAL)
        for ids in (source_S, target_T)
    )


@torch.no_grad()
def probabilities(
    model: NMTModel, batch: Batch, erased: Sequence[Erased], removal: Removal
) -> list[np.ndarray]:
    """Return P(label) of each sentence's rows at each step, (R, T).

    Args:
        model: the system.
        batch: sentences with their labels.
        erased: of each, the words that its rows erase, as many rows of each.
        removal: what they are replaced by.
    """
    samples, lengths = len(erased[0][0]), batch.on_host.lengths

    def read(positions: int) -> dict[int, Tensor]:
        p_of: dict[int, Tensor] = {}
        for group in alike(lengths, lambda s, t: positions // (samples * max(s, t))):
            part_erased = [erased[b] for b in group]
            p_BRT = _probabilities(model, batch.take(group), part_erased, removal, positions)
            p_of |= zip(group, p_BRT, strict=True)
        return p_of

    p_of = Room(None, cpu=4096, each=READ_BYTES).tried(batch.source_BS.device, read)
    # Copied once all is computed, since a copy waits for the device.
    return [p_of[b][:, :steps].cpu().numpy() for b, (_, steps) in enumerate(lengths.tolist())]


def _probabilities(
    model: NMTModel, batch: Batch, erased: Sequence[Erased], removal: Removal, positions: int
) -> Tensor:
    """Return P(label) of sentences of like length, (B, R, T)."""
    switched, device = SwitchedOff(model, batch, removal), batch.source_BS.device
    widths = batch.source_BS.shape[1], batch.target_BT.shape[1]
    keep_NS, keep_NT = (
        # Padding may be kept: it changes nothing.
        np.concatenate([np.pad(~x, ((0, 0), (0, width - x.shape[1]))) for x in side])
        for side, width in zip(zip(*erased, strict=True), widths, strict=True)
    )
    # Decoder input 0 is BOS, input j + 1 is target word j.
    keep_NT = np.pad(keep_NT[:, :-1], ((0, 0), (1, 0)), constant_values=True)
    row_N = np.repeat(np.arange(len(erased)), len(keep_NS) // len(erased))
    assert batch.labels_BT is not None, "the system decides before words are erased"
    parts = []
    # One row at least, however long the sentence is.
    together = max(1, positions // widths[1])
    for start in range(0, len(row_N), together):
        rows, keep_RS, keep_RT = (
            torch.as_tensor(x[start : start + together], device=device)
            for x in (row_N, keep_NS, keep_NT)
        )
        encoding = switched.encoding(rows, keep_RS)
        encoding = switched.reading(encoding, rows, keep_RT)
        states = model.decode(encoding, switched.inputs(rows, keep_RT))
        parts.append(model.log_probability(states, batch.labels_BT[rows]).exp())
    return torch.cat(parts).unflatten(0, (len(erased), -1))
