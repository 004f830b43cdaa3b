"""IBM model 1 (Brown et al. 1993): which word is a translation of which."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from xnmt_bench.corpora.encoded import EncodedSplit
from xnmt_bench.corpora.subwords import current_span

CHUNK = 5_000_000  # pairs of words that are counted together: bounds memory
LEAST = 1e-6  # less probable translations are left out of the table


def ibm_model_1(split: EncodedSplit, sentences: int, iterations: int) -> dict[str, np.ndarray]:
    """Trains IBM model 1 on a split's first pairs, EOS on both sides included.

    The source's EOS stands for the empty word: it is in every sentence and can explain what no
    other word explains.

    Returns:
        `source`, `target` ids and `probability` P(target given source), sorted by the ids.
    """
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
        probability_N = count_N / total[source_N]
    kept = probability_N >= LEAST
    return {
        "source": source_N[kept].astype(np.int32),
        "target": (keys_N % largest)[kept].astype(np.int32),
        "probability": probability_N[kept].astype(np.float32),
    }


def _pairs(
    split: EncodedSplit, sentences: int, largest: int
) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Every source word with every target word of its sentence, in chunks of bounded size.

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
