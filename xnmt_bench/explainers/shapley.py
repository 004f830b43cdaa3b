"""Shapley values: what a word adds, over all orders in which words may come."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from xnmt_bench.device import Room
from xnmt_bench.explainers.base import Explainer, Relevance, in_parts
from xnmt_bench.explainers.coalitions import Coalitions
from xnmt_bench.explainers.objective import Foil, Objective, Of
from xnmt_bench.explainers.random import seeded
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.switched import Removal
from xnmt_bench.options import Count, Seed


class Shapley(Explainer):
    """The mean of what a word adds, over random orders of all words (Castro et al. 2009).

    Words of both sides are in one order, and one walk through it serves all steps: what a step
    cannot see adds nothing there. The sum over words is f(all words) - f(none), to rounding.

    Args:
        permutations: orders that are drawn; each costs S + T rows.
        of: what is explained: the label's probability, its logarithm or its logit.
        foil: `second`, the most probable word but the label, whose number is subtracted; None for
            none.
        removal: what replaces the embedding of a word that has not come yet.
        seed: another seed draws other orders.
        positions: of the decoder, computed in one pass. It bounds memory and changes no result.
    """

    sizes = ("positions",)

    def __init__(
        self,
        permutations: Count = 20,
        of: Of = "probability",
        foil: Foil | None = None,
        removal: Removal = "zero",
        seed: Seed = 0,
        positions: Count | None = None,
    ) -> None:
        self._permutations, self._seed, self._removal = permutations, seed, removal
        self._objective = Objective(of, foil)
        self._room = Room(positions, cpu=2048, each=2**18)

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Walk through the orders of each sentence; its own ids decide them."""
        return self._room.tried(batch.source_BS.device, partial(self._relevance, model, batch))

    def _relevance(self, model: NMTModel, batch: Batch, positions: int) -> Relevance:
        # One sentence at a time, whose rows fill a pass.
        return in_parts(batch, lambda *_: 1, partial(self._values, model, positions))

    def _values(self, model: NMTModel, positions: int, part: Batch) -> tuple[Tensor, Tensor]:
        """Return scores over source ids (1, T, S) and decoder inputs (1, T, T)."""
        some = Coalitions(model, part, self._objective, positions, self._removal)
        words, device = some.source + some.prefix, part.source_BS.device
        generator = seeded(self._seed, part.source_BS[0], part.target_BT[0])
        orders = [torch.randperm(words, generator=generator) for _ in range(self._permutations)]
        order_PX = torch.stack(orders).to(device)
        # Word x is on in row r of an order where fewer than r words came before it.
        came_PX = order_PX.argsort(1)
        rows_R1 = torch.arange(words + 1, device=device)[:, None]
        keep_PRX = came_PX[:, None] < rows_R1
        value_PRT = some.values(keep_PRX.flatten(0, 1)).unflatten(0, keep_PRX.shape[:2])
        added_PXT = value_PRT.diff(dim=1).take_along_dim(came_PX[..., None], 1)
        score_TX = added_PXT.mean(0).T * part.current_BT[0, :, None]
        source_TS, prefix_TU = score_TX.split([some.source, some.prefix], dim=1)
        return source_TS[None], torch.nn.functional.pad(prefix_TU, (1, 0))[None]
