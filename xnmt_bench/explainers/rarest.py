"""Rare words first: what an explanation gains by the choice of words that carry much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.corpora.vocabulary.encoded import EncodedSide, EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import current_span
from xnmt_bench.errors import XnmtError
from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch


class Rarest(Explainer):
    """Minus the logarithm of how often a word is in the training text, plus one; both sides."""

    blind: ClassVar[bool] = True

    def prepare(self, train: EncodedSplit) -> Mapping[str, np.ndarray]:
        """Return how often each id stands on each side, `source` and `target`."""
        return {"source": _count(train.source), "target": _count(train.target)}

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Return how rare each word is, the same at every step.

        Raises:
            XnmtError: `prepare` has not run.
        """
        steps, device = batch.target_BT.shape[1], batch.source_BS.device
        source_BTS, input_BTT = (
            -torch.log1p(count_BX).float().to(device)[:, None].expand(-1, steps, -1)
            for count_BX in self.count_words(batch)
        )
        return Relevance.of_inputs(batch, source_BTS, input_BTT)

    def count_words(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return how often each source id (B, S) and decoder input (B, T) is in the training text.

        Returns:
            In float64, on the CPU.

        Raises:
            XnmtError: `prepare` has not run.
        """
        if self.learnt is None:
            raise XnmtError("no words have been counted: call prepare first")
        # Inputs and not targets: input j is the word before step j, as `of_inputs` expects.
        source, target = self.learnt["source"], self.learnt["target"]
        return _count_in(batch.source_BS, source), _count_in(batch.input_BT, target)


def _count(side: EncodedSide) -> np.ndarray:
    """Return how often each id is in the sentences of a side, (V,)."""
    counts: Counter[int] = Counter()
    for index in range(len(side)):  # the ids stay on disk, and may be more than memory holds
        ids = side[index]
        # A context's words are sentences of their own, and would count again.
        counts.update(ids[slice(*current_span(ids))].tolist())
    return np.array([counts[i] for i in range(max(counts, default=-1) + 1)], dtype=np.int64)


def _count_in(ids: Tensor, count_V: np.ndarray) -> Tensor:
    """Return how often each id is in the training text, in float64 on the CPU."""
    # An id beyond the counts was never seen.
    counted_ids = ids.cpu().numpy().clip(max=len(count_V))
    return torch.from_numpy(np.append(count_V, 0)[counted_ids]).double()
