"""How a sentence's steps change with its context.

Shapes: as in `nmt.base`; B contexts of one sentence, T steps of the current sentence, K pairs of
contexts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.device import exact
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Forced, Ids


@dataclass(frozen=True)
class StepChanges:
    """What each step of a sentence is in one context, compared with another one.

    Attributes:
        log_ratio_KT: log P(y_t in the first context) less that in the second: P-CXMI, in nats
            (Fernandes et al. 2023).
        kl_KT: Kullback-Leibler divergence of the second distribution from the first, in nats.
        changed_KT: whether the most probable id is another one.
        right_KT: whether y_t is the most probable id in the first context.
    """

    log_ratio_KT: np.ndarray
    kl_KT: np.ndarray
    changed_KT: np.ndarray
    right_KT: np.ndarray


@torch.no_grad()
def compare_contexts(
    model: NMTModel, contexts: Sequence[tuple[Ids, Ids]], pairs: Sequence[tuple[int, int]]
) -> StepChanges:
    """Compare the distributions of a sentence's steps between its contexts.

    Args:
        model: the system.
        contexts: source and target ids of one sentence in each of its contexts.
        pairs: two indices of contexts each; of a context with itself everything is exactly 0.
    """
    batch = model.collate(contexts)
    now_BT = batch.current_BT
    states_BTD = torch.stack(
        [states[now] for states, now in zip(Forced(model, batch).states_BTD, now_BT, strict=True)]
    )
    # The current sentence's own ids are the same in every context.
    labels_T = batch.target_BT[0][now_BT[0]]
    first_K, second_K = torch.tensor(list(pairs), device=labels_T.device).T
    parts = []
    # Some steps at a time: their distributions are as wide as the vocabulary.
    together = max(1, model.output_rows(states_BTD[:, 0]) // len(states_BTD))
    for states, labels in zip(
        states_BTD.split(together, dim=1), labels_T.split(together), strict=True
    ):
        # In double: differences of like distributions are small.
        log_p_BTV = model.logits(states).to(exact(states.device)).log_softmax(-1)
        of_label_BT = log_p_BTV.gather(-1, labels.expand(len(log_p_BTV), -1)[..., None])[..., 0]
        best_BT = log_p_BTV.argmax(-1)
        kl = [_divergence(log_p_BTV[a], log_p_BTV[b]) for a, b in pairs]
        numbers = (
            of_label_BT[first_K] - of_label_BT[second_K],
            torch.stack(kl),
            best_BT[first_K] != best_BT[second_K],
            best_BT[first_K] == labels,
        )
        parts.append([x.cpu().numpy() for x in numbers])
    return StepChanges(*(np.concatenate(x, axis=1) for x in zip(*parts, strict=True)))


def _divergence(log_p_TV: Tensor, log_q_TV: Tensor) -> Tensor:
    """Return KL(p, q) in nats, (T,); words that the model never writes add nothing."""
    ratio_TV = (log_p_TV - log_q_TV).masked_fill(log_p_TV == -torch.inf, 0.0)
    return (log_p_TV.exp() * ratio_TV).sum(-1)
