"""The output layer, asked for one part of the vocabulary after another.

What is as wide as the vocabulary is never stored where only a label's log-probability or the first
choice is wanted. On a CPU a part's logits stay in its cache, and so do the weights that give them:
products of whole vocabularies reach half the speed of those.

Shapes: R states, P words of a part, V in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROWS = 1024  # states that are asked at once on a CPU, as the weights are read for each time
NARROWEST = 512  # words of a part there
NUMBERS = 2**17  # logits of a part of few states


def linear_parts(
    states_RD: Tensor,
    weight_XD: Tensor,
    bias_X: Tensor | None = None,
    runs: Sequence[slice] | None = None,
    never: Sequence[int] = (),
) -> Iterator[Tensor]:
    """Logits (R, P) of one part of the vocabulary after another.

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
        if out := [word - first for word in never if 0 <= word - first < logits_RP.shape[1]]:
            logits_RP[:, out] = -torch.inf
        # Shorter factors give shorter logits, whose exponentials are not summed as such.
        yield logits_RP if logits_RP.dtype == torch.float64 else logits_RP.float()
        first += logits_RP.shape[1]


def _narrow(runs: Sequence[slice], states_RD: Tensor) -> Iterator[slice]:
    """The same rows, of which few enough are asked at once."""
    narrow = max(NARROWEST, NUMBERS // max(1, len(states_RD)))
    for run in runs:
        width = narrow if states_RD.device.type == "cpu" else run.stop - run.start
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
    asked_in_parts = True

    def logits(self, states: Tensor) -> Tensor:
        """Unnormalised log-probabilities (..., V)."""
        logits = self.output(states)
        if self.impossible:
            logits[..., self.impossible] = -torch.inf
        return logits

    def logit_parts(self, states_RD: Tensor) -> Iterator[Tensor]:
        """The logits of one part of V after another, (R, P)."""
        return linear_parts(states_RD, self.output.weight, self.output.bias, never=self.impossible)


def log_probability(parts: Iterable[Tensor], labels_R: Tensor) -> Tensor:
    """Log-probabilities (R,) of labels, by the logits of all parts."""
    start, label_R, sums = 0, torch.zeros_like(labels_R), []
    for logits_RP in parts:
        label_R = _label(logits_RP, start, labels_R, label_R)
        sums.append(_sum(logits_RP))
        start += logits_RP.shape[1]
    return label_R - torch.stack(sums, dim=1).logsumexp(1)


def decide(parts: Iterable[Tensor], labels_R: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """First choices (R,), and log-probabilities (R,) of labels or, without any, of the choices."""
    start, label_R = 0, None if labels_R is None else torch.zeros_like(labels_R)
    greatest, choices, sums = [], [], []
    for logits_RP in parts:
        greatest_R, choice_R = logits_RP.max(1)
        greatest.append(greatest_R)
        choices.append(choice_R + start)
        if labels_R is not None and label_R is not None:
            label_R = _label(logits_RP, start, labels_R, label_R)
        sums.append(_sum(logits_RP))
        start += logits_RP.shape[1]
    greatest_R, part_R = torch.stack(greatest, dim=1).max(1)
    choice_R = torch.stack(choices, dim=1).gather(1, part_R[:, None])[:, 0]
    asked_R = greatest_R if label_R is None else label_R
    return choice_R, asked_R - torch.stack(sums, dim=1).logsumexp(1)


def _label(logits_RP: Tensor, start: int, labels_R: Tensor, earlier_R: Tensor) -> Tensor:
    """The labels' logits (R,), as far as they are in this part, which begins at `start`."""
    place_R1 = (labels_R - start).clamp(0, logits_RP.shape[1] - 1)[:, None]
    here_R = logits_RP.gather(1, place_R1)[:, 0]
    return torch.where(labels_R < start, earlier_R, here_R)


def _sum(logits_RP: Tensor) -> Tensor:
    """The logarithm of a part's sum of exponentials, (R,)."""
    # A logit less its log-probability; `logsumexp` takes twice as long.
    greatest_R = logits_RP.amax(1)
    sum_R = greatest_R - logits_RP.log_softmax(1).amax(1)
    return sum_R.where(greatest_R > -torch.inf, greatest_R)  # all of it may be impossible
