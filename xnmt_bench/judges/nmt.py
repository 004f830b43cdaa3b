"""A point of reference: what the NMT model gives with its whole context."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from xnmt_bench.device import device_of
from xnmt_bench.judges.judge import Judge
from xnmt_bench.rules.states import iterate_states, states_room
from xnmt_bench.rules.table import Rules

TINY = np.finfo(np.float32).tiny  # a label too improbable for float32 is not impossible


class NMT(Judge):
    """The NMT model itself, which sees every word of the context."""

    name = "nmt"
    heading = "the NMT model's own, with its whole context"
    sees_rule = False
    version = 5

    def recipe(self) -> dict[str, Any]:
        """Return its name; the decisions' recipe holds the model."""
        return {"judge": self.name}

    def row_keys(self) -> dict[str, Any]:
        """Return the columns of its row; nothing about rules or training matters to it."""
        keys = ("explainer", "k", "prefix", "seed", "train_sentences", "learned_from")
        return {"instantiation": self.name} | dict.fromkeys(keys, "")

    def log_likelihood(self, rules: Rules) -> tuple[np.ndarray, np.ndarray]:
        """Return log P of each label, and whether it is the model's most probable word."""
        # Stored as float32, where a tiny probability has become 0.
        log_p_N = np.log(np.maximum(rules.probability_N.astype(np.float64), TINY))
        # Computed: in golden data the label is the reference's word and need not be the model's
        # choice.
        return log_p_N, self.first_choices() == rules.label_N

    @torch.no_grad()
    def first_choices(self) -> np.ndarray:
        """Return the model's most probable word at each test decision, (N,)."""
        model, split = self.rules.system.model, self.rules.test_split
        sentences = self.rules.test_sentences

        def decide(batch_tokens: int) -> np.ndarray:
            parts = [
                (rows, model.decide(states_RD)[0].cpu().numpy())
                for rows, states_RD in iterate_states(model, split, sentences, batch_tokens)
            ]
            first_N = np.empty(sum(len(rows) for rows, _ in parts), dtype=np.int64)
            for rows, first_R in parts:
                first_N[rows] = first_R
            return first_N

        return states_room().tried(device_of(model), decide)
