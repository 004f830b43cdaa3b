"""One number that compares explainers across corpora and models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xnmt_bench.metrics.bootstrap import interval
from xnmt_bench.metrics.perplexity import DecisionScores, resampled


def normalised(
    scores: Sequence[DecisionScores],
    random: Sequence[DecisionScores],
    nmt: DecisionScores,
    samples: int,
    seed: int,
) -> tuple[float, float, float]:
    """How far a perplexity stands between that of random words (0) and of the NMT model (1).

    It is linear in log perplexity: (log PPL_random - log PPL) / (log PPL_random - log PPL_nmt).

    Args:
        scores: an explainer's, of each seed.
        random: those of the same proxy on random words, of each seed.
        nmt: the NMT model's, on its own choices with the whole context.
        samples: bootstrap samples over sentences, the same for all three.
        seed: of the draws.

    Returns:
        The score, and the ends of its 95 % bootstrap interval.
    """
    of = resampled(scores), resampled(random), resampled([nmt])

    def score(weights_RN: np.ndarray) -> np.ndarray:
        own, worst, best = (np.log(ppl(weights_RN)) for ppl in of)
        return (worst - own) / (worst - best)

    sentences = len(np.unique(nmt.sentence_N))
    low, high = interval(score, sentences, samples, seed)
    return float(score(np.ones((1, sentences)))[0]), low, high
