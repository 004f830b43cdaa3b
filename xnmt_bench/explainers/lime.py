"""LIME: a linear model of what a system says with words switched off at random."""

from __future__ import annotations

import torch
from torch import Tensor

from xnmt_bench.device import exact
from xnmt_bench.explainers.coalitions import CoalitionExplainer, Coalitions
from xnmt_bench.explainers.objective import Foil, Of
from xnmt_bench.nmt.switched import Removal
from xnmt_bench.options import Count, Positive, Seed


class Lime(CoalitionExplainer):
    """Weights of a ridge regression on which words are on (Ribeiro et al. 2016).

    Each row has every word on with probability 1/2, and serves all steps; a step's regression is on
    the words that it sees. Rows that are like the whole sentence weigh more: by an exponential
    kernel of the cosine distance, as in Captum.

    Args:
        samples: rows of a sentence.
        ridge: the penalty on squared weights.
        width: of the kernel.
        of, foil, removal, seed, positions: as for `CoalitionExplainer`.
    """

    papers = ("ribeiro2016",)

    def __init__(
        self,
        samples: Count = 200,
        ridge: Positive = 1.0,
        width: Positive = 1.0,
        of: Of = "probability",
        foil: Foil | None = None,
        removal: Removal = "zero",
        seed: Seed = 0,
        positions: Count | None = None,
    ) -> None:
        super().__init__(of, foil, removal, seed, positions)
        self._samples, self._ridge, self._width = samples, ridge, width

    def scores(self, sentence: Coalitions, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Return the weights of each step's regression, (T, S + U)."""
        words = sentence.source + sentence.prefix
        # On the CPU and for all words of a sentence, so that neither device nor step plays a part.
        drawn_RX = torch.rand(self._samples, words, generator=generator) < 0.5
        keep_RX = drawn_RX.to(sentence.device)
        value_RT = sentence.values(keep_RX)
        score_TX = value_RT.new_zeros(value_RT.shape[1], words)
        for step, value_R in enumerate(value_RT.unbind(1)):
            visible = sentence.source + step  # source words and earlier target words
            score_TX[step, :visible] = self._regress(keep_RX[:, :visible], value_R)
        return (score_TX,)

    def _regress(self, keep_RX: Tensor, value_R: Tensor) -> Tensor:
        """Return the weights of words, (X,), with an intercept that is not penalised."""
        # In float64 where the device has it, since the system to solve may be nearly singular.
        on_RX, y_R = (x.to(exact(value_R.device)) for x in (keep_RX, value_R))
        # The cosine of a row and of the row in which all words are on.
        cosine_R = (on_RX.sum(1) / on_RX.shape[1]).sqrt()
        weight_R = (-((1 - cosine_R) ** 2) / (2 * self._width**2)).exp()
        share_R = weight_R / weight_R.sum()
        # Centred by the weighted means, the intercept is gone.
        on_RX, y_R = on_RX - share_R @ on_RX, y_R - share_R @ y_R
        weighted_XR = on_RX.T * weight_R
        # With fewer rows than words, the penalty makes the solution unique.
        penalty_XX = self._ridge * torch.eye(on_RX.shape[1]).to(on_RX)
        return torch.linalg.solve(weighted_XR @ on_RX + penalty_XX, weighted_XR @ y_R).to(value_R)
