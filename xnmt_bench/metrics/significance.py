"""Is one explainer's perplexity really lower? A paired bootstrap over sentences (Koehn 2004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xnmt_bench.metrics.bootstrap import weights
from xnmt_bench.metrics.perplexity import DecisionScores, resampled


@dataclass(frozen=True)
class Difference:
    """Two predictors' perplexities, compared on the same resampled sentences.

    Attributes:
        ratio: perplexity of the first over that of the second; below 1 the first is better.
        low: lower end of the ratio's 95 % bootstrap interval.
        high: its upper end.
        p: two-sided: how often resampling turns the difference around, twice, at most 1.
    """

    ratio: float
    low: float
    high: float
    p: float


def paired(
    first: Sequence[DecisionScores], second: Sequence[DecisionScores], samples: int, seed: int
) -> Difference:
    """Compares two predictors on the sentences of one test set.

    Args:
        first: the scores of each of its seeds.
        second: the same of the other, on the same sentences.
        samples: bootstrap samples.
        seed: of the draws.
    """
    sentences = len(np.unique(first[0].sentence_N))
    of = resampled(first), resampled(second)
    blocks = [np.ones((1, sentences)), *weights(sentences, samples, seed)]
    log_R = np.concatenate([np.log(of[0](w) / of[1](w)) for w in blocks])
    ratio, drawn_R = float(np.exp(log_R[0])), log_R[1:]
    low, high = np.exp(np.percentile(drawn_R, [2.5, 97.5]))
    # The sample itself counts as one of the draws, so that no p is 0 (Davison and Hinkley 1997).
    turned = min((drawn_R <= 0).sum(), (drawn_R >= 0).sum())
    return Difference(ratio, float(low), float(high), min(1.0, 2 * (turned + 1) / (samples + 1)))


def holm(p_values: Sequence[float]) -> np.ndarray:
    """P-values corrected for their number (Holm 1979), in the given order."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def spread(parts: Sequence[DecisionScores]) -> float:
    """The greatest perplexity of any seed over the least; 1 for a single seed."""
    perplexities = [part.perplexity for part in parts]
    return max(perplexities) / min(perplexities)
