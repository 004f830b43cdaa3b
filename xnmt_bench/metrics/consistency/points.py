"""At which of two entities an explainer points when a pronoun is translated.

Shapes: Y words of the translation, X words of the source.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xnmt_bench.corpora.consistency import Item
from xnmt_bench.metrics.consistency.judge import Judged
from xnmt_bench.metrics.consistency.links import Pairs, carried
from xnmt_bench.pipeline.weighed import Weighings, readable
from xnmt_bench.words import Weighed
from xnmt_bench.words.pieces import to_words


def points(
    weighings: Weighings, said: Pairs, items: Sequence[Item], judged: Sequence[Judged]
) -> list[float | None]:
    """Of each pronoun 1 where its entity weighs more than the other one, 0 where less, else 0.5.

    An entity weighs what its heaviest word does, at the steps of the words that are linked to the
    pronoun, on average.

    Args:
        weighings: relevance for these translations.
        said: the suite's sources and translations.
        items: the pronouns.
        judged: their translations.

    Returns:
        None where there is no other entity in the sentence, or nothing is linked or explained.
    """
    wanted = {item.sentence for item in items}
    weights = {
        one.number: of_words(one, *said[one.number])
        for one in readable(weighings)
        if one.number in wanted
    }
    return [
        _points(weights.get(item.sentence), item, own)
        for item, own in zip(items, judged, strict=True)
    ]


def of_words(one: Weighed, source: str, translation: str) -> np.ndarray:
    """Weights (Y, X) of a suite's words: a source word's is the sum, a target word's the mean."""
    weights_YX = to_words(one.weights_TS, list(one.target.words), list(one.source.words))
    told = np.zeros((len(translation.split()), weights_YX.shape[1]))
    parts = np.zeros(len(told))
    for row, places in carried(one.target, translation.split()).items():
        for place in places:
            told[place] += weights_YX[row]
            parts[place] += 1
    told /= np.maximum(parts, 1)[:, None]
    found = np.zeros((len(told), len(source.split())))
    for column, places in carried(one.source, source.split()).items():
        for place in places:
            found[:, place] += told[:, column]
    return found


def _points(weights_YX: np.ndarray | None, item: Item, judged: Judged) -> float | None:
    rows = list(judged.pronoun.target)
    if weights_YX is None or not rows or item.other is None or item.backs != {0}:
        return None
    step_X = weights_YX[rows].mean(0)
    entity, other = (step_X[list(e.words)].max() for e in (item.entity, item.other))
    return float((np.sign(entity - other) + 1) / 2)
