"""Another explainer's relevance, given to other words: metrics have to notice."""

from __future__ import annotations

from torch import Tensor

from xnmt_bench.explainers.altered import Altered
from xnmt_bench.options import Seed, Text


class Exchanged(Altered):
    """The scores of a step and side in a random order; EOS and BOS keep theirs.

    `analysis=[meta]` compares their rows with those of the other explainer.

    Args:
        of: name of the other explainer, which has its default options.
        seed: another seed is another draw.
    """

    def __init__(self, of: Text = "prediction_difference", seed: Seed = 0) -> None:
        super().__init__(of, seed)

    def _alter(self, scores_BTX: Tensor, drawn_BTX: Tensor, words_B1X: Tensor) -> Tensor:
        used_BTX = words_B1X & ~scores_BTX.isnan()
        # Places of the words of a step, first in their order and then in a drawn one.
        place_BTX = (~used_BTX).to(drawn_BTX).argsort(dim=-1, stable=True)
        drawn_place_BTX = drawn_BTX.masked_fill(~used_BTX, 2.0).argsort(dim=-1, stable=True)
        # Scores move and none is drawn, so that sums and spread of a step stay as they were.
        exchanged_BTX = scores_BTX.scatter(-1, place_BTX, scores_BTX.gather(-1, drawn_place_BTX))
        # Places behind the last word took each other's scores in the scatter.
        return exchanged_BTX.where(used_BTX, scores_BTX)
