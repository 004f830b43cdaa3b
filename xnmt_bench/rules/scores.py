"""What a judge predicts for each decision of a test set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from xnmt_bench.parquet import column_names, read_table, write_table

COLUMNS = ("sentence", "step", "log_likelihood")
CORRECT = "correct"


@dataclass(frozen=True)
class DecisionScores:
    """What one judge predicts for each decision of a test set.

    Attributes:
        sentence_N: number of the decision's sentence.
        step_N: step, counted from 0.
        log_likelihood_N: log-probability of the label, in nats.
        correct_N: whether the label is the judge's first choice; None where the judge does not
            tell.
    """

    sentence_N: np.ndarray
    step_N: np.ndarray
    log_likelihood_N: np.ndarray
    correct_N: np.ndarray | None = None

    def save(self, path: Path) -> None:
        """Write the scores as Parquet."""
        # With sentence and step, since files of the same decisions may differ in order.
        columns = zip((*COLUMNS, CORRECT), vars(self).values(), strict=True)
        write_table(pa.table({name: x for name, x in columns if x is not None}), path)

    @classmethod
    def load(cls, path: Path) -> DecisionScores:
        """Read what `save` wrote.

        Raises:
            StoreError: the file is not readable.
        """
        # Judges that give no first choice write no such column, so its absence is not damage.
        names = COLUMNS + ((CORRECT,) if CORRECT in column_names(path) else ())
        table = read_table(path, names)
        return cls(*(table[name].to_numpy() for name in names))

    @classmethod
    def join(cls, parts: Sequence[DecisionScores]) -> DecisionScores:
        """Return the decisions of all parts, in their order."""
        columns = [
            [values for values in vars(part).values() if values is not None] for part in parts
        ]
        return cls(*(np.concatenate(values) for values in zip(*columns, strict=True)))

    def __len__(self) -> int:
        return len(self.log_likelihood_N)

    def take(self, chosen_N: np.ndarray) -> DecisionScores:
        """Return some of the decisions, by a mask or by their places."""
        columns: list[Any] = [x if x is None else x[chosen_N] for x in vars(self).values()]
        return DecisionScores(*columns)
