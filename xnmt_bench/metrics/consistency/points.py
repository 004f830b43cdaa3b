"""At which of two entities an explainer points when a pronoun is translated.

Shapes: Y words of the translation, X words of the source.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xnmt_bench.corpora.consistency import Item
from xnmt_bench.metrics.consistency.judge import JudgedPronoun
from xnmt_bench.metrics.consistency.links import Pairs, carried
from xnmt_bench.pipeline.weighed_sentences import WeighedSentences, skip_unreadable
from xnmt_bench.words import Weighed
from xnmt_bench.words.pieces import to_words


def points(
    weighed_sentences: WeighedSentences,
    pairs: Pairs,
    items: Sequence[Item],
    judged: Sequence[JudgedPronoun],
) -> list[float | None]:
    """Return 1 for each pronoun whose entity outweighs the other one, 0 for the reverse, else 0.5.

    An entity weighs what its heaviest word does, at the steps of the words that are linked to the
    pronoun, on average.

    Args:
        weighed_sentences: relevance for these translations.
        pairs: the suite's sources and translations.
        items: the pronouns.
        judged: their translations.

    Returns:
        None where there is no other entity in the sentence, or without links or relevance.
    """
    sentences = {item.sentence for item in items}
    weights = {
        sentence.number: of_words(sentence, *pairs[sentence.number])
        for sentence in skip_unreadable(weighed_sentences)
        if sentence.number in sentences
    }
    return [
        _points(weights.get(item.sentence), item, verdict)
        for item, verdict in zip(items, judged, strict=True)
    ]


def of_words(sentence: Weighed, source: str, translation: str) -> np.ndarray:
    """Return weights (Y, X) of a suite's words: sums over source words, means over target words."""
    weights_YX = to_words(
        sentence.weights_TS, list(sentence.target.words), list(sentence.source.words)
    )
    row_weights = np.zeros((len(translation.split()), weights_YX.shape[1]))
    parts = np.zeros(len(row_weights))
    for row, places in carried(sentence.target, translation.split()).items():
        for place in places:
            # Rows are averaged: each is a decision. Columns below are summed: each is a part of a
            # word.
            row_weights[place] += weights_YX[row]
            parts[place] += 1
    row_weights /= np.maximum(parts, 1)[:, None]
    weights_of_words = np.zeros((len(row_weights), len(source.split())))
    for column, places in carried(sentence.source, source.split()).items():
        for place in places:
            weights_of_words[:, place] += row_weights[:, column]
    return weights_of_words


def _points(weights_YX: np.ndarray | None, item: Item, judged: JudgedPronoun) -> float | None:
    rows = list(judged.pronoun.target)
    if weights_YX is None or not rows or item.other is None or item.backs != {0}:
        return None
    step_X = weights_YX[rows].mean(0)
    entity, other = (step_X[list(e.words)].max() for e in (item.entity, item.other))
    return float((np.sign(entity - other) + 1) / 2)  # 1, 0, or 0.5 for a tie
