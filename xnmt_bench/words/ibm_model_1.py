"""IBM model 1 (Brown et al. 1993): which word is a translation of which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from xnmt_bench.corpora.sentence import Links
from xnmt_bench.corpora.vocabulary.encoded import EncodedSide, EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import EOS, WORDS, current_span

WordPair = tuple[Sequence[str], Sequence[str]]  # the words of a source and of its target
ITERATIONS = 5  # of expectation maximisation
CHUNK = 5_000_000  # pairs of words that are counted together: bounds memory
LEAST = 1e-6  # less probable translations are left out of the table


def ibm_model_1(split: EncodedSplit, sentences: int, iterations: int) -> dict[str, np.ndarray]:
    """Train IBM model 1 on a split's first pairs, EOS on both sides included.

    The source's EOS is the empty word: it is in every sentence and can explain what no
    other word explains.

    Returns:
        `source`, `target` ids and `probability` P(target given source), sorted by the ids.
    """
    # A pair is one number, source * largest + target, so that counting is sorting.
    largest = 1 + max(int(split.target[i].max()) for i in range(sentences))
    keys_N = np.unique(
        np.concatenate([np.unique(key) for key, _, _ in _pairs(split, sentences, largest)])
    )
    source_N = keys_N // largest
    probability_N = np.ones(len(keys_N))  # as good as even: each target word is normalised below
    for _ in range(iterations):
        count_N = np.zeros(len(keys_N))
        for key, word, words in _pairs(split, sentences, largest):
            place = np.searchsorted(keys_N, key)
            weight = probability_N[place]
            weight /= np.bincount(word, weight, words)[word]  # over the words of its source
            count_N += np.bincount(place, weight, len(keys_N))
        total = np.bincount(source_N, count_N)
        probability_N = count_N / total[source_N]  # P(target given source) sums to 1 by source
    kept = probability_N >= LEAST
    return {
        "source": source_N[kept].astype(np.int32),
        "target": (keys_N % largest)[kept].astype(np.int32),
        "probability": probability_N[kept].astype(np.float32),
    }


def agreed_links(pairs: Iterable[WordPair], further: Iterable[WordPair] = ()) -> list[Links]:
    """Return the links of each pair on which the model agrees in both directions.

    Each word has one link at most: to what it is most probably a translation of, and which is most
    probably a translation of it. All words are held as numbers while it learns.

    Args:
        pairs: which are linked, and learnt from.
        further: others to learn from.
    """
    vocabularies: tuple[dict[str, int], dict[str, int]] = ({}, {})
    rows, linked = (list[np.ndarray](), list[np.ndarray]()), 0
    for linked_too, texts in chain(((1, p) for p in pairs), ((0, p) for p in further)):
        linked += linked_too
        for words, ids, side in zip(texts, vocabularies, rows, strict=True):
            ids_of_words = [ids.setdefault(word, WORDS + len(ids)) for word in words]
            side.append(np.array([*ids_of_words, EOS], dtype=np.int32))
    if not linked:
        return []
    source, target = (EncodedSide.of(side) for side in rows)  # type: ignore[arg-type]
    forward, backward = (
        _best(EncodedSplit(*sides, np.arange(len(sides[0]))), linked)
        for sides in ((source, target), (target, source))
    )
    both = zip(forward, backward, strict=True)
    return [frozenset(there & {(i, j) for j, i in back}) for there, back in both]


def _best(split: EncodedSplit, linked: int) -> Iterator[set[tuple[int, int]]]:
    """Yield each target word with the source word that it is most probably a translation of."""
    table = ibm_model_1(split, len(split), ITERATIONS)
    # Also of the words that have no probability left in the table.
    width = 1 + max(int(split.target[n].max()) for n in range(len(split)))
    keys_N = table["source"].astype(np.int64) * width + table["target"]
    for n in range(linked):
        # The target's EOS needs no link.
        source, target = split.source[n].astype(np.int64), split.target[n][:-1]
        wanted_TS = source * width + target[:, None]
        place_TS = np.searchsorted(keys_N, wanted_TS).clip(max=len(keys_N) - 1)
        known_TS = keys_N[place_TS] == wanted_TS
        best_T = np.where(known_TS, table["probability"][place_TS], 0).argmax(1)
        # A word without a probable source word has no link. The source's EOS means no word.
        linked_T = known_TS.any(1) & (best_T < len(source) - 1)
        yield {(int(i), j) for j, i in enumerate(best_T) if linked_T[j]}


def _pairs(
    split: EncodedSplit, sentences: int, largest: int
) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Yield every source word with every target word of its sentence, in chunks of bounded size.

    Yields:
        The key of each pair, the number of its target word in the chunk, and how many target words
        the chunk has.
    """
    keys: list[np.ndarray] = []
    words: list[np.ndarray] = []
    count = size = 0
    for i in range(sentences):
        source, target = (
            ids[slice(*current_span(ids))] for ids in (split.source[i], split.target[i])
        )
        keys.append((source.astype(np.int64) * largest + target[:, None]).ravel())
        words.append(np.repeat(np.arange(count, count + len(target)), len(source)))
        count, size = count + len(target), size + len(keys[-1])
        if size >= CHUNK or i == sentences - 1:
            yield np.concatenate(keys), np.concatenate(words), count
            keys, words, count, size = [], [], 0, 0
