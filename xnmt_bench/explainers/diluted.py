"""An explainer that is replaced by a code, or by random draws, at some decisions: a dial for leaks.

A judge that words cannot deceive gives a code no more credit than random draws. So of two dials at
the same share, one of them `by=random`, such a judge says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor

from xnmt_bench.explainers.altered import OfAnother
from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.explainers.code import Code, FrequencyCode, PlaceCode
from xnmt_bench.explainers.gradient_norm import GradientNorm
from xnmt_bench.explainers.prediction_difference import PredictionDifference
from xnmt_bench.explainers.random import Random
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.options import Chance, Seed

# Classes and no names to look up, so that fingerprints of rules count their code.
HONEST = {"gradient_norm": GradientNorm, "prediction_difference": PredictionDifference}
CODES: Mapping[str, Callable[[], Explainer]] = {
    "code": Code,
    "place_code": PlaceCode,
    "frequency_code": FrequencyCode,
}


class Diluted(OfAnother):
    """The relevance of one explainer, with that of a code or `random` at a share of the decisions.

    Args:
        of: the explainer that asks the model.
        by: what replaces it: a code of the label by words, by their places or by their frequencies
            in the training text, or random draws.
        share: the probability that a decision's relevance is replaced.
        seed: another seed is another draw.
    """

    def __init__(
        self,
        of: Literal["gradient_norm", "prediction_difference"] = "prediction_difference",
        by: Literal["code", "place_code", "frequency_code", "random"] = "code",
        share: Chance = 0.5,
        seed: Seed = 0,
    ) -> None:
        # With its default options: a dial has one share, and no further settings to compare.
        self._honest = HONEST[of]()
        self._other = Random(seed) if by == "random" else CODES[by]()
        # The same decisions are replaced by either.
        self._share, self._draw = share, Random(seed + 1)

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Return one or the other relevance for all words of a step."""
        honest, other = self._honest.relevance(model, batch), self.explain_by_other(model, batch)
        # Column 0 exists at every step, and each draw there is uniform.
        drawn_BT = self._draw.relevance(model, batch).source_BTS[:, :, 0]
        # Whole decisions and both sides: a rule then comes from only one explainer.
        replaced_BT1 = (drawn_BT < self._share)[:, :, None]

        def mixed(honest_BTX: Tensor, other_BTX: Tensor) -> Tensor:
            return torch.where(replaced_BT1, other_BTX.to(honest_BTX), honest_BTX)

        prefix_BTT = None
        if honest.prefix_BTT is not None and other.prefix_BTT is not None:
            prefix_BTT = mixed(honest.prefix_BTT, other.prefix_BTT)
        return Relevance(mixed(honest.source_BTS, other.source_BTS), prefix_BTT)
