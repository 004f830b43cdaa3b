"""Do two metrics rank explainers alike?"""

from __future__ import annotations

from itertools import combinations

import numpy as np


def kendall_tau(first_RE: np.ndarray, second_RE: np.ndarray) -> np.ndarray:
    """Kendall's tau-a of two scorings of E explainers, for each of R samples.

    1 where all pairs stand in the same order, -1 where all are reversed; a tie counts as neither.
    """
    pairs = np.asarray(list(combinations(range(first_RE.shape[1]), 2)))
    signs = [np.sign(x[:, pairs[:, 0]] - x[:, pairs[:, 1]]) for x in (first_RE, second_RE)]
    return (signs[0] * signs[1]).mean(1)


def ranks(scores: np.ndarray) -> np.ndarray:
    """Places from 1, least score first; ties share the better place; shape as given."""
    return 1 + (scores[..., None, :] < scores[..., :, None]).sum(-1)
