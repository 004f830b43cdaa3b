"""How far a step's distribution moves when parts of its words' embeddings are zeroed.

Shapes: N decisions of one sentence, S source ids, T target ids, D embedding, V vocabulary; K ways
to keep words, R samples of each.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.device import Room
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.switched import is_special

Keep = tuple[np.ndarray, np.ndarray]


@torch.no_grad()
def distances(
    model: NMTModel, batch: Batch, steps: range, keep: Keep, samples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return Hellinger distances from the distributions that all words give.

    Each dimension of a word's embedding is kept or zeroed by a draw of its own. BOS, EOS and other
    special symbols are kept whole. A step has draws of its own, which all ways to keep words share.

    Args:
        model: the system.
        batch: one sentence.
        steps: of the N decisions, counted from 0.
        keep: the chance of each dimension of a word to be kept, of source words (K, N, S) and of
            target words (K, N, T); of the latter those before the step count.
        samples: draws of each decision.
        seed: of the draws, which follow from it, the step and the sentence's ids.

    Returns:
        The distance with no word at all, (N,), and of each draw, (K, N, R).
    """
    device, layout = batch.source_BS.device, batch.layout
    embedded = model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)
    special = is_special(batch.source_BS)[0], is_special(batch.input_BT)[0]
    whole_TD = model.decode(model.encode(embedded[0], layout), embedded[1])[0]
    # Special symbols stay, as they do where words are kept by chance.
    none = [x * mask[None, :, None] for x, mask in zip(embedded, special, strict=True)]
    nothing_TD = model.decode(model.encode(none[0], layout), none[1])[0]
    ids = [*batch.source_BS[0].tolist(), *batch.target_BT[0].tolist()]

    def masks(step: int, n: int) -> list[Tensor]:
        """Return which dimensions are kept of both sides, (K * R, X, D)."""
        # By step, so that a decision's draws do not depend on which others are measured.
        rng = np.random.default_rng([seed, step, *ids])
        # Decoder input 0 is BOS, input j + 1 is target word j.
        inputs_KT = np.pad(keep[1][:, n, :-1], ((0, 0), (1, 0)), constant_values=1.0)
        kept = []
        for chance_KX, x_1XD, special_X in zip(
            (keep[0][:, n], inputs_KT), embedded, special, strict=True
        ):
            draws_RXD = rng.random((samples, *x_1XD.shape[1:]), dtype=np.float32)
            # The same draws for every way to keep words, so that their differences are of the
            # chances.
            kept_KRXD = torch.as_tensor(draws_RXD < chance_KX[:, None, :, None], device=device)
            kept.append(kept_KRXD.flatten(0, 1) | special_X[:, None])
        return kept

    def read(positions: int) -> list[np.ndarray]:
        together = max(1, positions // batch.target_BT.shape[1])
        by_step = []
        for n, step in enumerate(steps):
            # One step's distribution at a time: they are as wide as the vocabulary.
            whole_V = model.logits(whole_TD[step]).softmax(-1)
            parts = []
            for source_RSD, input_RTD in zip(
                *(x.split(together) for x in masks(step, n)), strict=True
            ):
                rows = torch.zeros(len(source_RSD), dtype=torch.long, device=device)
                encoding = model.encode(embedded[0] * source_RSD, layout.select(rows))
                # No row is read farther than the step.
                encoding = encoding.reading(encoding.layout.input_BT[:, : step + 1])
                states = model.decode(encoding, (embedded[1] * input_RTD)[:, : step + 1])
                at_step_RD = states[:, step]
                parts += [
                    hellinger(model.logits(part).softmax(-1), whole_V).cpu().numpy()
                    for part in at_step_RD.split(model.output_rows(at_step_RD))
                ]
            by_step.append(np.concatenate(parts))
        return by_step

    moved_NX = np.stack(Room(None, cpu=4096, each=2**18).tried(device, read))
    at = torch.tensor([*steps], device=device)
    nothing_NV, whole_NV = (model.logits(x[at]).softmax(-1) for x in (nothing_TD, whole_TD))
    moved_KNR = moved_NX.reshape(len(steps), -1, samples).swapaxes(0, 1)
    return hellinger(nothing_NV, whole_NV).cpu().numpy(), moved_KNR


def hellinger(first_V: Tensor, second_V: Tensor) -> Tensor:
    """Return the Hellinger distance of distributions over the last axis, from 0 to 1."""
    return (0.5 * (first_V.sqrt() - second_V.sqrt()).square().sum(-1)).sqrt()
