"""Training of a student, by Lightning."""

from __future__ import annotations

import numpy as np
from torch.utils.data import DataLoader

from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.metrics.student.guided import GuidedTransformer
from xnmt_bench.metrics.student.maps import GuidedBatches, Maps
from xnmt_bench.nmt.batching import loader
from xnmt_bench.nmt.training import NMTTraining
from xnmt_bench.nmt.training_options import NMTTrainingOptions


class StudentTraining(NMTTraining):
    """Maximum-likelihood training under teacher forcing, with the map of each sentence.

    Args:
        student: with fresh weights.
        split: the sentences.
        maps: of the sentences; None for a student without.
        cut: how many sentences it learns from; it is validated on the others.
        sentences: how many there are.
        options: what decides the weights.
    """

    def __init__(
        self,
        student: GuidedTransformer,
        split: EncodedSplit,
        maps: Maps | None,
        cut: int,
        sentences: int,
        options: NMTTrainingOptions,
    ) -> None:
        learnt, held_out = np.arange(cut), np.arange(cut, sentences)
        # The base class needs splits of its own; batches with maps are made below.
        super().__init__(student, split.taken(learnt), split.taken(held_out), options)
        self._split, self._maps, self._learnt, self._held_out = split, maps, learnt, held_out

    def _batches(self, epoch: int) -> GuidedBatches:
        tokens = self._options.batch_tokens
        return GuidedBatches(self._split, self._maps, self._learnt, tokens, self.seed, epoch)

    def val_dataloader(self) -> DataLoader:
        """Return the held-out sentences in their order."""
        tokens = self._options.batch_tokens
        batches = GuidedBatches(self._split, self._maps, self._held_out, tokens, None)
        return loader(batches, self.device)
