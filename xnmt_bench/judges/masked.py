"""The NMT model with all words but a rule's switched off (Li et al. 2020, section 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import SPECIAL
from xnmt_bench.device import READ_BYTES, Room, device_of, keeps_in_cache
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.switched import Removal, SwitchedOff
from xnmt_bench.rules.table import Rules

VERSION = 3  # of all that is computed here; raise it where the same rules give other numbers
POSITIONS = 8192  # of the decoder, computed at once on the CPU
# On the CPU, rows that are computed together, sorted by length, are decoded in this many parts: a
# short row is then not padded to the longest. A GPU decodes them all in one.
PARTS = 4


def base_log_likelihoods(
    model: NMTModel,
    split: EncodedSplit,
    rules: Rules,
    positions: int | None = None,
    removal: Removal = "zero",
    decide: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return log P(label) with the embedding of every word outside the rule replaced.

    BOS and EOS stay.

    Args:
        model: the NMT model.
        split: the sentences the rules are of.
        rules: N decisions.
        positions: decoder positions computed at once; None for what memory holds. It never changes
            a result.
        removal: what replaces an embedding; see `nmt.switched`.
        decide: from states (B, D) and labels (B,), choices and log P(label), (B,) each; the model's
            own, if not given.

    Returns:
        Log-likelihoods, and whether the label is the first choice; (N,) each.
    """
    decide = decide or model.decide

    @torch.no_grad()
    def score(positions: int) -> tuple[np.ndarray, np.ndarray]:
        log_p_N, correct_N = np.empty(len(rules)), np.empty(len(rules), dtype=bool)
        parts: list[tuple[np.ndarray, Tensor, Tensor]] = []
        for rows, states in base_states(model, split, rules, positions, removal):
            labels = torch.as_tensor(rules.label_N[rows].astype(np.int64), device=states.device)
            choices, log_p = decide(states, labels)
            parts.append((rows, log_p, choices == labels))
        # Copied once all is computed, since a copy waits for the device.
        for rows, log_p, correct in parts:
            log_p_N[rows], correct_N[rows] = log_p.cpu().numpy(), correct.cpu().numpy()
        return log_p_N, correct_N

    return room(positions).tried(device_of(model), score)


def room(positions: int | None = None) -> Room:
    """Return how many decoder positions are computed at once."""
    return Room(positions, cpu=POSITIONS, each=READ_BYTES)


