"""Disagreement as KL divergence (Li et al. 2020, footnote 3), on the NMT model's top words."""

from __future__ import annotations

import numpy as np

LEAST = 1e-12  # a predictor that leaves nothing for the rest is not infinitely wrong


def kl_divergence(log_p_NM: np.ndarray, log_q_NM: np.ndarray) -> np.ndarray:
    """KL(P || Q) in nats, over M words and all the others as one; shape (N,).

    Taking words together never makes the divergence greater, so this bounds that over the whole
    vocabulary from below.

    Args:
        log_p_NM: the NMT model's log-probabilities of its M most probable words.
        log_q_NM: the predictor's log-probabilities of the same words.
    """
    rest_p, rest_q = (
        np.maximum(1 - np.exp(x.astype(np.float64)).sum(1), LEAST) for x in (log_p_NM, log_q_NM)
    )
    inside = (np.exp(log_p_NM) * (log_p_NM - log_q_NM)).sum(1)
    return np.maximum(0.0, inside + rest_p * (np.log(rest_p) - np.log(rest_q)))
