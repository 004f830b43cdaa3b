"""Units of ranked words: of translations in one list, of contexts in a list for each word.

Shapes: N words, X words of one list.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from xnmt_bench.corpora.marked import MarkedWords
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.units import Units, by_unit, side_by_side
from xnmt_bench.metrics.cues.precision import average_precision, precision_of_chance, recall_at
from xnmt_bench.words.pieces import as_shares

SCORE, MARKED = "score_", "marked_"  # of a unit's first word, its second, ...
RANDOM, POSITION = "random", "position"  # scores that ask no model


def rank_words(test_set: str, words: MarkedWords, score_N: np.ndarray, threshold: float) -> Units:
    """Return units whose words are ranked in one list of all of them.

    Args:
        test_set: names the words.
        words: of translations.
        score_N: by which they are ranked.
        threshold: in standard deviations above the mean of a sentence; words beyond are called.

    Raises:
        NotApplicable: no word is marked, so that no order is better than another.
    """
    if not words.marked_N.any():
        raise NotApplicable("no word is marked as context-sensitive")
    called_N = np.zeros(len(score_N), dtype=bool)
    for rows in lists_of(words):
        score_X = score_N[rows]
        called_N[rows] = score_X > score_X.mean() + threshold * score_X.std()
    marked_N = words.marked_N
    number_U, sums = by_unit(
        words.unit_N, sensitive=marked_N, called=called_N, hits=called_N & marked_N
    )
    # The words too: sums do not hold their order among those of all units.
    columns = {SCORE: score_N, MARKED: marked_N}
    return Units(test_set, number_U, sums | side_by_side(words.unit_N, number_U, columns))


def rank_cues(
    test_set: str,
    words: MarkedWords,
    score_N: np.ndarray,
    k: int,
    right_L: np.ndarray | None = None,
) -> Units:
    """Return units whose contexts are ranked one by one, since relevance has no common scale.

    Contexts in which no word is marked, or every word is, have no order to be judged.

    Args:
        test_set: names the words.
        words: of contexts.
        score_N: by which they are ranked.
        k: first words that recall counts.
        right_L: whether the word that needs each context is right, by the numbers of lists; not
            given where that is unknown.

    Raises:
        NotApplicable: no context is left.
    """
    units, numbers = [], []
    for rows in lists_of(words):
        score_X, marked_X = score_N[rows], words.marked_N[rows]
        if not marked_X.any() or marked_X.all():
            continue
        units.append(words.unit_N[rows][0])
        context = judge_context(score_X, marked_X, k)
        if right_L is not None:
            # By its number: a context without words has no list.
            right = float(right_L[words.list_N[rows][0]])
            context |= {"right": right, "precision_right": right * context["average_precision"]}
        numbers.append(context)
    if not units:
        raise NotApplicable("no context that is read has both cues and other words")
    columns = {name: np.array([row[name] for row in numbers]) for name in numbers[0]}
    return Units(test_set, *by_unit(np.array(units), **columns))


def judge_context(score_X: np.ndarray, marked_X: np.ndarray, k: int) -> dict[str, float]:
    """Return the numbers of one context, whose cues are marked."""
    ones_1X = np.ones((1, len(score_X)))
    return {
        "average_precision": float(average_precision(score_X, marked_X, ones_1X)[0]),
        "chance": precision_of_chance(len(score_X), int(marked_X.sum())),
        "recall": recall_at(score_X, marked_X, k),
        "dot": float(as_shares(score_X) @ marked_X),
        "base": float(marked_X.mean()),
    }


def blind_scores(words: MarkedWords, seed: int) -> dict[str, np.ndarray]:
    """Return scores that ask no model, (N,): drawn at random, and the first words first."""
    position_N = np.concatenate([position_scores(len(rows)) for rows in lists_of(words)])
    drawn_N = np.random.default_rng(seed).random(len(words.list_N))
    return {RANDOM: drawn_N, POSITION: position_N}


def position_scores(count: int) -> np.ndarray:
    """Return scores of so many words, of which the first has the greatest, (X,)."""
    return np.arange(count, 0, -1, dtype=np.float64)


def lists_of(words: MarkedWords) -> Iterator[np.ndarray]:
    """Yield the rows of each list, in the order of the words."""
    starts = np.flatnonzero(np.diff(words.list_N, prepend=-1))
    yield from np.split(np.arange(len(words.list_N)), starts[1:])
