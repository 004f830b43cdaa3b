"""Integrated gradients: gradients along the way from no word to the words, times the words."""

from __future__ import annotations

from functools import partial
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.explainers.base import Relevance, in_parts
from xnmt_bench.explainers.gradient import CPU, EACH, SharedPass, chunk_of, embed
from xnmt_bench.explainers.objective import Foil, ObjectiveExplainer, Of
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.options import Count


class IntegratedGradients(ObjectiveExplainer):
    """The integral of the gradient from zero embeddings to the words' (Sundararajan et al. 2017).

    BOS, and what a system puts around a sentence, stay. Points and weights are Gauss and
    Legendre's, as in Captum. The sum over words misses f(words) - f(zero) by the error of the
    quadrature, which more points lessen.

    Args:
        of: what is explained: the label's probability, its logarithm or its logit.
        foil: whose number is subtracted: `second`, the most probable word but the label; `gold`,
            the target's own word; None for none.
        points: on the way; each costs as much as the gradients do.
        positions: of the decoder, computed in one pass. It bounds memory and changes no result.
    """

    papers = ("sundararajan2017",)
    cpu, each = CPU, EACH
    error = "completeness gap, what the sum over words misses of f(words) - f(zero)"

    def __init__(
        self,
        of: Of = "probability",
        foil: Foil | None = None,
        points: Count = 50,
        positions: Count | None = None,
    ) -> None:
        super().__init__(of, foil, positions)
        nodes, weights = np.polynomial.legendre.leggauss(points)
        # From [-1, 1] to [0, 1].
        self._points, self._weights = (1 + nodes) / 2, weights / 2

    def _relevance(self, model: NMTModel, batch: Batch, positions: int) -> Relevance:
        """Sum over points; T backward passes at each."""
        explain = partial(self._integrate, model, positions)
        return in_parts(batch, lambda _, t: positions // (t * chunk_of(t, positions)), explain)

    def _integrate(self, model: NMTModel, positions: int, part: Batch) -> tuple[Tensor, ...]:
        """Return scores over source ids (B, T, S), decoder inputs (B, T, T), and the gap (B, T)."""
        size, steps = part.target_BT.shape
        words_BTC, (source_BSD, input_BTD) = self._objective.words(model, part), embed(model, part)
        # What moves: all but the first input, BOS.
        moving_BTD = input_BTD.clone()
        moving_BTD[:, 0] = 0
        scores = [x.new_zeros(size, steps, x.shape[1]) for x in (source_BSD, input_BTD)]
        # Several points in one pass, as rows of a batch, where memory allows.
        together = max(1, positions // (size * steps))
        for start in range(0, len(self._points), together):
            point_P, weight_P = (
                torch.as_tensor(x[start : start + together]).to(source_BSD)
                for x in (self._points, self._weights)
            )
            rows = [*range(size)] * len(point_P)
            point_R11 = point_P.repeat_interleave(size)[:, None, None]
            moved = (
                source_BSD[rows] * point_R11,
                # BOS stays whole at every point.
                (input_BTD - moving_BTD)[rows] + moving_BTD[rows] * point_R11,
            )
            shared = SharedPass(
                model, part.take(rows), positions, self._objective, moved, words_BTC[rows]
            )
            for some in chain.from_iterable(shared.chunks()):
                now_BT = part.current_BT[:, some, None]
                for whole_BTX, g_nRXD, end_BXD in zip(
                    scores, shared.gradient(some), (source_BSD, moving_BTD), strict=True
                ):
                    slope_nPBXD = g_nRXD.unflatten(1, (len(point_P), size))
                    sum_nBXD = torch.einsum("npbxd,p->nbxd", slope_nPBXD, weight_P)
                    whole_BTX[:, some] += (sum_nBXD * end_BXD).sum(-1).transpose(0, 1) * now_BT
        # Both ends once more, to say how much the quadrature misses.
        ends = (source_BSD, input_BTD), (torch.zeros_like(source_BSD), input_BTD - moving_BTD)
        value_BT, without_BT = (self._value(model, part, *end, words_BTC) for end in ends)
        summed_BT = scores[0].sum(-1) + scores[1].sum(-1)
        return *scores, (summed_BT - (value_BT - without_BT)).abs() * part.current_BT

    @torch.no_grad()
    def _value(
        self, model: NMTModel, part: Batch, source_BSD: Tensor, input_BTD: Tensor, words_BTC: Tensor
    ) -> Tensor:
        """Return the number that is explained at some embeddings, (B, T)."""
        states_BTD = model.decode(model.encode(source_BSD, part.layout), input_BTD)
        return self._objective.value(model, states_BTD, words_BTC)
