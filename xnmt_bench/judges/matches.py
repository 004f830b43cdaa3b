"""Matched rules: the same words, labelled by another decision that could have shown them.

What a proxy gains by learning from an explainer's rules has two sources: how the explainer chooses,
and that the proxy sees those words together more often than random draws show them. Matched rules
keep the second and remove the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial, reduce
from math import comb

import numpy as np

from proxies.data import VisibleWords, Words

Weighted = tuple[np.ndarray, np.ndarray]  # decisions, and how often each is to be drawn


class Matches:
    """Finds, for a rule, the decisions whose context holds its words.

    Args:
        contexts: the decisions that labels are drawn from.
        k: words a side.
    """

    def __init__(self, contexts: VisibleWords, k: int) -> None:
        self._contexts = contexts
        longest = int(max(contexts.source.count_B.max(), contexts.prefix.count_B.max()))
        # How many ways there are to choose any number up to k of n words.
        # Computed once: chances of draws are ratios of these binomials.
        self._ways = np.array([[comb(n, m) for m in range(k + 1)] for n in range(longest + 1)])
        self._k = k
        sentences = len(contexts.source.count_B)
        self._starts = np.searchsorted(contexts.sentence_N, np.arange(sentences + 1))
        sides = contexts.source, contexts.prefix
        self._sentences = [_sentences_by_word(side) for side in sides]
        self._places = [_places_by_word(side) for side in sides]
        self._known: dict[tuple[int, ...], Weighted] = {}

    def label(
        self, words_K: np.ndarray, own_row: int, generator: np.random.Generator
    ) -> int | None:
        """Return another decision's label, drawn by its chance to show these words.

        Args:
            words_K: k source words, then k prefix words; -1 for none.
            own_row: the rule's own decision, which is left out.
            generator: of the draw.

        Returns:
            None where no other decision can show these words.
        """
        rows, weights = self.decisions(words_K)
        # The rule's own label would make a leak look like knowledge.
        weights = np.where(rows == own_row, 0.0, weights)
        total = np.cumsum(weights)
        if not len(rows) or total[-1] == 0:
            return None
        # From the right, so that a decision of weight 0 is never drawn.
        drawn = np.searchsorted(total, generator.random() * total[-1], side="right")
        return int(self._contexts.label_N[rows[min(drawn, len(rows) - 1)]])

    def decisions(self, words_K: np.ndarray) -> Weighted:
        """Return the decisions that can show a rule's words, and the chance of such a draw."""
        source, prefix = (sorted(side[side >= 0].tolist()) for side in np.split(words_K, 2))
        key = (*source, -1, *prefix)
        # Rules repeat often, and each search looks at many sentences.
        if key not in self._known:
            rule_words = Counter(source), Counter(prefix)
            holding = [
                sentences.get(word, _NONE)
                for sentences, words in zip(self._sentences, rule_words, strict=True)
                for word in words
            ]
            everywhere = np.arange(len(self._starts) - 1)
            both = partial(np.intersect1d, assume_unique=True)
            # Only sentences that hold every word are looked at.
            sentence_C = reduce(both, holding) if holding else everywhere
            self._known[key] = self._in_sentences(sentence_C, rule_words)
        return self._known[key]

    def _in_sentences(
        self, sentence_C: np.ndarray, rule_words: tuple[Counter[int], Counter[int]]
    ) -> Weighted:
        """Return the steps of sentences that can show the words, and the chance of each."""
        contexts, starts_C = self._contexts, self._starts[sentence_C]
        steps_C = self._starts[sentence_C + 1] - starts_C
        step_T = np.arange(steps_C.sum()) - np.repeat(np.cumsum(steps_C) - steps_C, steps_C)
        row_T = np.repeat(starts_C, steps_C) + step_T
        sides = (
            (contexts.source, contexts.source_count_N),
            (contexts.prefix, contexts.prefix_count_N),
        )
        chance_T = np.ones(len(row_T))
        for (side, count_N), places, words in zip(sides, self._places, rule_words, strict=True):
            start_T = np.repeat(side.start_B[sentence_C], steps_C)
            chance_T = chance_T * self._chance(start_T, count_N[row_T], places, words)
        possible = chance_T > 0
        return row_T[possible], chance_T[possible]

    def _chance(
        self,
        start_T: np.ndarray,
        visible_T: np.ndarray,
        places: Mapping[int, np.ndarray],
        words: Counter[int],
    ) -> np.ndarray:
        """Return the chance to draw just these of the visible words of a side; (T,).

        Args:
            start_T: where each step's sentence begins among all words of the side.
            visible_T: how many of its words the step sees.
            places: where each word stands among all words of the side.
            words: of the rule.
        """
        drawn_T = np.minimum(self._k, visible_T)
        # A draw of another size than the rule's cannot have shown it.
        ways_T = (drawn_T == words.total()) / self._ways[visible_T, drawn_T]
        for word, times in words.items():
            at = places.get(word, _NONE)
            there_T = np.searchsorted(at, start_T + visible_T) - np.searchsorted(at, start_T)
            ways_T = ways_T * self._ways[there_T, times]
        return ways_T


_NONE = np.zeros(0, dtype=np.int64)


def _sentences_by_word(words: Words) -> dict[int, np.ndarray]:
    """Return the numbers of the sentences that hold each word, ascending."""
    sentence = np.repeat(np.arange(len(words.count_B)), words.count_B)
    pairs = np.unique(np.stack([words.ids.astype(np.int64), sentence]), axis=1)
    ids, starts = np.unique(pairs[0], return_index=True)
    parts = np.split(pairs[1], starts[1:])
    return dict(zip(ids.tolist(), parts, strict=True))


def _places_by_word(words: Words) -> dict[int, np.ndarray]:
    """Return where each word stands among all words, ascending."""
    order = np.argsort(words.ids, kind="stable")
    ids, starts = np.unique(words.ids[order], return_index=True)
    return dict(zip(ids.tolist(), np.split(order, starts[1:]), strict=True))
