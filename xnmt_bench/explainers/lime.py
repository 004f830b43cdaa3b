"""LIME: a linear model of what a system says with words switched off at random."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from xnmt_bench.device import Room, exact
from xnmt_bench.explainers.base import Explainer, Relevance, in_parts
from xnmt_bench.explainers.coalitions import Coalitions
from xnmt_bench.explainers.objective import Foil, Objective, Of
from xnmt_bench.explainers.random import seeded
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.switched import Removal
from xnmt_bench.options import Count, Positive, Seed


class Lime(Explainer):
    """Weights of a ridge regression on which words are on (Ribeiro et al. 2016).

    Each row has every word on with probability 1/2, and serves all steps; a step's regression is on
    the words that it sees. Rows that are like the whole sentence weigh more: by an exponential
    kernel of the cosine distance, as in Captum.

    Args:
        samples: rows of a sentence.
        ridge: the penalty on squared weights.
        width: of the kernel.
        of: what is explained: the label's probability, its logarithm or its logit.
        foil: `second`, the most probable word but the label, whose number is subtracted; None for
            none.
        removal: what replaces the embedding of a word that is off.
        seed: another seed draws other rows.
        positions: of the decoder, computed in one pass. It bounds memory and changes no result.
    """

    sizes = ("positions",)

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
        self._samples, self._ridge, self._width = samples, ridge, width
        self._seed, self._removal, self._objective = seed, removal, Objective(of, foil)
        self._room = Room(positions, cpu=2048, each=2**18)

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Fit each step of each sentence; the sentence's own ids decide its rows."""
        return self._room.tried(batch.source_BS.device, partial(self._relevance, model, batch))

    def _relevance(self, model: NMTModel, batch: Batch, positions: int) -> Relevance:
        # One sentence at a time, whose rows fill a pass.
        return in_parts(batch, lambda *_: 1, partial(self._fit, model, positions))

    def _fit(self, model: NMTModel, positions: int, part: Batch) -> tuple[Tensor, Tensor]:
        """Return scores over source ids (1, T, S) and decoder inputs (1, T, T)."""
        some = Coalitions(model, part, self._objective, positions, self._removal)
        generator = seeded(self._seed, part.source_BS[0], part.target_BT[0])
        drawn_RX = torch.rand(self._samples, some.source + some.prefix, generator=generator) < 0.5
        keep_RX = drawn_RX.to(part.source_BS.device)
        value_RT = some.values(keep_RX)
        steps = value_RT.shape[1]
        score_TX = value_RT.new_zeros(steps, keep_RX.shape[1])
        for step in part.current_BT[0].nonzero()[:, 0].tolist():
            visible = some.source + step  # source words and earlier target words
            score_TX[step, :visible] = self._regress(keep_RX[:, :visible], value_RT[:, step])
        source_TS, prefix_TU = score_TX.split([some.source, some.prefix], dim=1)
        return source_TS[None], torch.nn.functional.pad(prefix_TU, (1, 0))[None]

    def _regress(self, keep_RX: Tensor, value_R: Tensor) -> Tensor:
        """Return the weights of words, (X,), with an intercept that is not penalised."""
        on_RX, y_R = (x.to(exact(value_R.device)) for x in (keep_RX, value_R))
        # The cosine of a row and of the row in which all words are on.
        cosine_R = (on_RX.sum(1) / on_RX.shape[1]).sqrt()
        weight_R = (-((1 - cosine_R) ** 2) / (2 * self._width**2)).exp()
        share_R = weight_R / weight_R.sum()
        # Centred by the weighted means, the intercept is gone.
        on_RX, y_R = on_RX - share_R @ on_RX, y_R - share_R @ y_R
        weighted_XR = on_RX.T * weight_R
        penalty_XX = self._ridge * torch.eye(on_RX.shape[1]).to(on_RX)
        return torch.linalg.solve(weighted_XR @ on_RX + penalty_XX, weighted_XR @ y_R).to(value_R)
