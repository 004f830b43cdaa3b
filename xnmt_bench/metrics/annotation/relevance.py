"""People's words beside an explainer's relevance: does it weigh most what they chose?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SUMS = ("agreement", "average_precision", "hit_1", "hit_3")


def compare_with_relevance(chosen: frozenset[int], relevance_S: np.ndarray) -> tuple[float, ...]:
    """Return how well relevance finds the words that a person chose; see `SUMS`.

    Words are ranked by signed relevance, ties to the leftmost. `agreement` is the share of the
    person's n words among the n greatest (R-precision), `average_precision` the mean, over the
    person's words, of the precision down to that word, and hit@k says whether one of the k greatest
    words is the person's.

    Args:
        chosen: numbers of words, from 1; not empty.
        relevance_S: of each word.
    """
    # Stable, so that ties go to the leftmost as in rules; plus 1, since sheets number words from 1.
    order = np.argsort(-relevance_S, kind="stable") + 1
    hits_S = np.isin(order, list(chosen))
    precision_S = np.cumsum(hits_S) / np.arange(1, len(order) + 1)
    return (
        # As many words as the person chose: precision and recall are then the same number.
        float(hits_S[: len(chosen)].mean()),
        float(precision_S[hits_S].sum() / len(chosen)),
        float(hits_S[:1].any()),
        float(hits_S[:3].any()),
    )


def sum_over_people(answers: Sequence[frozenset[int]], relevance_S: np.ndarray) -> np.ndarray:
    """Return the sums of `SUMS` over the people who chose words, and how many these are: (5,)."""
    sums = np.zeros(len(SUMS) + 1)
    for chosen in answers:
        # R-precision of no words is 0 / 0; a person who found no deciding word is left out.
        if chosen:
            sums += np.array([*compare_with_relevance(chosen, relevance_S), 1.0])
    return sums
