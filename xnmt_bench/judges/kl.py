"""Disagreement as KL divergence (Li et al. 2020, footnote 3), of proxies that learn to lessen it.

The paper's measure is the least KL divergence from the NMT model's distribution that any Q reaches.
So Q learns from that distribution over the whole vocabulary, and not from the model's first choice.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proxies.data import Batches, unpack
from proxies.lessons import DecisionBatch, Lessons, ProxyTrainingOptions
from proxies.narrowed import WIDEST, Pieces
from xnmt_bench.device import device_of, exact
from xnmt_bench.judges.trained_proxy import LESSONS, NUMBERS, RuleProxy, held_out
from xnmt_bench.measuring.metric import Column
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.rules.states import write_states

KL_NOTE = (
    "KL divergence in nats of a proxy's distribution from the NMT model's, over the whole "
    "vocabulary; the proxy learnt the model's distribution. With its 95 % bootstrap interval over "
    "sentences; lower is more faithful."
)
STATES_AT_ONCE = 1024  # that the output layer turns into distributions


class Distilled(RuleProxy):
    """The configured proxy, which learns the model's distributions from the explainer's rules."""

    name = "kl"
    papers = ("li2020",)
    heading = "KL"
    cannot_see = (
        "what own proxies cannot see: it learns from the same rules, and whole distributions "
        "in place of labels"
    )
    place = 60
    learns_from = "distributions"
    gives_distributions = True
    result_columns = (
        Column.lower(
            "kl", "KL", title="Disagreement: KL divergence of proxies", note=KL_NOTE
        ).means("KL divergence of the judge's distribution from the system's, in nats"),
    )

    @property
    def row_name(self) -> str:
        """Such as `kl_sa`."""
        return f"{self.name}_{self.family}"

    @property
    def row_heading(self) -> str:
        """Such as `KL SA`."""
        return f"{self.heading} {self.family_heading}"

    @property
    def description(self) -> str:
        """Such as `kl_sa on attention, k=1`."""
        return f"{self.row_name} on {self.rules.explained.bare_name}, k={self.rules.k}"

    def learning_recipe(self) -> dict[str, Any]:
        """Return the explainer's rules and the loss, which own proxies do not have."""
        # An own proxy has the same rules and options, and must not share the artefact.
        return super().learning_recipe() | {"loss": "kl"}

    def lessons(self, folder: Path, training: ProxyTrainingOptions) -> Lessons:
        """Return the rules with the model's distributions, computed from states batch by batch."""
        rules, seed, size = self.rules, self.rules.seed, training.batch_size
        decisions, starts = self.write_decisions(folder)
        model = rules.explained.system.model
        contexts = rules.decisions.split("train", rules.learned_from)
        # States and not distributions: D numbers a decision instead of V.
        sentences = rules.decisions.count_readable(
            "train", rules.learned_from, self.train_sentences
        )
        states_ND = write_states(model, contexts, sentences, folder / f"{LESSONS}.states")
        # There are states of all decisions, also of those that the explainer leaves out.
        state_rows = np.flatnonzero(rules.learnt)
        cut = held_out(starts, training)
        validation = np.arange(cut, len(decisions))

        pieces = self.pieces(folder)[1].to(device_of(model)) if self.is_narrowed else None

        def make(rows: np.ndarray) -> DecisionBatch:
            # The label is dropped: the loss compares whole distributions.
            _, words_BK, positions_BK = unpack(decisions[rows])
            states_BD = states_ND[state_rows[rows]]
            return _distributions(model, states_BD, pieces), words_BK, positions_BK

        def train(epoch: int) -> Batches[DecisionBatch]:
            # The held-out rows stand behind `cut`.
            return Batches(np.random.default_rng([seed, epoch]).permutation(cut), size, make)

        return Lessons(train, lambda: Batches(validation, size, make))


def _distributions(model: NMTModel, states_BD: np.ndarray, pieces: Pieces | None) -> Tensor:
    """Return the distributions at some states, (B, V); over the classes of pieces, (B, C)."""
    if pieces is None:
        return log_distributions(model, states_BD).exp()
    # Few at a time, since what is kept is narrow and what it is made of is not.
    rows = max(1, NUMBERS // len(pieces.class_V))
    starts = range(0, len(states_BD), rows)
    parts = (log_distributions(model, states_BD[i : i + rows]) for i in starts)
    return torch.cat([pieces.gather(log_p_BV.exp()) for log_p_BV in parts])


@torch.no_grad()
def log_distributions(model: NMTModel, states_BD: np.ndarray) -> Tensor:
    """Return the model's log-probabilities (B, V) at some states, on its device."""
    states = torch.as_tensor(np.array(states_BD), device=device_of(model))
    # The logits of a large batch and their softmax together would be twice (B, V).
    parts = states.split(STATES_AT_ONCE)
    return torch.cat([model.logits(part).log_softmax(-1) for part in parts])


def divergences(
    model: NMTModel, states_ND: np.ndarray, predicted: Iterable[tuple[np.ndarray | slice, Tensor]]
) -> np.ndarray:
    """Return KL(P || Q) in nats of each decision, over the whole vocabulary; (N,).

    Args:
        model: the NMT model, whose distribution is P.
        states_ND: its states at the decisions.
        predicted: rows of some decisions at a time, and a judge's log Q (B, V) of them.
    """
    kl_N, all_rows = np.empty(len(states_ND)), np.arange(len(states_ND))
    for rows, log_q_BV in predicted:
        width = log_q_BV.shape[1]
        at_once = max(1, NUMBERS // width) if width > WIDEST else len(log_q_BV)
        for start in range(0, len(log_q_BV), at_once):
            part = all_rows[rows][start : start + at_once]
            log_p_BV = log_distributions(model, states_ND[part])
            kl_N[part] = _divergence(log_p_BV, log_q_BV[start : start + at_once]).cpu().numpy()
    return kl_N


def _divergence(log_p_BV: Tensor, log_q_BV: Tensor) -> Tensor:
    """Return KL(P || Q) of each row, (B,)."""
    # Sums over a whole vocabulary lose digits in float32.
    log_p_BV, log_q_BV = (x.to(exact(x.device)) for x in (log_p_BV, log_q_BV))
    terms_BV = log_p_BV.exp() * (log_p_BV - log_q_BV)
    # 0 log 0 is 0, also where both distributions exclude a word.
    return terms_BV.masked_fill(log_p_BV.exp() == 0, 0.0).sum(1)
