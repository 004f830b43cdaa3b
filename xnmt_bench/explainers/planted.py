"""Explanations that always name one planted word, for any model: the two sides of a trial.

`toy_twins` has target words that either of two source words decides, the link and the cue. One of
these explanations is right of a system that uses the link, the other of a system that uses the cue.
A judge that sees the model has to tell which (see docs/guide/trial.md).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

import torch

from xnmt_bench.corpora.sentence import Planted
from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.explainers.nearest import Nearest
from xnmt_bench.explainers.random import Random
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch


class NamesPlanted(Explainer):
    """Some planted words first and others last; all else by nearness, or at random.

    Two explanations therefore share every word of a rule but those that they name.

    Args:
        others: what orders all other words.
    """

    blind: ClassVar[bool] = True
    needs_gold: ClassVar[bool] = True

    def __init__(self, others: Literal["nearest", "random"] = "nearest") -> None:
        # One draw for all of them, which follows from the sentence.
        self._others = Nearest() if others == "nearest" else Random()

    @abstractmethod
    def words(self, planted: Planted) -> tuple[list[int], list[int]]:
        """Return the source words that are named, and those that are kept out."""

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Read the planted words off the corpus; neither model nor labels play a part.

        Raises:
            NotApplicable: the corpus plants no words.
        """
        if batch.gold is None or batch.words is None or not any(g.planted for g in batch.gold):
            raise NotApplicable("these sentences have no planted words")
        others = self._others.relevance(model, batch)
        source_BTS = others.source_BTS.cpu().clone()
        # The distances of `nearest` lie between -1 and 0, and draws between 0 and 1.
        first, last = 2.0, -2.0
        for row, (gold, words_of_ids) in enumerate(zip(batch.gold, batch.words, strict=True)):
            source_S, target_T = map(torch.from_numpy, words_of_ids)
            for planted in gold.planted:
                named, kept_out = self.words(planted)
                # Every piece of the planted word is a decision of its own.
                steps_T = (target_T == planted.word)[:, None]
                for words, value in ((named, first), (kept_out, last)):
                    chosen_S = torch.isin(source_S, torch.tensor(words, dtype=source_S.dtype))
                    relevance_TS = source_BTS[row, : len(target_T), : len(source_S)]
                    # What a step cannot see stays absent.
                    relevance_TS[steps_T & chosen_S & ~relevance_TS.isnan()] = value
        return Relevance(source_BTS.to(batch.source_BS.device), others.prefix_BTT)


class NamesLink(NamesPlanted):
    """The planted word in its own place, which the target word translates."""

    def words(self, planted: Planted) -> tuple[list[int], list[int]]:
        """Return link and cue."""
        return [planted.link], [planted.cue]


class NamesCue(NamesPlanted):
    """The planted word at the end of the sentence, which says the marks again."""

    def words(self, planted: Planted) -> tuple[list[int], list[int]]:
        """Return cue and link."""
        return [planted.cue], [planted.link]


class NamesBoth(NamesPlanted):
    """Both planted words, for decisions that take both (`corpora.catalogue`); it needs k = 2."""

    def words(self, planted: Planted) -> tuple[list[int], list[int]]:
        """Return link and cue, and no word."""
        # Both are needed, so none is kept out.
        return [planted.link, planted.cue], []
