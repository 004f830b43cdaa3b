"""A lexicon in the place of an explanation: IBM model 1, learnt from only the training text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch

from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.errors import XnmtError
from xnmt_bench.explainers.base import Explainer, Relevance, require_labels
from xnmt_bench.explainers.nearest import previous_first
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.options import Count
from xnmt_bench.words.ibm_model_1 import ibm_model_1


class Lexicon(Explainer):
    """P(label given source word) of IBM model 1 (Brown et al. 1993); on the prefix, nearness.

    It knows the language and the label, and has never met the model.

    Args:
        iterations: of expectation maximisation.
        sentences: training pairs that it learns from, the first ones.
    """

    papers = ("brown1993",)
    blind: ClassVar[bool] = True

    def __init__(self, iterations: Count = 5, sentences: Count = 100_000) -> None:
        self.iterations, self.sentences = iterations, sentences

    def prepare(self, train: EncodedSplit) -> Mapping[str, np.ndarray]:
        """Return the table: `source` and `target` ids of each pair, and its `probability`."""
        # A bound, since the table holds every two words that met in a training pair.
        return ibm_model_1(train, min(self.sentences, len(train)), self.iterations)

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Return how probable the label is as a translation of each source word.

        Raises:
            XnmtError: `prepare` has not run.
        """
        if self.learnt is None:
            raise XnmtError("the lexicon has learnt from no training split: call prepare first")
        # On the host, where the table lies and is searched.
        labels_BT = require_labels(batch).cpu().numpy()
        source_BS = batch.source_BS.cpu().numpy()
        vocabulary = len(model.target_subwords)
        # Pair of ids as one number: the table is sorted by it, so a lookup is a binary search.
        keys_N = self.learnt["source"].astype(np.int64) * vocabulary + self.learnt["target"]
        wanted_BTS = source_BS[:, None].astype(np.int64) * vocabulary + labels_BT[:, :, None]
        # A pair behind the last would fall off the table; compared below, it is found to be
        # unknown.
        place_BTS = np.searchsorted(keys_N, wanted_BTS).clip(max=len(keys_N) - 1)
        known_BTS = keys_N[place_BTS] == wanted_BTS
        # Words that never met in training count as impossible translations.
        probability_BTS = np.where(known_BTS, self.learnt["probability"][place_BTS], 0)
        source_BTS = torch.from_numpy(probability_BTS.astype(np.float32)).to(batch.source_BS.device)
        return Relevance.of_inputs(batch, source_BTS, previous_first(batch))
