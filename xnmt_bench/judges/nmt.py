"""A point of reference: what the NMT model gives with its whole context."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from xnmt_bench.device import device_of
from xnmt_bench.judges.judge import Judge
from xnmt_bench.nmt import output
from xnmt_bench.rules.states import write_states
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
        keys = ("explainer", "k", "seed", "train_sentences", "learned_from")
        return {"instantiation": self.name} | dict.fromkeys(keys, "")

    def log_likelihood(self, rules: Rules) -> tuple[np.ndarray, np.ndarray]:
        """Return log P of each label, and whether it is the model's most probable word."""
        log_p_N = np.log(np.maximum(rules.probability_N.astype(np.float64), TINY))
        return log_p_N, self._first_choices() == rules.label_N

    @torch.no_grad()
    def _first_choices(self) -> np.ndarray:
        """Return the model's most probable word at each test decision, (N,)."""
        model, count = self.rules.job.system.model, self.rules.decisions.count("test")
        path = self.folder / "states.tmp"
        states_ND = write_states(model, self.rules.test_split, count, path)
        first_N = np.empty(len(states_ND), dtype=np.int64)
        for start in range(0, len(states_ND), output.ROWS):
            rows = slice(start, start + output.ROWS)
            states = torch.as_tensor(np.array(states_ND[rows]), device=device_of(model))
            first_N[rows] = model.decide(states)[0].cpu().numpy()
        return first_N
