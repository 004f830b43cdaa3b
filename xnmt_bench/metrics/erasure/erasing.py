"""The words of a decision, in the order of an explainer, and P(label) with some of them kept.

Shapes: N decisions, W words of a decision on both sides, R rows, K kept words of a side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import SPECIAL, current_span
from xnmt_bench.judges.masked import base_log_likelihoods
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.switched import Removal
from xnmt_bench.pipeline.decision_table import load_decisions
from xnmt_bench.rules.table import Rules, SentenceRelevance
from xnmt_bench.store import Stage

SOURCE, PREFIX = 0, 1
KEYS = ("sentence", "step")
Labels = Mapping[tuple[int, int], int]  # of each decision, by sentence and step


@dataclass(frozen=True)
class Decision:
    """One decision and its words.

    Attributes:
        sentence: number of its sentence in the corpus.
        step: counted from 0.
        label: id of what the system chooses.
        side_W: SOURCE or PREFIX, of each word.
        place_W: the word's place on its side, in subwords from 0.
        flat: whether all words of a side are as relevant, so that their order is the sentence's.
    """

    sentence: int
    step: int
    label: int
    side_W: np.ndarray
    place_W: np.ndarray
    flat: bool = False

    def __len__(self) -> int:
        return len(self.place_W)

    def first(self, counts: Sequence[int]) -> np.ndarray:
        """Return True for so many first words of each side, (W,)."""
        chosen_W = np.zeros(len(self), dtype=bool)
        for side, count in zip((SOURCE, PREFIX), counts, strict=True):
            # Words are in order already, so the first of a side are its most relevant ones.
            chosen_W[np.flatnonzero(self.side_W == side)[:count]] = True
        return chosen_W


def words_of(ids_X: np.ndarray) -> np.ndarray:
    """Return the places of words; BOS, EOS and padding are none."""
    return np.flatnonzero(~np.isin(ids_X, SPECIAL))


def order_words(sides: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return side and place of all words, most relevant first, (W,).

    Relevance of source and prefix words need not compare, so the sides are merged by rank: each
    word stands where as large a part of its own side is before it. Ties go to the source, and on a
    side to the leftmost word.

    Args:
        sides: of source and prefix, the places of words and their relevance.
    """
    shares, places = [], []
    for place_X, relevance_X in sides:
        # The middle of a word's share, so that two sides of one length alternate.
        shares.append((np.arange(len(place_X)) + 0.5) / max(1, len(place_X)))
        places.append(place_X[np.argsort(-relevance_X, kind="stable")])
    side_W = np.repeat((SOURCE, PREFIX), [*map(len, places)])
    order = np.argsort(np.concatenate(shares), kind="stable")
    return side_W[order], np.concatenate(places)[order]


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


class Eraser:
    """Computes the probability of labels with some words kept.

    Args:
        model: the system.
        split: the sentences of the decisions.
        removal: what a word that is not kept is replaced by; see `nmt.switched`.
    """

    def __init__(self, model: NMTModel, split: EncodedSplit, removal: Removal) -> None:
        self._model, self._split, self._removal = model, split, removal

    def probabilities(
        self, decisions: Sequence[Decision], rows: Iterable[tuple[int, np.ndarray]]
    ) -> np.ndarray:
        """Return P(label) of each row, (R,).

        Args:
            decisions: what rows are of.
            rows: the number of a decision, and True for the words that are kept, (W,).
        """
        numbers, keeps = zip(*rows, strict=True)
        members = [decisions[n] for n in numbers]
        kept = [(d.side_W, d.place_W, keep) for d, keep in zip(members, keeps, strict=True)]
        places = [
            _pad([place_W[keep & (side_W == side)] for side_W, place_W, keep in kept])
            for side in (SOURCE, PREFIX)
        ]
        sentence_R, step_R, label_R = (
            np.array([getattr(d, name) for d in members]) for name in ("sentence", "step", "label")
        )
        # As rules of any size, which Base scores: words are then erased by the same code as there.
        rules = Rules(sentence_R, step_R, label_R, np.zeros(len(members)), *places, *places)
        log_p_R, _ = base_log_likelihoods(self._model, self._split, rules, removal=self._removal)
        return np.exp(log_p_R)


def _pad(places: Sequence[np.ndarray]) -> np.ndarray:
    """Return rows of places as one array, -1 behind the shorter ones, (R, K)."""
    padded = np.full((len(places), max(map(len, places), default=0)), -1)
    for row, place_X in zip(padded, places, strict=True):
        row[: len(place_X)] = place_X
    return padded
