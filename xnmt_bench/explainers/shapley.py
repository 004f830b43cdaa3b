"""Shapley values: what a word adds, over all orders in which words may come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
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

    def rows(self, words: int) -> int:
        """Return how many rows a sentence of so many words needs."""
        return self._permutations * (words + 1)

    def scores(
        self, sentences: Coalitions, generators: Sequence[torch.Generator]
    ) -> tuple[Tensor, ...]:
        """Return the mean of what each word adds over the orders, (B, T, X), and its error."""
        words = sentences.source + sentences.prefix
        came_BPX = np.stack(
            [
                self._draw(places_X, words, generator)
                for places_X, generator in zip(sentences.words_X, generators, strict=True)
            ]
        )
        # Word x is on in row r of an order where fewer than r words came before it.
        keep_BPRX = came_BPX[:, :, None] < np.arange(words + 1)[:, None]
        # Rows of all orders together: equal sets of source words in a pass are encoded once.
        value_BRT = sentences.values(keep_BPRX.reshape(len(came_BPX), -1, words))
        value_BPRT = value_BRT.unflatten(1, keep_BPRX.shape[1:3])
        place_BPX1 = torch.as_tensor(came_BPX[..., None], device=sentences.device)
        added_BPXT = value_BPRT.diff(dim=2).take_along_dim(place_BPX1, 2)
        mean_BTX = added_BPXT.mean(1).transpose(1, 2)
        if self._permutations == 1:  # the spread of orders is not known
            return (mean_BTX,)
        # Orders are independent draws, so the error of their mean falls with their root.
        error_BXT = added_BPXT.std(1) / self._permutations**0.5
        return mean_BTX, error_BXT.amax(1)

    def _draw(self, places_X: np.ndarray, words: int, generator: torch.Generator) -> np.ndarray:
        """Return when each word of a sentence comes in each order, (P, X).

        Args:
            places_X: of its words, among X.
            words: X; padding comes last, and adds nothing.
            generator: on the CPU, where it gives the same orders on every machine.
        """
        count = len(places_X)
        orders = [torch.randperm(count, generator=generator) for _ in range(self._permutations)]
        came_PX = np.empty((len(orders), words), dtype=np.int64)
        came_PX[:, places_X] = np.stack([order.numpy() for order in orders]).argsort(1)
        came_PX[:, np.setdiff1d(np.arange(words), places_X)] = np.arange(count, words)
        return came_PX
