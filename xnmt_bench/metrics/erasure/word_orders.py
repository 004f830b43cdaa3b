"""The decisions of a test set and their words, in the order of an explainer or of the sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import current_span
from xnmt_bench.metrics.erasure.erasing import Decision, order_words, words_of
from xnmt_bench.pipeline.decision_table import load_decisions
from xnmt_bench.rules.table import SentenceRelevance
from xnmt_bench.store import Stage

KEYS = ("sentence", "step")
Labels = Mapping[tuple[int, int], int]  # of each decision, by sentence and step


def load_labels(artefact: Stage) -> Labels:
    """Return the labels of the stage `labels`."""
    columns = load_decisions(artefact, (*KEYS, "label"))
    keys = zip(*(columns[name].tolist() for name in KEYS), strict=True)
    return dict(zip(keys, columns["label"].tolist(), strict=True))


def ordered_decisions(
    split: EncodedSplit, relevances: Iterable[SentenceRelevance], label_of: Labels
) -> Iterator[list[Decision]]:
    """Yield each sentence's decisions, words most relevant first.

    Args:
        split: the sentences.
        relevances: of each, in any order.
        label_of: their labels.

    Raises:
        NotApplicable: a word that a decision sees has no relevance.
    """
    for relevance in relevances:
        number, decisions = relevance.number, []
        sides_by_step = relevance.visible_words(*split.ids(number))
        for step, sides in enumerate(sides_by_step, start=relevance.first):
            # For a note: among equal scores the order is the sentence's and not the explainer's.
            flat = any(len(values) > 1 and np.ptp(values) == 0 for _, values in sides)
            label = label_of[number, step]
            decisions.append(Decision(number, step, label, *order_words(sides), flat))
        yield decisions


def unordered_decisions(split: EncodedSplit, label_of: Labels) -> Iterator[list[Decision]]:
    """Yield each sentence's decisions, words in the order of the sentence."""
    for index, number in enumerate(split.number.tolist()):
        target_T = split.target[index]
        source_words, target_words = words_of(split.source[index]), words_of(target_T)
        decisions = []
        for step in range(*current_span(target_T)):
            # A step sees only the words before it.
            prefix_words = target_words[target_words < step]
            side_W = np.repeat([0, 1], [len(source_words), len(prefix_words)])
            place_W = np.concatenate([source_words, prefix_words])
            decisions.append(Decision(number, step, label_of[number, step], side_W, place_W))
        yield decisions
