"""A lexicon in the place of an explanation: IBM model 1, learnt from the training text alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
import torch

from xnmt_bench.corpora.encoded import EncodedSplit
from xnmt_bench.corpora.subwords import current_span
from xnmt_bench.errors import XnmtError
from xnmt_bench.explainers.base import Explainer, Relevance, require_labels
from xnmt_bench.explainers.nearest import previous_first
from xnmt_bench.nmt.base import Batch, NMTModel
from xnmt_bench.options import Count

CHUNK = 5_000_000  # pairs of words that are counted together: bounds memory
LEAST = 1e-6  # less probable translations are left out of the stored table


class Lexicon(Explainer):
    """P(label given source word) of IBM model 1 (Brown et al. 1993); on the prefix, nearness.

    It knows the language and the label, and has never met the model.

    Args:
        iterations: of expectation maximisation.
        sentences: training pairs that it learns from, the first ones.
    """

    blind: ClassVar[bool] = True

    def __init__(self, iterations: Count = 5, sentences: Count = 100_000) -> None:
        self.iterations, self.sentences = iterations, sentences

    def prepare(self, train: EncodedSplit) -> Mapping[str, np.ndarray]:
        """The table: `source` and `target` ids of each pair, and its `probability`."""
        return ibm_model_1(train, min(self.sentences, len(train)), self.iterations)

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """How probable the label is as a translation of each source word.

        Raises:
            XnmtError: nobody has prepared it.
        """
        if self.learnt is None:
            raise XnmtError("the lexicon has learnt from no training split: call prepare first")
        labels_BT = require_labels(batch).cpu().numpy()
        source_BS = batch.source_BS.cpu().numpy()
        vocabulary = len(model.target_subwords)
        keys_N = self.learnt["source"].astype(np.int64) * vocabulary + self.learnt["target"]
        wanted_BTS = source_BS[:, None].astype(np.int64) * vocabulary + labels_BT[:, :, None]
        place_BTS = np.searchsorted(keys_N, wanted_BTS).clip(max=len(keys_N) - 1)
        known_BTS = keys_N[place_BTS] == wanted_BTS
        probability_BTS = np.where(known_BTS, self.learnt["probability"][place_BTS], 0)
        source_BTS = torch.from_numpy(probability_BTS.astype(np.float32)).to(batch.source_BS.device)
        return Relevance.of_inputs(batch, source_BTS, previous_first(batch))


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
