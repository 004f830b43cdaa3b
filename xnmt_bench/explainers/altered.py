"""Explainers whose relevance is another one's, altered: to try metrics, and not to explain."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from torch import Tensor

from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.explainers.random import Random
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.switched import is_special
from xnmt_bench.registry import load_explainer

# Beside the seed, so that `random` of the same seed is not altered by its own draws.
SALT = 2**33
# What is true of an altered explainer if it is true of the one that it alters.
SHARED = ("blind", "needs_gold", "against_gold", "attends")


class OfAnother(Explainer):
    """Base of explainers that give another one's relevance, in part, and learn what that learns."""

    for_testing_judges: ClassVar[bool] = True
    _other: Explainer

    @property
    def learns(self) -> bool:
        """Whether the other explainer learns."""
        return self._other.learns

    def prepare(self, train: EncodedSplit) -> Mapping[str, np.ndarray] | None:
        """Return what the other explainer learns."""
        return self._other.prepare(train)

    def explain_by_other(self, model: NMTModel, batch: Batch) -> Relevance:
        """Return the other explainer's relevance."""
        # Here and not in `__init__`: the pipeline sets `learnt` after it has made the explainer.
        self._other.learnt = self.learnt
        return self._other.relevance(model, batch)


class Altered(OfAnother):
    """Base of explainers that alter the relevance of another one.

    Args:
        of: name of the other explainer, which has its default options.
        seed: of the draws.
    """

    def __init__(self, of: str, seed: int) -> None:
        self.alters = of
        self._other = self.altered = load_explainer(of)
        for attribute in SHARED:
            setattr(self, attribute, getattr(self._other, attribute))
        self._draw = Random(seed + SALT)

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Return the other explainer's relevance, altered for each step and side."""
        relevance = self.explain_by_other(model, batch)
        drawn = self._draw.relevance(model, batch)
        words_BS, words_BT = (~is_special(x)[:, None] for x in (batch.source_BS, batch.target_BT))
        # None where the other explainer scores only source words.
        prefix_BTT = relevance.prefix_BTT
        if prefix_BTT is not None:
            assert drawn.prefix_BTT is not None
            prefix_BTT = self._alter(prefix_BTT, drawn.prefix_BTT.to(prefix_BTT), words_BT)
        source_BTS = relevance.source_BTS
        source_BTS = self._alter(source_BTS, drawn.source_BTS.to(source_BTS), words_BS)
        # Without the other's error, which was of the scores before they were altered.
        return Relevance(source_BTS, prefix_BTT)

    @abstractmethod
    def _alter(self, scores_BTX: Tensor, drawn_BTX: Tensor, words_B1X: Tensor) -> Tensor:
        """Return the altered scores of a side.

        Args:
            scores_BTX: of the other explainer, NaN for what a step cannot see.
            drawn_BTX: a number from 0 to 1 for each of the same words, NaN for the same others.
            words_B1X: True for words, False for BOS, EOS and padding.
        """
