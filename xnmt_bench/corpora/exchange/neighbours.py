"""Which words may replace each other in a text whose grammar is unknown: a heuristic.

Words are alike that stand between the same words, are about as frequent and are written alike:
`dog` and `child`, `dog.` and `horse.`, `with` and `on`. So word classes follow from a text of any
language (distributional clustering; Schütze 1993).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from unicodedata import category

import numpy as np

from xnmt_bench.corpora.exchange.substitutes import by_key
from xnmt_bench.corpora.sentence import SIDES, Corpus
from xnmt_bench.corpora.tokens import split_words

VERSION = 2  # raise it when the same text gives other substitutes
RAREST = 5  # occurrences; the neighbours of rarer words are too few to tell
WORDS = 30_000  # of a language, the most frequent ones
FRAMES = 500  # words whose neighbourhood is compared, the most frequent ones
FACTOR = 8  # between the frequencies of two words that are alike, at most
OVERLAP = 0.4  # of the neighbours of two words that are alike, at least
MOST = 16  # substitutes of a word
PART = 1000  # words that are compared at once
EDGE, OTHER = 0, 1  # columns of a sentence's end, and of all words but the most frequent ones

Texts = Callable[[], Iterator[Sequence[str]]]  # the words of each sentence


def alike_words(corpus: Corpus) -> dict[str, list[tuple[str, list[str]]]]:
    """Return the words of each side, with those that stand between like neighbours.

    They are of the training split.

    The overlap of two words is the Bhattacharyya coefficient of their left neighbours and that of
    their right ones, on average: 1 for the same distributions, 0 where none is shared. Words that
    replace each other have the same first and last punctuation, both or neither a capital, and
    both or neither only digits.

    Args:
        corpus: its training split is read twice for each side.
    """

    def texts_of(side: str) -> Texts:
        return lambda: (split_words(getattr(s, side)) for s in corpus.sentences("train"))

    return {side: [*_find_alike(texts_of(side))] for side in SIDES}


def _find_alike(texts: Texts) -> Iterator[tuple[str, list[str]]]:
    """Yield words with those that are most alike, best first."""
    count_of = Counter(word for words in texts() for word in words)
    # Sorted, so that nothing depends on the order of the text.
    words = sorted(count_of, key=lambda word: (-count_of[word], word))[:WORDS]
    words = [word for word in words if count_of[word] >= RAREST]
    if not words:  # such as sentences without blanks, each of them one word
        return
    root_NF = np.sqrt(_count_neighbours(texts(), words))
    root_NF /= np.sqrt(2 * np.array([[count_of[word]] for word in words]))
    place_of = {word: place for place, word in enumerate(words)}
    for group in by_key((_describe(word), word) for word in words).values():
        places = np.array([place_of[word] for word in group])
        count_G = np.array([count_of[word] for word in group])
        for start in range(0, len(group), PART):
            part = slice(start, start + PART)
            # Rounded, so that another processor finds the same order.
            overlap_PG = np.round(root_NF[places[part]] @ root_NF[places].T, 6)
            factor_PG = count_G[part, None] / count_G
            unlike_PG = (factor_PG > FACTOR) | (factor_PG < 1 / FACTOR) | (overlap_PG < OVERLAP)
            overlap_PG[unlike_PG] = 0
            np.fill_diagonal(overlap_PG[:, start:], 0)  # a word does not replace itself
            for word, overlap_G in zip(group[part], overlap_PG, strict=True):
                best = np.argsort(-overlap_G, kind="stable")[:MOST]
                yield word, [group[n] for n in best if overlap_G[n]]


def _count_neighbours(texts: Iterable[Sequence[str]], words: Sequence[str]) -> np.ndarray:
    """Return how often each frequent word stands left and right of each word, (N, 2F)."""
    place_of = {word: place for place, word in enumerate(words)}
    frames = {word: place for place, word in enumerate(words[:FRAMES], start=OTHER + 1)}
    count_N2F = np.zeros((len(words), 2, OTHER + 1 + len(frames)))
    for sentence in texts:
        neighbours = [EDGE, *(frames.get(word, OTHER) for word in sentence), EDGE]
        for word, left, right in zip(sentence, neighbours, neighbours[2:], strict=False):
            if (place := place_of.get(word)) is not None:
                count_N2F[place, 0, left] += 1
                count_N2F[place, 1, right] += 1
    return count_N2F.reshape(len(words), -1)


def _describe(word: str) -> str:
    """Return what words that replace each other share in writing."""
    # By category: vowel signs of Indic scripts belong to the word.
    is_sign = [category(character)[0] in "PSZC" for character in word]
    first = is_sign.index(False) if False in is_sign else len(word)
    last = len(word) - is_sign[::-1].index(False) if False in is_sign else len(word)
    core = word[first:last]
    return repr((word[:first], core[:1].isupper(), core.isdigit(), bool(core), word[last:]))
