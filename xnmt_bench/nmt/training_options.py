"""The options of an NMT training, without Lightning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from xnmt_bench.options import Chance, Count, Natural, Positive, Rate, Text, Weight

# An empty list would mean the loss, as the default does.
Stops = Annotated[Sequence[Literal["loss", "bleu", "contrastive"]], Field(min_length=1)]


@dataclass(frozen=True)
class NMTTrainingOptions:
    """What decides the weights besides the data.

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
            (Voita et al. 2019, section 6.4), chrF for `bleu` where no tokenizer cuts words; of
            several that are better when greater, the epoch with the greatest sum is kept.
        contrastive_sets: of `contrastive`, as `metric.contrastive.sets` names them.
        contrastive_data: the folder of those that are known by name.
        examples: which training sentences are learnt from: all, those with a cluster of two
            mentions or more (`coref`), or those among them with he, she, her, him, his or hers in
            one (`gender`; Yehudai et al. 2023, section 4).
        markers: `inline` for markers around the mentions of source sentences.
        max_updates: so many steps, then the last weights; nothing stops training earlier, and
            `max_epochs` and `patience` do not count.
        batch_sentences: a batch is so many pairs of like target length, in place of
            `batch_tokens`. Then markers do not change which pairs share a batch.
        batches: of a step, whose gradients are averaged; ranks that train together share them. What
            is left of a pass and fills no step is dropped.
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
    stop: Stops = ("loss",)
    contrastive_sets: Sequence[Text] = ("corpus",)
    contrastive_data: Text | None = None
    examples: Literal["all", "coref", "gender"] = "all"
    markers: Literal["none", "inline"] = "none"
    max_updates: Count | None = None
    batch_sentences: Count | None = None
    batches: Count = 1
