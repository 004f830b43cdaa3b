"""The options of an NMT training, without Lightning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xnmt_bench.options import Chance, Count, Natural, Positive, Rate, Text, Weight


@dataclass(frozen=True)
class NMTTrainingOptions:
    """What decides the weights beside the data.

    Attributes:
        batch_tokens: rows times longest pair of a batch.
        learning_rate: Adam's rate at the end of the warm-up.
        warmup_steps: steps of the linear climb.
        label_smoothing: probability spread over the vocabulary.
        max_epochs: at most this many.
        patience: validations in which nothing that training stops by gets better; there is one an
            epoch, or every `trainer.validate_every` steps.
        context_discount: weight of the context's words in the loss, where the current sentence's
            weigh 1 (context-discounted loss, Lupo et al. 2022).
        corrupted, corruption, temperature: of models that read a draft; see `DraftOptions`.
        average: the weights are the mean of those at the last so many validations; None for those
            of the best one.
        stop: what has to converge before training stops: `loss`, or `bleu` and `contrastive`
            (Voita et al. 2019, section 6.4); of several that are better when greater, the epoch
            with the greatest sum is kept.
        contrastive_sets: of `contrastive`, as `metric.contrastive.sets` names them.
        contrastive_data: the folder of those that are known by name.
    """

    batch_tokens: Count = 4096
    learning_rate: Positive = 1e-3
    warmup_steps: Count = 1000
    label_smoothing: Rate = 0.1
    max_epochs: Count = 30
    patience: Natural = 3
    context_discount: Weight = 1.0
    corrupted: Chance = 0.5
    corruption: Chance = 0.2
    temperature: Positive = 0.5
    average: Count | None = None
    stop: Sequence[Literal["loss", "bleu", "contrastive"]] = ("loss",)
    contrastive_sets: Sequence[Text] = ("corpus",)
    contrastive_data: Text | None = None
