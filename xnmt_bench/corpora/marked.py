"""Words that people, or a generator, marked, with the scores that should find them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class MarkedWords:
    """Lists of words, some of them marked, with their scores.

    A list is a sentence, or the context of one of its words.

    Attributes:
        unit_N: the number of the unit that each word belongs to.
        list_N: the number of its list.
        marked_N: whether it is marked.
        scores: by name, (N,); the greater, the more likely is a mark.
        side_N: `source` or `target`, of a context's words; else empty.
    """

    unit_N: np.ndarray
    list_N: np.ndarray
    marked_N: np.ndarray
    scores: Mapping[str, np.ndarray]
    side_N: np.ndarray

    def of_side(self, side: str) -> MarkedWords:
        """Return the words of one side."""
        kept_N = self.side_N == side
        return MarkedWords(
            self.unit_N[kept_N],
            self.list_N[kept_N],
            self.marked_N[kept_N],
            {name: score_N[kept_N] for name, score_N in self.scores.items()},
            self.side_N[kept_N],
        )
