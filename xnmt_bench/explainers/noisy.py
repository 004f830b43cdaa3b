"""Another explainer's relevance with a little noise: metrics should hardly notice."""

from __future__ import annotations

from torch import Tensor

from xnmt_bench.explainers.altered import Altered
from xnmt_bench.options import Positive, Seed, Text


class Noisy(Altered):
    """Scores moved by uniform noise; `analysis=[meta]` compares their rows with the unmoved ones'.

    Args:
        of: name of the other explainer, which has its default options.
        amount: the greatest noise, as a share of the standard deviation of a side's scores in a
            step.
        seed: another seed is another draw.
    """

    def __init__(
        self, of: Text = "prediction_difference", amount: Positive = 0.05, seed: Seed = 0
    ) -> None:
        super().__init__(of, seed)
        self._amount = amount

    def _alter(self, scores_BTX: Tensor, drawn_BTX: Tensor, words_B1X: Tensor) -> Tensor:
        used_BTX = words_B1X & ~scores_BTX.isnan()
        counted_BT1 = used_BTX.sum(-1, keepdim=True).clamp_min(1)
        # Only of words: BOS and EOS reach no rule, and would count in the deviation.
        kept_BTX = scores_BTX.nan_to_num() * used_BTX
        centred_BTX = (kept_BTX - kept_BTX.sum(-1, keepdim=True) / counted_BT1) * used_BTX
        # Of each step and side on its own, since the scale of scores differs between steps.
        deviation_BT1 = (centred_BTX.square().sum(-1, keepdim=True) / counted_BT1).sqrt()
        return scores_BTX + self._amount * deviation_BT1 * (2 * drawn_BTX - 1)
