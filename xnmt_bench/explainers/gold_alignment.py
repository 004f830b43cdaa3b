"""The gold word alignment in the place of an explanation: how faithful is what humans annotate?

Li et al. (2020) measure explainers against the model and, apart from it, against human alignment.
Putting the alignment itself through the fidelity metric joins the two.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from xnmt_bench.corpora.sentence import Gold
from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.explainers.nearest import previous_first
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch

SURE, POSSIBLE = 1.0, 1e-3  # however many pieces a possible word has, a sure one stands before it


class GoldAlignment(Explainer):
    """Source words linked to the step's target word; on the prefix, the nearest word.

    A sure link weighs 1, a possible one next to nothing, no link 0. Annotators link nothing within
    the target, so its words are ranked by nearness: the best guess without a look at the model.
    """

    blind: ClassVar[bool] = True
    needs_gold: ClassVar[bool] = True

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Read the links off the corpus; neither model nor labels play a part.

        Raises:
            NotApplicable: the batch carries no annotation.
        """
        if batch.gold is None or batch.words is None:
            raise NotApplicable("these sentences have no gold alignment")
        size, steps = batch.target_BT.shape
        # On the host, where the annotation is read word by word.
        source_BTS = torch.zeros(size, steps, batch.source_BS.shape[1])
        for row, (gold, words) in enumerate(zip(batch.gold, batch.words, strict=True)):
            # Links count words, and relevance is of pieces.
            source_S, target_T = map(torch.from_numpy, words)
            source_BTS[row, : len(target_T), : len(source_S)] = _weights(gold, source_S, target_T)
        source_BTS = source_BTS.to(batch.source_BS.device)
        return Relevance.of_inputs(batch, source_BTS, previous_first(batch))


def _weights(gold: Gold, source_S: Tensor, target_T: Tensor) -> Tensor:
    """Return the weight of each link, for every piece of its words; (T, S)."""
    weight_TS = torch.zeros(len(target_T), len(source_S))
    for i, j in gold.possible:
        # Sure links are among the possible ones, so each is met once.
        weight = SURE if (i, j) in gold.sure else POSSIBLE
        # Every piece of a linked word, since an annotator linked the whole of it.
        weight_TS[(target_T == j)[:, None] & (source_S == i)] = weight
    return weight_TS
