"""Bootstrap over sentences: every interval of this project is drawn here."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

BLOCK = 64  # samples drawn at once: bounds memory to BLOCK rows of sentences


def weights(
    sentences: int, samples: int, seed: int, drawn: int | None = None
) -> Iterator[np.ndarray]:
    """How often each sentence is drawn in each sample, with replacement.

    The same numbers give the same draws, so two metrics of the same sentences are resampled alike.

    Args:
        sentences: N.
        samples: bootstrap samples.
        seed: of the draws.
        drawn: sentences drawn for each sample; N, if not given.

    Yields:
        Blocks (R, N) of counts, `samples` rows in all.
    """
    rng = np.random.default_rng(seed)
    for start in range(0, samples, BLOCK):
        rows = min(BLOCK, samples - start)
        size = sentences if drawn is None else drawn
        yield rng.multinomial(size, np.full(sentences, 1 / sentences), size=rows)


def interval(
    statistic: Callable[[np.ndarray], np.ndarray], sentences: int, samples: int, seed: int
) -> tuple[float, float]:
    """The 95 % percentile interval of a statistic.

    Args:
        statistic: from weights (R, N) to its value for each sample, (R,).
        sentences: N.
        samples: bootstrap samples.
        seed: of the draws.
    """
    values = np.concatenate([statistic(w) for w in weights(sentences, samples, seed)])
    low, high = np.nanpercentile(values, [2.5, 97.5])
    return float(low), float(high)
