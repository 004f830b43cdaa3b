"""Shapley values: what a word adds, over all orders in which words may come."""

from __future__ import annotations

import torch
from torch import Tensor

from xnmt_bench.explainers.coalitions import CoalitionExplainer, Coalitions
from xnmt_bench.explainers.objective import Foil, Of
from xnmt_bench.nmt.switched import Removal
from xnmt_bench.options import Count, Seed


class Shapley(CoalitionExplainer):
    """The mean of what a word adds, over random orders of all words (Castro et al. 2009).

    Words of both sides are in one order, and one walk through it serves all steps: what a step
    cannot see adds nothing there. The sum over words is f(all words) - f(none), to rounding.

    Args:
        permutations: orders that are drawn; each costs S + T rows.
        of, foil, removal, seed, positions: as for `CoalitionExplainer`.
    """

    papers = ("castro2009",)
    error = "standard error over orders, of each step's most uncertain word"

    def __init__(
        self,
        permutations: Count = 20,
        of: Of = "probability",
        foil: Foil | None = None,
        removal: Removal = "zero",
        seed: Seed = 0,
        positions: Count | None = None,
    ) -> None:
        super().__init__(of, foil, removal, seed, positions)
        self._permutations = permutations

    def scores(self, sentence: Coalitions, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Return the mean of what each word adds over the orders, (T, S + U), and its error."""
        # Drawn on the CPU, where a generator gives the same orders on every machine.
        words, device = sentence.source + sentence.prefix, sentence.device
        orders = [torch.randperm(words, generator=generator) for _ in range(self._permutations)]
        order_PX = torch.stack(orders).to(device)
        # Word x is on in row r of an order where fewer than r words came before it.
        came_PX = order_PX.argsort(1)
        rows_R1 = torch.arange(words + 1, device=device)[:, None]
        keep_PRX = came_PX[:, None] < rows_R1
        # Rows of all orders together: equal sets of source words in a pass are encoded once.
        value_PRT = sentence.values(keep_PRX.flatten(0, 1)).unflatten(0, keep_PRX.shape[:2])
        added_PXT = value_PRT.diff(dim=1).take_along_dim(came_PX[..., None], 1)
        mean_TX = added_PXT.mean(0).T
        if self._permutations == 1:  # the spread of orders is not known
            return (mean_TX,)
        # Orders are independent draws, so the error of their mean falls with their root.
        error_XT = added_PXT.std(0) / self._permutations**0.5
        return mean_TX, error_XT.amax(0)
