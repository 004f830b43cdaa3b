"""Words erased at random, and the probabilities of labels without them.

One row, with some words erased, gives all steps of a sentence.

Shapes: N decisions, R rows of a sentence, S source ids, T target ids.
"""

from __future__ import annotations

import numpy as np
import torch

from xnmt_bench.corpora.vocabulary.subwords import SPECIAL
from xnmt_bench.device import Room
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.switched import Removal, SwitchedOff

OFF = 0.5  # the chance of each word to be erased


def erased_words(
    source_S: np.ndarray, target_T: np.ndarray, samples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
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
    model: NMTModel, batch: Batch, erased: tuple[np.ndarray, np.ndarray], removal: Removal
) -> np.ndarray:
    """Return P(label) of each row at each step, (R, T).

    Args:
        model: the system.
        batch: one sentence with its labels.
        erased: of each row, the words that are erased, (R, S) and (R, T).
        removal: what they are replaced by.
    """
    switched, device = SwitchedOff(model, batch, removal), batch.source_BS.device
    keep_RS, keep_RT = (torch.as_tensor(~x, device=device) for x in erased)
    # Decoder input 0 is BOS, input j + 1 is target word j.
    keep_RT = torch.nn.functional.pad(keep_RT[:, :-1], (1, 0), value=True)
    labels_BT = batch.labels_BT
    assert labels_BT is not None, "the system decides before words are erased"

    def read(positions: int) -> list[np.ndarray]:
        # One row at least, however long the sentence is.
        together = max(1, positions // labels_BT.shape[1])
        parts = []
        for rows in torch.arange(len(keep_RS), device=device).split(together):
            zeros = torch.zeros_like(rows)
            encoding = switched.encoding(zeros, keep_RS[rows])
            encoding = switched.reading(encoding, zeros, keep_RT[rows])
            states = model.decode(encoding, switched.inputs(zeros, keep_RT[rows]))
            log_p_RT = model.log_probability(states, labels_BT.expand(len(rows), -1))
            parts.append(log_p_RT.exp().cpu().numpy())
        return parts

    return np.concatenate(Room(None, cpu=4096, each=2**18).tried(device, read))
