"""The output layer, asked for one part of the vocabulary after another.

On a CPU, without gradients, nothing as wide as the vocabulary is stored where only a label's
log-probability or the first choice is wanted. A part's logits stay in the cache there, and so do
the weights that give them: products of whole vocabularies reach half the speed of those. Elsewhere
a part is as wide as the rows of the layer are in the order of the words.

Shapes: R states, P words of a part, V in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xnmt_bench.device import keeps_in_cache

ROWS = 1024  # states that a CPU reads at once, since each time reads all weights
NARROWEST = 512  # words of a part there
NUMBERS = 2**17  # logits of a part of few states


def linear_parts(
    states_RD: Tensor,
    weight_XD: Tensor,
    bias_X: Tensor | None = None,
    runs: Sequence[slice] | None = None,
    never: Sequence[int] = (),
) -> Iterator[Tensor]:
    """Yield logits (R, P) of one part of the vocabulary after another.

    Args:
        states_RD: the states.
        weight_XD: of the layer.
        bias_X: of the layer, if it has one.
        runs: which rows of the layer are of the words, in their order; by default all.
        never: words that are impossible.
    """
    first = 0
    for rows in _narrow(runs or [slice(0, len(weight_XD))], states_RD):
        logits_RP = F.linear(states_RD, weight_XD[rows], None if bias_X is None else bias_X[rows])
        # Words are counted through all parts, and each part begins at `first`.
        if out := [word - first for word in never if 0 <= word - first < logits_RP.shape[1]]:
            logits_RP[:, out] = -torch.inf
        yield logits_RP
        first += logits_RP.shape[1]


def _narrow(runs: Sequence[slice], states_RD: Tensor) -> Iterator[slice]:
    """Yield the rows in parts that memory holds."""
    # Few states make wide parts, so that a part is about as many numbers for any of them.
    narrow = max(NARROWEST, NUMBERS // max(1, len(states_RD)))
    for run in runs:
        width = narrow if keeps_in_cache(states_RD.device) else run.stop - run.start
        for start in range(run.start, run.stop, width):
            yield slice(start, min(start + width, run.stop))


class LinearOutput:
    """Of models whose output layer is one product.

    Attributes:
        output: the layer.
        impossible: words that it has a row for and that are never predicted.
    """

    output: nn.Linear
    impossible: Sequence[int] = ()

    def logits(self, states: Tensor) -> Tensor:
        """Return unnormalised log-probabilities (..., V)."""
        logits = self.output(states)
        if self.impossible:
            logits[..., self.impossible] = -torch.inf
        return logits

    def logit_parts(self, states_RD: Tensor) -> Iterator[Tensor]:
        """Yield the logits of one part of V after another, (R, P)."""
        return linear_parts(states_RD, self.output.weight, self.output.bias, never=self.impossible)


def log_probability(parts: Iterable[Tensor], labels_R: Tensor) -> Tensor:
    """Return log P (R,) of labels by the logits of all parts; NaN outside the vocabulary."""
    running = _Seen(labels_R)
    for logits_RP in parts:
        running.add(logits_RP)
    return running.log_probability()


def decide(parts: Iterable[Tensor], labels_R: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return first choices (R,), and log P (R,) of labels or, without any, of the choices."""
    running, choices = _Seen(labels_R), []
    for logits_RP in parts:
        # Of equal logits the first part's stays, as `argmax` over the whole vocabulary has it.
        choices.append(logits_RP.argmax(1) + running.words)
        running.add(logits_RP)
    best_R1 = torch.stack(running.greatest, dim=1).argmax(1, keepdim=True)
    return torch.stack(choices, dim=1).gather(1, best_R1)[:, 0], running.log_probability()


class _Seen:
    """What is kept of the parts, to say how probable labels or the first choices are.

    Attributes:
        words: how many words the parts have had.
        greatest: the greatest logit (R,) of each part.
    """

    def __init__(self, labels_R: Tensor | None) -> None:
        self.words, self.greatest = 0, list[Tensor]()
        self._labels_R = labels_R
        self._label_R: Tensor | float = torch.nan
        self._sums: list[Tensor] = []

    def add(self, logits_RP: Tensor) -> None:
        """Take up another part."""
        if logits_RP.dtype != torch.float64:  # shorter logits' exponentials are not summed as such
            logits_RP = logits_RP.float()
        greatest_R = logits_RP.amax(1)
        # A constant in gradients: a shift of all logits keeps the probabilities.
        # Clamped, since a part whose words are all impossible has -inf, and -inf - -inf is NaN.
        possible_R = greatest_R.detach().clamp(min=torch.finfo(greatest_R.dtype).min)
        self._sums.append((logits_RP - possible_R[:, None]).exp_().sum(1))
        self.greatest.append(greatest_R)
        if self._labels_R is not None:
            place_R = self._labels_R - self.words
            here_R = (place_R >= 0) & (place_R < logits_RP.shape[1])
            logit_R1 = logits_RP.gather(1, place_R.where(here_R, 0)[:, None])
            self._label_R = logit_R1[:, 0].where(here_R, self._label_R)
        self.words += logits_RP.shape[1]

    def log_probability(self) -> Tensor:
        """Return log-probabilities (R,)."""
        choice_RX = torch.stack(self.greatest, dim=1)
        greatest_RX = choice_RX.detach()
        greatest_R = greatest_RX.amax(1)
        # Each part was summed under its own greatest logit; here all come under the greatest of
        # all.
        shares_RX = (greatest_RX - greatest_R[:, None]).exp() * torch.stack(self._sums, dim=1)
        label_R = choice_RX.amax(1) if self._labels_R is None else self._label_R
        # Logits are subtracted first: rounding of large ones would lose what a sure label lacks.
        return (label_R - greatest_R) - shares_RX.sum(1).log()
