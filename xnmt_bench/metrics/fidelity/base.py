"""Base: the NMT model itself as the proxy, seeing only the rule (Li et al. 2020, section 3.3)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.corpora.encoded import EncodedSplit
from xnmt_bench.corpora.subwords import SPECIAL
from xnmt_bench.nmt.base import OUTPUT_ROWS, NMTModel
from xnmt_bench.nmt.switched import SwitchedOff
from xnmt_bench.rules.table import Rules


def base_log_likelihoods(
    model: NMTModel, split: EncodedSplit, rules: Rules, positions: int = 8192
) -> tuple[np.ndarray, np.ndarray]:
    """Log P(label) with the embedding of every word outside the rule zeroed; BOS and EOS stay.

    Args:
        model: the NMT model.
        split: the sentences the rules are of.
        rules: the decisions.
        positions: decoder positions computed at once; bounds memory, never changes a result.

    Returns:
        Log-likelihoods and whether the label is the model's first choice, shapes (N,).
    """
    scores, correct = np.empty(len(rules)), np.empty(len(rules), dtype=bool)
    for rows, states in base_states(model, split, rules, positions):
        labels = torch.as_tensor(rules.label_N[rows].astype(np.int64), device=states.device)
        scores[rows] = model.log_probability(states, labels).double().cpu().numpy()
        correct[rows] = (model.decide(states) == labels).cpu().numpy()
    return scores, correct


def base_distributions(
    model: NMTModel, split: EncodedSplit, rules: Rules, positions: int = 8192
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """The same of the whole vocabulary: some decisions, and log P (B, V) of each."""
    for rows, states in base_states(model, split, rules, positions):
        # In parts, since logits are as wide as the vocabulary.
        for start in range(0, len(rows), OUTPUT_ROWS):
            part = slice(start, start + OUTPUT_ROWS)
            with torch.no_grad():
                yield rows[part], model.logits(states[part]).log_softmax(-1)


@torch.no_grad()
def base_states(
    model: NMTModel, split: EncodedSplit, rules: Rules, positions: int
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """Decisions that are computed together, and the states (B, D) that saw their rules alone."""
    order = np.argsort(split.number)
    index_N = order[np.searchsorted(split.number, rules.sentence_N, sorter=order)]
    for rows in _groups(split.source.lengths()[index_N], rules.step_N, positions):
        group = rules.take(rows)
        places = (group.source_position_NK, group.prefix_position_NK)
        yield rows, masked_states(model, split, index_N[rows], group.step_N, *places)


def masked_states(
    model: NMTModel,
    split: EncodedSplit,
    index_B: np.ndarray,
    step_B: np.ndarray,
    source_position_BK: np.ndarray,
    prefix_position_BK: np.ndarray,
) -> Tensor:
    """The model's states (B, D) at some steps, with all but some words switched off.

    Args:
        model: the NMT model.
        split: its sentences.
        index_B: the sentence of each decision.
        step_B: its step.
        source_position_BK: the source words that stay, -1 for none.
        prefix_position_BK: the prefix words that stay.
    """
    longest = int(step_B.max()) + 1
    batch = model.collate([(split.source[i], split.target[i][:longest]) for i in index_B])
    keep_source_BS = _keep(batch.source_BS, source_position_BK)
    # Decoder input j + 1 is target word j; input 0 is BOS.
    input_position_BK = prefix_position_BK + (prefix_position_BK >= 0)
    keep_input_BT = _keep(batch.input_BT, input_position_BK)
    states_BTD = SwitchedOff(model, batch).states(keep_source_BS, keep_input_BT)
    rows = torch.arange(len(index_B), device=states_BTD.device)
    return states_BTD[rows, torch.as_tensor(step_B.astype(np.int64), device=states_BTD.device)]


def _groups(lengths: np.ndarray, steps: np.ndarray, positions: int) -> Iterator[np.ndarray]:
    """Decisions of like step and source length, together up to a number of positions."""
    order = np.lexsort((lengths, steps))
    start = 0
    for i in range(1, len(order) + 1):
        if i == len(order) or (i - start + 1) * (steps[order[i]] + 1) > positions:
            yield order[start:i]
            start = i


def _keep(ids: Tensor, positions_NK: np.ndarray) -> Tensor:
    """1 where an id is special or at one of its row's positions, else 0."""
    keep = torch.isin(ids, torch.tensor(SPECIAL, device=ids.device))
    places = torch.as_tensor(positions_NK.astype(np.int64), device=ids.device)
    row, place = torch.nonzero(places >= 0, as_tuple=True)
    keep[row, places[row, place]] = True
    return keep
