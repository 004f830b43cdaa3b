"""What a proxy learns from, and the options of its training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor

from xnmt_bench.options import Count, Natural, Positive, Share

DecisionBatch = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class ProxyTrainingOptions:
    """What decides a proxy's weights besides the rules.

    Attributes:
        batch_size: decisions a step.
        learning_rate: Adam's.
        max_epochs: at most this many.
        patience: epochs without a better validation loss before stopping.
        validation_share: share of the training sentences held out for validation.
    """

    batch_size: Count = 512
    learning_rate: Positive = 1e-3
    max_epochs: Count = 50
    patience: Natural = 3
    validation_share: Share = 0.1


@dataclass(frozen=True)
class Lessons:
    """What a proxy learns from, in batches of labels, words and positions.

    A label is an id (B,), or a distribution (B, V) to be learnt as a whole.

    Attributes:
        train: the batches of an epoch, from its number.
        valid: the held-out batches, the same for every epoch.
    """

    train: Callable[[int], Iterable[DecisionBatch]]
    valid: Callable[[], Iterable[DecisionBatch]]
