"""Maps: an explainer's relevance as shares of the source, on disk, and in batches.

Shapes: T target ids of a sentence, S source ids; B sentences, U rows of the longest map.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.errors import StoreError
from xnmt_bench.metrics.student.guided import GuidedBatch
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.batching import PairBatches
from xnmt_bench.rules.table import SentenceRelevance


class Maps(Protocol):
    """The map of each sentence of a split, (T, S), by its index."""

    def __getitem__(self, index: int, /) -> np.ndarray: ...


def map_of(relevance_TS: np.ndarray) -> np.ndarray:
    """Return relevance of source ids as shares of each step: that of the least relevant id is 0.

    Only how far scores lie apart counts, so that neither their sign nor their size matters. A step
    whose ids are all as relevant looks at all of them alike.
    """
    above_TS = relevance_TS - relevance_TS.min(axis=1, keepdims=True)
    sums_T1 = above_TS.sum(axis=1, keepdims=True)
    # Even and not zero: `multiply` divides by the sum of its products.
    even_TS = np.full_like(above_TS, 1 / above_TS.shape[1])
    return np.divide(above_TS, sums_T1, out=even_TS, where=sums_T1 > 0)


def write_maps(relevances: Iterable[SentenceRelevance], split: EncodedSplit, path: Path) -> None:
    """Write the maps of a split's first sentences, one after the other.

    Args:
        relevances: of its sentences, in its order.
        split: the sentences, in the order of explanation.
        path: where they go.

    Raises:
        StoreError: a sentence's relevance is not of its words.
    """
    with path.open("wb") as file:
        for index, relevance in enumerate(relevances):
            # Files hold no shapes, so a sentence out of order would shift all that follow.
            shape = (len(split.target[index]), len(split.source[index]))
            if relevance.source_TS.shape != shape or relevance.number != split.number[index]:
                raise StoreError(
                    f"{path}: the relevance of sentence {relevance.number} has another sentence's "
                    "shape"
                )
            # Four bytes a number: the maps of a training split are its largest artefact.
            file.write(map_of(relevance.source_TS).astype("<f4").tobytes())


class StoredMaps:
    """Maps that `write_maps` wrote; they stay on disk.

    Args:
        path: of the file.
        split: of whose sentences they are.
        sentences: how many there are.
    """

    def __init__(self, path: Path, split: EncodedSplit, sentences: int) -> None:
        self._words_N = split.source.lengths()[:sentences]
        sizes_N = split.target.lengths()[:sentences] * self._words_N
        self._ends_N = np.cumsum(sizes_N)
        # Mapped and not read, since training draws sentences in a random order.
        self._flat = np.memmap(path, "<f4", "r")
        if len(self._flat) != self._ends_N[-1]:
            raise StoreError(f"{path}: does not hold the maps of {sentences} sentences")

    def __getitem__(self, index: int, /) -> np.ndarray:
        start = self._ends_N[index - 1] if index else 0
        # A copy, so that no batch holds on to the whole file.
        flat = np.array(self._flat[start : self._ends_N[index]])
        return flat.reshape(-1, self._words_N[index])


class ExchangedMaps:
    """The map of the next sentence in the place of each sentence's own, stretched to its lengths.

    Args:
        maps: the sentences' own.
        split: the sentences.
        sentences: how many; the last one has the map of the first.
    """

    def __init__(self, maps: Maps, split: EncodedSplit, sentences: int) -> None:
        self._maps, self._sentences = maps, sentences
        self._shape_N = np.stack([split.target.lengths(), split.source.lengths()], axis=1)

    def __getitem__(self, index: int, /) -> np.ndarray:
        # The neighbour and no draw: no map is used twice, and none stays in its place.
        other_TS = self._maps[(index + 1) % self._sentences]
        places = (
            np.arange(length) * other_length // length
            for length, other_length in zip(self._shape_N[index], other_TS.shape, strict=True)
        )
        # Nearest places repeat or drop ids, so that shares are made anew.
        return map_of(other_TS[np.ix_(*places)])


def pad_maps(maps: Sequence[np.ndarray], words: int) -> Tensor:
    """Return maps as one tensor (B, U, S): 0 for padding, and the last row again behind a map."""
    map_BUS = np.zeros((len(maps), max(map(len, maps)), words), dtype=np.float32)
    for row, map_TS in enumerate(maps):
        steps, width = map_TS.shape
        map_BUS[row, :steps, :width] = map_TS
        # A translation may be longer than the explained target.
        map_BUS[row, steps:, :width] = map_TS[-1]
    return torch.from_numpy(map_BUS)


class GuidedBatches(PairBatches):
    """Batches of pairs with their maps.

    Args:
        split: the pairs.
        maps: of the pairs; None for batches without.
        members: indices of those that are in the batches.
        batch_tokens, seed, epoch: as of `PairBatches`.
    """

    def __init__(
        self,
        split: EncodedSplit,
        maps: Maps | None,
        members: np.ndarray,
        batch_tokens: int,
        seed: int | None,
        epoch: int = 0,
    ) -> None:
        super().__init__(split.taken(members), batch_tokens, seed, epoch)
        self._maps, self._members = maps, members

    def collate(self, indices: np.ndarray) -> Batch:
        """Return some of the pairs as a batch, with their maps if there are any."""
        batch = super().collate(indices)
        if self._maps is None:
            return batch
        # Batches count within the members, maps within the split.
        maps = [self._maps[index] for index in self._members[indices].tolist()]
        return GuidedBatch(**vars(batch), map_BUS=pad_maps(maps, batch.source_BS.shape[1]))
