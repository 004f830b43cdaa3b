"""At which of two entities an explainer points when a pronoun is translated.

Shapes: Y words of the translation, X words of the source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from xnmt_bench.corpora.suites.consistency.suite import Item
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.corpora.vocabulary.subwords import MARKER
from xnmt_bench.metrics.consistency.judge import JudgedPronoun
from xnmt_bench.metrics.consistency.mention_links import Pairs, carried
from xnmt_bench.parquet import write_table
from xnmt_bench.pipeline.weighed_sentences import WeighedSentences, require_words, skip_unreadable
from xnmt_bench.words import Weighed
from xnmt_bench.words.pieces import as_shares, to_words

RELEVANCE_FILE = "entity_relevance.parquet"


@dataclass(frozen=True)
class Pointing:
    """At what an explainer points when a pronoun is translated.

    Attributes:
        right: 1 where the pronoun's entity outweighs the other one, 0 for the reverse, 0.5 for a
            tie. None where the sentence lacks another entity, links or relevance.
        markers: the share of the relevance that stands on markers; None without links, relevance
            or markers.
    """

    right: float | None
    markers: float | None


@dataclass(frozen=True)
class WordWeights:
    """Relevance of a suite's words.

    Attributes:
        words_YX: sums over the pieces of source words, means over those of target words.
        markers_Y: the share of a target word's relevance that stands on markers; None for a
            source without markers.
    """

    words_YX: np.ndarray
    markers_Y: np.ndarray | None


def weigh_suite(
    weighed_sentences: WeighedSentences, pairs: Pairs, items: Sequence[Item]
) -> dict[int, WordWeights]:
    """Return the weights of the words of each sentence with a pronoun, by its number.

    Args:
        weighed_sentences: relevance for these translations.
        pairs: the suite's sources and translations.
        items: the pronouns.
    """
    # A suite's other sentences need no weights of words.
    sentences = {item.sentence for item in items}
    return {
        sentence.number: weigh_words(sentence, *pairs[sentence.number])
        for sentence in skip_unreadable(require_words(weighed_sentences))
        if sentence.number in sentences
    }


def points(
    weights: Mapping[int, WordWeights], items: Sequence[Item], judged: Sequence[JudgedPronoun]
) -> list[Pointing]:
    """Return at what each pronoun's relevance points.

    An entity weighs what its heaviest word does, at the steps of the words that are linked to the
    pronoun, on average.

    Args:
        weights: see `weigh_suite`.
        items: the pronouns.
        judged: their translations.
    """
    return [
        _point(weights.get(item.sentence), item, verdict)
        for item, verdict in zip(items, judged, strict=True)
    ]


def write_entity_relevance(
    weights: Mapping[int, WordWeights],
    items: Sequence[Item],
    judged: Sequence[JudgedPronoun],
    folder: Path,
) -> None:
    """Write the relevance of each source word for each entity's translation, a row a pronoun.

    It is the mean over the words that are linked to the entity. A row is empty where there are
    none, where the sentence was not explained, and where the entity is in an earlier sentence.

    Args:
        weights: see `weigh_suite`.
        items: the pronouns.
        judged: their translations.
        folder: where the file goes.
    """
    rows = []
    for item, verdict in zip(items, judged, strict=True):
        sentence_weights, target = weights.get(item.sentence), list(verdict.entity.target)
        # A row for each pronoun in any case, so that rows match those of the judged file.
        if sentence_weights is None or not target or item.entity.back:
            rows.append(np.zeros(0))
        else:
            rows.append(sentence_weights.words_YX[target].mean(0))
    relevance = pa.array(rows, type=pa.list_(pa.float64()))
    write_table(pa.table({"relevance": relevance}), folder / RELEVANCE_FILE)


def weigh_words(sentence: Weighed, source: str, translation: str) -> WordWeights:
    """Return the weights of a suite's words."""
    source_words, target_words = split_words(source), split_words(translation)
    blind = sentence.blind
    weights_YX = to_words(
        sentence.weights_TS, sentence.target.words, sentence.source.words, blind=blind
    )
    # The system may cut words otherwise than the suite, whose places the pronouns have.
    row_weights = _carry_rows(weights_YX, sentence, target_words)
    columns_of: dict[int, list[int]] = {}
    for column, places in carried(sentence.source, source_words).items():
        for place in places:
            columns_of.setdefault(place, []).append(column)
    weights_of_words = np.zeros((len(target_words), len(source_words)))
    for place, columns in columns_of.items():
        # Summed, since each is a part of a word; of a blind explainer the first counts.
        weights_of_words[:, place] = row_weights[:, columns[:1] if blind else columns].sum(1)
    marker_S = np.array([bool(MARKER.fullmatch(piece)) for piece in sentence.source.pieces])
    if not marker_S.any():
        return WordWeights(weights_of_words, None)
    # A share of what helps, since relevance of many explainers has either sign.
    shares_T1 = as_shares(sentence.weights_TS) @ marker_S[:, None].astype(np.float64)
    shares_Y1 = to_words(shares_T1, sentence.target.words, [0], blind=blind)
    return WordWeights(weights_of_words, _carry_rows(shares_Y1, sentence, target_words)[:, 0])


def _carry_rows(
    weights_YX: np.ndarray, sentence: Weighed, target_words: Sequence[str]
) -> np.ndarray:
    """Return the rows of a system's words as rows of a text's; each row is a decision."""
    rows = np.zeros((len(target_words), weights_YX.shape[1]))
    parts = np.zeros(len(rows))
    for row, places in carried(sentence.target, target_words).items():
        for place in places:
            rows[place] += weights_YX[row]
            parts[place] += 1
    # Averaged where several of the system's words are one of the text.
    return rows / np.maximum(parts, 1)[:, None]


def _point(weights: WordWeights | None, item: Item, judged: JudgedPronoun) -> Pointing:
    rows = list(judged.pronoun.target)
    if weights is None or not rows:
        return Pointing(None, None)
    markers = None if weights.markers_Y is None else float(weights.markers_Y[rows].mean())
    # Weights are of the pronoun's own sentence, and not of an earlier one.
    if item.other is None or item.backs != {0}:
        return Pointing(None, markers)
    # A mean of the steps, since the pronoun may be translated by several words.
    step_X = weights.words_YX[rows].mean(0)
    # The heaviest word and not the sum, which would favour the entity of more words.
    entity, other = (step_X[list(e.words)].max() for e in (item.entity, item.other))
    return Pointing(float((np.sign(entity - other) + 1) / 2), markers)  # 1, 0, or 0.5 for a tie
