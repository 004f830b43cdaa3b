"""The decisions of a test set and their words, in the order of an explainer or of the sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from xnmt_bench.corpora.encoded import EncodedSplit
from xnmt_bench.metrics.erasure.erasing import Decision, order_words, words_of
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.rules.table import SentenceRelevance, read_columns, shards
from xnmt_bench.store import Artefact

KEYS = ("sentence", "step")


def ordered_decisions(
    split: EncodedSplit, relevances: Iterable[SentenceRelevance], labels: Artefact, sentences: int
) -> Iterator[tuple[list[Decision], int]]:
    """Yield each sentence's decisions, words most relevant first, and how many have no order.

    Args:
        split: the sentences.
        relevances: of each, in any order.
        labels: the artefact of the decisions' labels.
        sentences: how many, from the first.

    Raises:
        NotApplicable: a word that a decision sees has no relevance.
    """
    index_of = {int(number): index for index, number in enumerate(split.number)}
    label_of = _labels(labels)
    # The range comes first, so that no sentence more than needed is read.
    for _, relevance in zip(range(sentences), relevances, strict=False):
        index = index_of[relevance.number]
        yield _decisions_of(relevance, split.source[index], split.target[index], label_of)


def _decisions_of(
    relevance: SentenceRelevance,
    source_S: np.ndarray,
    target_T: np.ndarray,
    label_of: Mapping[tuple[int, int], int],
) -> tuple[list[Decision], int]:
    decisions, flat = [], 0
    sides_by_step = relevance.visible_words(source_S, target_T)
    for step, sides in enumerate(sides_by_step, start=relevance.first):
        # Counted for a note: among equal scores the order is the sentence's and not the
        # explainer's.
        flat += any(len(values) > 1 and np.ptp(values) == 0 for _, values in sides)
        number = relevance.number
        decisions.append(Decision(number, step, label_of[number, step], *order_words(sides)))
    return decisions, flat


def unordered_decisions(
    split: EncodedSplit, labels: Artefact, sentences: int
) -> Iterator[list[Decision]]:
    """Yield each sentence's decisions, words in the order of the sentence."""
    label_of, steps_of = _labels(labels), dict[int, list[int]]()
    for number, step in label_of:
        steps_of.setdefault(number, []).append(step)
    for index, number in zip(range(sentences), split.number.tolist(), strict=False):
        source_words, target_words = words_of(split.source[index]), words_of(split.target[index])
        decisions = []
        for step in steps_of[number]:
            # A step sees only the words before it.
            prefix_words = target_words[target_words < step]
            side_W = np.repeat([0, 1], [len(source_words), len(prefix_words)])
            place_W = np.concatenate([source_words, prefix_words])
            decisions.append(Decision(number, step, label_of[number, step], side_W, place_W))
        yield decisions


def _labels(artefact: Artefact) -> dict[tuple[int, int], int]:
    """Return the label of each decision, by sentence and step."""
    labels: dict[tuple[int, int], int] = {}
    for path in shards(artefact.path, EVALUATED):
        columns = read_columns(path, (*KEYS, "label"))
        rows = zip(*(columns[name].tolist() for name in (*KEYS, "label")), strict=True)
        labels.update({(sentence, step): label for sentence, step, label in rows})
    return labels
