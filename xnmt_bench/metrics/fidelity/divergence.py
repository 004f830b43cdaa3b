"""Disagreement as KL divergence (Li et al. 2020, footnote 3), of proxies that learn to lessen it.

The metric is the least KL divergence from the NMT model's distribution that any Q reaches. So Q
learns from that distribution over the whole vocabulary, and not from the model's first choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from proxies.data import Decisions, unpack
from proxies.training import DecisionBatch, Lessons, ProxyTrainingOptions
from xnmt_bench.device import device_of, exact
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.pipeline.proxy import LESSONS, OwnProxy, held_out
from xnmt_bench.rules.states import write_states

TOGETHER = 1024  # states that the output layer is asked of at once


class DistilledProxy(OwnProxy):
    """A proxy that learns the NMT model's distributions from an explainer's rules."""

    @property
    def name(self) -> str:
        """The instantiation's name in results."""
        return f"kl_{self.family}"

    def learned_from(self) -> dict[str, object]:
        """The explainer's rules, as the paper's proxies; another loss."""
        return super().learned_from() | {"loss": "kl"}

    def lessons(self, folder: Path, training: ProxyTrainingOptions) -> Lessons:
        """The rules with the model's distributions, which its states give batch by batch."""
        decisions, starts = self.write_decisions(folder)
        explained, count = self.rules.explained, self.train_sentences
        split, model = (
            explained.decisions.contexts("train", self.rules.learned_from),
            explained.system.model,
        )
        states_ND = write_states(model, split, count, folder / f"{LESSONS}.states")
        cut = held_out(starts, training)
        rows, seed, size = np.arange(len(decisions)), self._config.seed, training.batch_size

        def train(epoch: int) -> Iterable[DecisionBatch]:
            order = np.random.default_rng([seed, epoch]).permutation(cut)
            return _Distributions(model, decisions, states_ND, order, size)

        return Lessons(train, lambda: _Distributions(model, decisions, states_ND, rows[cut:], size))


class _Distributions:
    """Batches of the model's distributions (B, V) with words and positions."""

    def __init__(
        self, model: NMTModel, decisions: Decisions, states_ND: np.ndarray, order: np.ndarray,
        batch_size: int,
    ) -> None:  # fmt: skip
        self._model, self._decisions, self._states = model, decisions, states_ND
        self._order, self._batch_size = order, batch_size

    def __len__(self) -> int:
        return -(-len(self._order) // self._batch_size)

    def __iter__(self) -> Iterator[DecisionBatch]:
        for start in range(0, len(self._order), self._batch_size):
            rows = self._order[start : start + self._batch_size]
            _, words_BK, positions_BK = unpack(self._decisions[rows])
            log_p_BV = log_distributions(self._model, self._states[rows])
            yield log_p_BV.exp(), words_BK, positions_BK


@torch.no_grad()
def log_distributions(model: NMTModel, states_BD: np.ndarray) -> Tensor:
    """The model's log-probabilities (B, V) at some states, on its device."""
    states = torch.as_tensor(np.array(states_BD), device=device_of(model))
    parts = states.split(TOGETHER)
    return torch.cat([model.logits(part).log_softmax(-1) for part in parts])


def divergences(
    model: NMTModel, states_ND: np.ndarray, predicted: Iterable[tuple[np.ndarray | slice, Tensor]]
) -> np.ndarray:
    """KL(P || Q) in nats of each decision, over the whole vocabulary; shape (N,).

    Args:
        model: the NMT model, whose distribution is P.
        states_ND: its states at the decisions.
        predicted: some decisions at a time, and a predictor's log Q (B, V) of them.
    """
    kl_N = np.empty(len(states_ND))
    for rows, log_q_BV in predicted:
        log_p_BV = log_distributions(model, states_ND[rows])
        log_p_BV, log_q_BV = (x.to(exact(x.device)) for x in (log_p_BV, log_q_BV))
        terms_BV = log_p_BV.exp() * (log_p_BV - log_q_BV)
        # 0 log 0 is 0, also where a word is impossible to both.
        kl_N[rows] = torch.nan_to_num(terms_BV, nan=0.0).sum(1).cpu().numpy()
    return kl_N
