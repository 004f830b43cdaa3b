"""Decisions without one word of their context, by each removal.

Shapes: N decisions, W words of each, G decisions that are computed together, B rows, P of them side
by side with others, X pieces of a side, D states, V target vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.device import device_of
from xnmt_bench.judges.masked import masked_states, room
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batching import alike
from xnmt_bench.nmt.distributions import beside_references
from xnmt_bench.nmt.switched import SOURCE, TARGET, Removal

NO_WORD = (-1, -1)  # side and place of none


@dataclass(frozen=True)
class Erasure:
    """Words that are erased from the context of a decision, one at a time.

    Attributes:
        index: of the sentence in its split.
        step: the decision.
        words: side and place of each word; every decision has as many.
    """

    index: int
    step: int
    words: Sequence[tuple[int, int]]


@torch.no_grad()
def erase_words(
    model: NMTModel, split: EncodedSplit, erasures: Sequence[Erasure], removal: Removal
) -> np.ndarray:
    """Return the total variation between distributions with and without each word, (N, W).

    Args:
        model: the system.
        split: its sentences.
        erasures: which words of which decisions.
        removal: what replaces a word's embeddings; see `nmt.switched`.
    """
    source_N = split.source.lengths()[[e.index for e in erasures]]
    lengths_N2 = np.stack([source_N, [e.step + 1 for e in erasures]], axis=1)
    variants, device = 1 + len(erasures[0].words), device_of(model)

    def read(positions: int) -> tuple[list[int], Tensor]:
        order, variation = list[int](), list[Tensor]()
        most = lambda s, t: positions // (variants * max(s, t))  # noqa: E731
        for group in alike(lengths_N2, most, device):
            order += group
            variation += _compare(model, split, [erasures[n] for n in group], removal)
        return order, torch.cat(variation)

    order, variation = room().tried(device, read)
    return variation.unflatten(0, (len(order), -1))[np.argsort(order)].cpu().numpy()


def _compare(
    model: NMTModel, split: EncodedSplit, erasures: Sequence[Erasure], removal: Removal
) -> list[Tensor]:
    """Return total variations of some decisions' words, in parts."""
    # Of each decision a row with all words, and then a row without each.
    rows = [(e, word) for e in erasures for word in (NO_WORD, *e.words)]
    states_BD = masked_states(
        model,
        split,
        np.array([e.index for e, _ in rows]),
        np.array([e.step for e, _ in rows]),
        _keep_others(SOURCE, [(split.source.words(e.index), word) for e, word in rows]),
        _keep_others(TARGET, [(split.target.words(e.index)[: e.step], word) for e, word in rows]),
        removal,
    )
    states_GWD = states_BD.unflatten(0, (len(erasures), -1))
    changed_GWD = states_GWD[:, 1:]
    reference_B = np.repeat(np.arange(len(erasures)), changed_GWD.shape[1])
    pairs = beside_references(model, changed_GWD.flatten(0, 1), states_GWD[:, 0], reference_B)
    return [0.5 * (p_PV - whole_PV).abs().sum(-1) for p_PV, whole_PV in pairs]


def _keep_others(side: int, rows: Sequence[tuple[np.ndarray, tuple[int, int]]]) -> np.ndarray:
    """Return the places of one side that stay, -1 for none, (B, X).

    Args:
        side: which one.
        rows: of each row the word of each piece, and side and place of the word that it lacks.
    """
    kept_BX = np.full((len(rows), max(len(word_X) for word_X, _ in rows)), -1)
    for kept_X, (word_X, (erased_side, place)) in zip(kept_BX, rows, strict=True):
        erased_X = (word_X == place) & (side == erased_side)
        kept_X[: len(word_X)] = np.where(erased_X, -1, np.arange(len(word_X)))
    return kept_BX
