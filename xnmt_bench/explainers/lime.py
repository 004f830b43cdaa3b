"""LIME: a linear model of what a system says with words switched off at random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.device import exact
from xnmt_bench.explainers.coalitions import CoalitionExplainer, Coalitions
from xnmt_bench.explainers.objective import Foil, Of
from xnmt_bench.nmt.switched import Removal
from xnmt_bench.options import Count, Positive, Seed

NUMBERS = 2**24  # of the rows of all steps that are regressed at once


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

    def rows(self, words: int) -> int:
        """Return how many rows a sentence needs, however many words it has."""
        return self._samples

    def scores(
        self, sentences: Coalitions, generators: Sequence[torch.Generator]
    ) -> tuple[Tensor, ...]:
        """Return the weights of each step's regression, (B, T, X)."""
        words, device = sentences.source + sentences.prefix, sentences.device
        keep_BRX = np.zeros((len(generators), self._samples, words), dtype=bool)
        visible_BX = np.zeros((len(generators), words), dtype=bool)
        for b, (places_X, generator) in enumerate(zip(sentences.words_X, generators, strict=True)):
            # On the CPU and for all words of a sentence, so that neither device nor step plays a
            # part.
            drawn_RX = torch.rand(self._samples, len(places_X), generator=generator).numpy() < 0.5
            keep_BRX[b, :, places_X], visible_BX[b, places_X] = drawn_RX.T, True
        # A step sees the source words, and the target words before it.
        prefix_TU = np.arange(sentences.prefix) < np.arange(sentences.prefix + 1)[:, None]
        visible_TX = np.pad(prefix_TU, ((0, 0), (sentences.source, 0)), constant_values=True)
        visible_BTX = torch.as_tensor(visible_BX[:, None] & visible_TX, device=device)
        value_BRT, on_BRX = sentences.values(keep_BRX), torch.as_tensor(keep_BRX, device=device)
        # In parts, since each step has rows of words of its own.
        steps = max(1, NUMBERS // keep_BRX.size)
        parts = zip(visible_BTX.split(steps, 1), value_BRT.split(steps, 2), strict=True)
        return (torch.cat([self._regress(on_BRX, *part) for part in parts], dim=1),)

    def _regress(self, keep_BRX: Tensor, visible_BTX: Tensor, value_BRT: Tensor) -> Tensor:
        """Return the weights of words, (B, T, X), with an intercept that is not penalised.

        Args:
            keep_BRX: which words are on.
            visible_BTX: which of them a step sees; others have no weight there.
            value_BRT: what is regressed.
        """
        # In float64 where the device has it, since the system to solve may be nearly singular.
        widest = exact(value_BRT.device)
        on_BTRX = (keep_BRX[:, None] & visible_BTX[:, :, None]).to(widest)
        y_BTR1 = value_BRT.to(widest).transpose(1, 2)[..., None]
        # The cosine of a row and of the row in which all words are on.
        cosine_BTR = (on_BTRX.sum(3) / visible_BTX.sum(2)[..., None]).sqrt()
        weight_BTR = (-((1 - cosine_BTR) ** 2) / (2 * self._width**2)).exp()
        share_BT1R = (weight_BTR / weight_BTR.sum(2, keepdim=True))[:, :, None]
        # Centred by the weighted means, the intercept is gone.
        on_BTRX, y_BTR1 = on_BTRX - share_BT1R @ on_BTRX, y_BTR1 - share_BT1R @ y_BTR1
        weighted_BTXR = on_BTRX.transpose(2, 3) * weight_BTR[:, :, None]
        # With fewer rows than words, the penalty makes the solution unique; and words that a step
        # does not see get a weight of 0 by it.
        penalty_XX = self._ridge * torch.eye(on_BTRX.shape[3]).to(on_BTRX)
        products = weighted_BTXR @ on_BTRX + penalty_XX, weighted_BTXR @ y_BTR1
        # Without a check, which would wait for the device: the penalty leaves none singular.
        return torch.linalg.solve_ex(*products)[0][..., 0].to(value_BRT)