def base_distributions(
    model: NMTModel,
    split: EncodedSplit,
    rules: Rules,
    positions: int,
    removal: Removal = "zero",
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """Yield rows of some rules at a time, and log P of the whole vocabulary, (B, V).

    The arguments are those of `base_log_likelihoods`.
    """
    for rows, states in base_states(model, split, rules, positions, removal):
        # In parts, since logits are as wide as the vocabulary.
        part_rows = model.output_rows(states)
        for start in range(0, len(rows), part_rows):
            part = slice(start, start + part_rows)
            with torch.no_grad():
                log_p_BV = model.logits(states[part]).log_softmax(-1)
            yield rows[part], log_p_BV


def base_states(
    model: NMTModel, split: EncodedSplit, rules: Rules, positions: int, removal: Removal
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """Yield rows of rules that are computed together, and the states (B, D) that saw only them."""
    # Rules name sentences by their number in the corpus, the split by its own index.
    order = np.argsort(split.number)
    # Training sentences are in the order of explanation, so their numbers are not sorted.
    index_N = order[np.searchsorted(split.number, rules.sentence_N, sorter=order)]
    for rows in _groups(split.source.lengths()[index_N], index_N, rules.step_N, positions):
        group = rules.take(rows)
        places = (group.source_position_NK, group.prefix_position_NK)
        with torch.no_grad():
            states_BD = masked_states(model, split, index_N[rows], group.step_N, *places, removal)
        yield rows, states_BD


def masked_states(
    model: NMTModel,
    split: EncodedSplit,
    index_B: np.ndarray,
    step_B: np.ndarray,
    source_position_BK: np.ndarray,
    prefix_position_BK: np.ndarray,
    removal: Removal = "zero",
) -> Tensor:
    """Return the model's states (B, D) at some steps, with all but some words switched off.

    Decisions of one sentence that keep the same source words share an encoding, and those that keep
    the same prefix words too are steps of one row.

    Args:
        model: the NMT model.
        split: its sentences.
        index_B: the sentence of each decision.
        step_B: its step.
        source_position_BK: the source words that stay, -1 for none.
        prefix_position_BK: the prefix words that stay.
        removal: what replaces the embedding of the others.
    """
    # Sorted, since a set of words is the same in any order.
    sources = np.column_stack([index_B, np.sort(source_position_BK)])
    # Many decisions keep the same words at small k, and each distinct choice is computed once.
    first_R, row_B = _distinct(np.column_stack([sources, np.sort(prefix_position_BK)]))
    first_E, source_R = _distinct(sources[first_R])
    length_R = np.zeros(len(first_R), dtype=np.int64)
    # `maximum.at`, since a row may hold several decisions; plain indexing would keep the last
    # alone.
    np.maximum.at(length_R, row_B, step_B + 1)
    pairs = [
        (split.source[i], split.target[i][:length])
        for i, length in zip(index_B[first_R], length_R, strict=True)
    ]
    batch = model.collate(pairs)

    def on_device(numbers: np.ndarray) -> Tensor:
        return torch.as_tensor(numbers, device=batch.source_BS.device)

    switched, first = SwitchedOff(model, batch, removal), on_device(first_E)
    # Listed on the host, which then asks the device for nothing.
    host = batch.on_host
    keep_ES = _keep(host.source_BS[first_E], source_position_BK[first_R[first_E]])
    encoding_E = switched.encoding(first, on_device(keep_ES))
    # Decoder input j + 1 is target word j; input 0 is BOS.
    input_position_RK = prefix_position_BK[first_R] + (prefix_position_BK[first_R] >= 0)
    keep_input_RT = on_device(_keep(host.input_BT, input_position_RK))
    parts: list[tuple[np.ndarray, Tensor]] = []
    count = PARTS if keeps_in_cache(batch.source_BS.device) else 1
    for part in np.array_split(np.argsort(length_R, kind="stable"), count):
        if len(part):
            # No row is read farther than the longest of its part.
            members, longest = on_device(part), int(length_R[part].max())
            inputs = switched.inputs(members, keep_input_RT[members, :longest])
            # The encoding was made for other rows, so it gets these rows' layout of decoder inputs.
            read = encoding_E.select(on_device(source_R[part]))
            read = read.reading(switched.layout.input_BT[members, :longest])
            read = switched.reading(read, members, keep_input_RT[members, :longest])
            decisions = np.flatnonzero(np.isin(row_B, part))
            place_R = np.zeros(len(first_R), dtype=np.int64)
            place_R[part] = np.arange(len(part))
            steps = on_device(place_R[row_B[decisions]]), on_device(step_B[decisions])
            parts.append((decisions, model.decode_steps(read, inputs, *steps)))
    # Parts were taken by length; this is the way back to the caller's order.
    order = np.argsort(np.concatenate([decisions for decisions, _ in parts]))
    return torch.cat([states for _, states in parts])[on_device(order)]


def _distinct(rows_NX: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first row of each distinct value, and for every row which of them it equals."""
    return np.unique(rows_NX, axis=0, return_index=True, return_inverse=True)[1:]


def _groups(
    lengths: np.ndarray, sentences: np.ndarray, steps: np.ndarray, positions: int
) -> Iterator[np.ndarray]:
    """Yield decisions of one sentence and of like length together, up to a number of positions."""
    order = np.lexsort((steps, sentences, lengths))
    start = longest = 0
    for i, row in enumerate(order):
        longest = max(longest, int(steps[row]) + 1, int(lengths[row]))
        # A single decision longer than the bound still has to be computed.
        if i > start and (i + 1 - start) * longest > positions:
            yield order[start:i]
            start, longest = i, max(int(steps[row]) + 1, int(lengths[row]))
    if len(order):
        yield order[start:]


def _keep(ids_RX: np.ndarray, places_RK: np.ndarray) -> np.ndarray:
    """Return True where an id is special or at one of its row's places (-1 for none)."""
    keep_RX = np.isin(ids_RX, SPECIAL)
    row, place = np.nonzero(places_RK >= 0)
    keep_RX[row, places_RK[row, place]] = True
    return keep_RX
