"""How far a step's distribution moves when parts of its words' embeddings are zeroed.

Shapes: N decisions of many sentences, S source ids, T decoder inputs, D embedding, V vocabulary; K
ways to keep words, R samples of each; M = N * K * R rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.corpora.vocabulary.subwords import SPECIAL
from xnmt_bench.device import READ_BYTES, Room
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.batching import alike
from xnmt_bench.nmt.distributions import beside_references


@dataclass(frozen=True)
class Decision:
    """A step, and how probably each dimension of its words' embeddings is kept.

    Attributes:
        sentence: its place in the batch.
        step: counted from 0.
        source_KS: chances of source words.
        target_KT: chances of target words, of which those before the step count.
    """

    sentence: int
    step: int
    source_KS: np.ndarray
    target_KT: np.ndarray


@torch.no_grad()
def distances(
    model: NMTModel, batch: Batch, decisions: Sequence[Decision], samples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return Hellinger distances from the distributions that all words give.

    Each dimension of a word's embedding is kept or zeroed by a draw of its own. BOS, EOS and other
    special symbols are kept whole. A step has draws of its own, which all ways to keep words share.

    Args:
        model: the system.
        batch: the sentences.
        decisions: of them.
        samples: draws of each decision.
        seed: of the draws, which follow from it, the step and the sentence's ids.

    Returns:
        The distance with no word at all, (N,), and of each draw, (N, K, R).
    """
    sentence_N, step_N = np.array([(d.sentence, d.step) for d in decisions]).T
    lengths_N2 = np.stack([batch.on_host.lengths[sentence_N, 0], step_N + 1], axis=1)
    rows_each, device = len(decisions[0].source_KS) * samples, batch.source_BS.device

    def read(positions: int) -> tuple[Tensor, Tensor, list[int]]:
        whole_ND, nothing_ND = _ends(model, batch, sentence_N, step_N, positions)
        ends = beside_references(model, nothing_ND, whole_ND, np.arange(len(decisions)))
        nothing, moved, order = [hellinger(*pair) for pair in ends], list[Tensor](), list[int]()
        # Decisions of one step are of sources of any length, so that all are padded anyway.
        for group in alike(lengths_N2, lambda s, t: positions // (rows_each * max(s, t)), device):
            part, members = batch.take(sentence_N[group].tolist()), [decisions[n] for n in group]
            states_MD = _states(model, part, members, samples, seed, positions)
            references = np.repeat(group, rows_each)
            pairs = beside_references(model, states_MD, whole_ND, references)
            moved += [hellinger(*pair) for pair in pairs]
            order += group
        return torch.cat(nothing), torch.cat(moved), order

    room = Room(None, cpu=4096, each=READ_BYTES)
    nothing_N, moved_M, order = room.tried(device, read)
    # Copied once all is computed, since a copy waits for the device.
    moved_NKR = moved_M.cpu().numpy().reshape(len(order), -1, samples)[np.argsort(order)]
    return nothing_N.cpu().numpy(), moved_NKR


def _ends(
    model: NMTModel, batch: Batch, sentence_N: np.ndarray, step_N: np.ndarray, positions: int
) -> Tensor:
    """Return the states of decisions with all words and with none, (2, N, D)."""
    parts, order, device = list[Tensor](), list[int](), batch.source_BS.device
    for group in alike(batch.on_host.lengths, lambda s, t: positions // (2 * max(s, t))):
        part = batch.take(group)
        # Special symbols stay, as they do where words are kept by chance.
        embedded = model.embed_source(part.source_BS), model.embed_target(part.input_BT)
        ids = part.on_host.source_BS, part.on_host.input_BT
        specials = (torch.as_tensor(np.isin(x, SPECIAL)[..., None], device=device) for x in ids)
        both = [torch.cat([x, x * mask]) for x, mask in zip(embedded, specials, strict=True)]
        layout = part.layout.map(lambda x: torch.cat([x, x]))
        states_RTD = model.decode(model.encode(both[0], layout), both[1])
        members = [n for n, sentence in enumerate(sentence_N.tolist()) if sentence in group]
        places = [group.index(sentence_N[n]) for n in members]
        place_N, at_N = torch.as_tensor(np.stack([places, step_N[members]]), device=device)
        parts.append(states_RTD.unflatten(0, (2, -1))[:, place_N, at_N])
        order += members
    return torch.cat(parts, dim=1)[:, torch.as_tensor(np.argsort(order), device=device)]


def _states(
    model: NMTModel,
    part: Batch,
    decisions: Sequence[Decision],
    samples: int,
    seed: int,
    positions: int,
) -> Tensor:
    """Return the states (M, D) of decisions of like length, with their words kept in part.

    Args:
        model: the system.
        part: the sentence of each decision.
        decisions: as many.
        samples: of each way to keep words.
        seed: of the draws.
        positions: of the decoder, computed in one pass.
    """
    device, longest = part.source_BS.device, max(d.step for d in decisions) + 1
    embedded = model.embed_source(part.source_BS), model.embed_target(part.input_BT[:, :longest])
    widths = [x_NXD.shape[-1] for x_NXD in embedded]
    drawn = [_draw(part, n, d, widths, samples, seed) for n, d in enumerate(decisions)]
    changed = []
    for x_NXD, kept in zip(embedded, zip(*drawn, strict=True), strict=True):
        # What padding is multiplied by changes nothing.
        mask_NYXD = np.zeros((len(kept), len(kept[0]), *x_NXD.shape[1:]), dtype=bool)
        for n, kept_YXD in enumerate(kept):
            mask_NYXD[n, :, : kept_YXD.shape[1]] = kept_YXD
        changed.append((x_NXD[:, None] * torch.as_tensor(mask_NYXD, device=device)).flatten(0, 1))
    row_M = torch.arange(len(part.source_BS), device=device)
    row_M = row_M.repeat_interleave(len(changed[0]) // len(row_M))
    step_M = torch.as_tensor([d.step for d in decisions], device=device)[row_M]
    states = []
    together = max(1, positions // longest)  # one row at least, however long it is
    for rows, steps, source_RSD, input_RTD in zip(
        *(x.split(together) for x in (row_M, step_M, *changed)), strict=True
    ):
        encoding = model.encode(source_RSD, part.layout.select(rows))
        # No row is read farther than the last of the steps.
        encoding = encoding.reading(encoding.layout.input_BT[:, :longest])
        states_RTD = model.decode(encoding, input_RTD)
        states.append(states_RTD[torch.arange(len(rows), device=device), steps])
    return torch.cat(states)


def _draw(
    part: Batch, row: int, decision: Decision, widths: Sequence[int], samples: int, seed: int
) -> list[np.ndarray]:
    """Return which dimensions are kept of source words and of decoder inputs, (K * R, X, D) each.

    Args:
        part: sentences.
        row: that of the decision.
        decision: with its chances.
        widths: of the embeddings on both sides.
        samples: of each way to keep words.
        seed: of the draws.
    """
    chances = decision.source_KS, decision.target_KT
    host, lengths = part.on_host, [chance_KX.shape[1] for chance_KX in chances]
    ids = host.source_BS[row, : lengths[0]], host.target_BT[row, : lengths[1]]
    # By step, so that a decision's draws do not depend on which others are measured.
    rng = np.random.default_rng([seed, decision.step, *ids[0].tolist(), *ids[1].tolist()])
    source_KS, target_KT = (
        np.where(np.isin(x, SPECIAL), 1.0, chance_KX)
        for x, chance_KX in zip(ids, chances, strict=True)
    )
    # Decoder input 0 is BOS, input j + 1 is target word j.
    input_KT = np.pad(target_KT[:, :-1], ((0, 0), (1, 0)), constant_values=1.0)
    kept = []
    for chance_KX, width, visible in zip(
        (source_KS, input_KT), widths, (lengths[0], decision.step + 1), strict=True
    ):
        # All words are drawn for, so that a draw does not depend on how many are seen.
        draws_RXD = rng.random((samples, chance_KX.shape[1], width), dtype=np.float32)[:, :visible]
        # The same draws for every way to keep words, so that their differences are of the chances.
        kept.append((draws_RXD < chance_KX[:, None, :visible, None]).reshape(-1, visible, width))
    return kept


def hellinger(first_V: Tensor, second_V: Tensor) -> Tensor:
    """Return the Hellinger distance of distributions over the last axis, from 0 to 1."""
    return (0.5 * (first_V.sqrt() - second_V.sqrt()).square().sum(-1)).sqrt()
