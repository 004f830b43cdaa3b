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

Place = tuple[int, bool]  # of a word on its side, and whether that is the prefix


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
    def words(self, planted: Planted) -> tuple[list[Place], list[Place]]:
        """Return the words that are named, and those that are kept out."""

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Read the planted words off the corpus; neither model nor labels play a part.

        Raises:
            NotApplicable: the corpus plants no words.
        """
        if batch.gold is None or batch.words is None or not any(g.planted for g in batch.gold):
            raise NotApplicable("these sentences have no planted words")
        others = self._others.relevance(model, batch)
        source_BTS = others.source_BTS.cpu().clone()
        assert others.prefix_BTT is not None  # both orders are of both sides
        prefix_BTT = others.prefix_BTT.cpu().clone()
        for row, (gold, words_of_ids) in enumerate(zip(batch.gold, batch.words, strict=True)):
            source_S, target_T = map(torch.from_numpy, words_of_ids)
            # No other source word is further away than a context is long. The nearest prefix word
            # has its place.
            first, last = len(target_T) + 1.0, -len(source_S) - 2.0
            for planted in gold.planted:
                named, kept_out = self.words(planted)
                # Every piece of the planted word is a decision of its own.
                steps_T = (target_T == planted.word)[:, None]
                for places, value in ((named, first), (kept_out, last)):
                    for place, in_prefix in places:
                        relevance_BTX, words_X = (
                            (prefix_BTT, target_T) if in_prefix else (source_BTS, source_S)
                        )
                        relevance_TX = relevance_BTX[row, : len(target_T), : len(words_X)]
                        # What a step cannot see stays absent.
                        seen_TX = steps_T & (words_X == place) & ~relevance_TX.isnan()
                        relevance_TX[seen_TX] = value
        device = batch.source_BS.device
        return Relevance(source_BTS.to(device), prefix_BTT.to(device))


class NamesLink(NamesPlanted):
    """The planted word in its own place, which the target word translates."""

    def words(self, planted: Planted) -> tuple[list[Place], list[Place]]:
        """Return link and cue."""
        return [_link(planted)], [_cue(planted)]


class NamesCue(NamesPlanted):
    """The planted word at the end of the sentence, which says the marks again."""

    def words(self, planted: Planted) -> tuple[list[Place], list[Place]]:
        """Return cue and link."""
        return [_cue(planted)], [_link(planted)]


class NamesBoth(NamesPlanted):
    """Both planted words, for decisions that take both (`corpora.catalogue`); it needs k = 2."""

    def words(self, planted: Planted) -> tuple[list[Place], list[Place]]:
        """Return link and cue, and no word."""
        # Both are needed, so none is kept out.
        return [_link(planted), _cue(planted)], []


def _link(planted: Planted) -> Place:
    return planted.link, planted.link_in_prefix


def _cue(planted: Planted) -> Place:
    return planted.cue, planted.cue_in_prefix
