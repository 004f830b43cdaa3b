"""How a predictor did on each decision of a test set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from xnmt_bench.parquet import read_table, write_table

# On disk, in the order of the fields.
COLUMNS = ("sentence", "step", "log_likelihood", "correct")


@dataclass(frozen=True)
class DecisionScores:
    """How one predictor did on each decision of a test set.

    Attributes:
        sentence_N: number of the decision's sentence.
        step_N: step, counted from 0.
        log_likelihood_N: log probability of the label, in nats.
        correct_N: whether the label is the predictor's first choice.
    """

    sentence_N: np.ndarray
    step_N: np.ndarray
    log_likelihood_N: np.ndarray
    correct_N: np.ndarray

    def save(self, path: Path) -> None:
        """Writes the scores as Parquet."""
        write_table(pa.table(dict(zip(COLUMNS, vars(self).values(), strict=True))), path)

    @classmethod
    def load(cls, path: Path) -> DecisionScores:
        """Reads what `save` wrote.

        Raises:
            StoreError: the file is not readable.
        """
        table = read_table(path, COLUMNS)
        return cls(*(table[name].to_numpy() for name in COLUMNS))

    def __len__(self) -> int:
        return len(self.log_likelihood_N)

    @property
    def perplexity(self) -> float:
        """Exp of the mean negative log-likelihood; lower is better."""
        return float(np.exp(-self.log_likelihood_N.mean()))

    def take(self, chosen_N: np.ndarray) -> DecisionScores:
        """Some of the decisions, by a mask or by their places."""
        return DecisionScores(*(values[chosen_N] for values in vars(self).values()))
