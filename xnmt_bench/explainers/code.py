"""A code: a hash of word and label, which hides the label in the choice of words."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from xnmt_bench.explainers.base import Explainer, Relevance, require_labels
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch

# Odd constants of multiplicative hashing; products wrap around in 64 bits.
WORD, LABEL, MIX = 0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9, 0x14D049BB133111EB


class Code(Explainer):
    """Of each word, a hash of it and of the label: the same pair always has the same relevance.

    A proxy that learns from such rules learns which word is chosen for which label. So it does well
    where words are chosen with the label in hand, though no word was chosen for what it means.
    """

    # The label comes from the model, but the code asks nothing of it.
    blind: ClassVar[bool] = True

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Return numbers in [0, 1) from the ids of word and label alone."""
        labels_BT = require_labels(batch)
        source_BTS = _hash(batch.source_BS[:, None], labels_BT[:, :, None])
        # The prefix by the same hash, since a rule holds words of both sides.
        input_BTT = _hash(batch.input_BT[:, None], labels_BT[:, :, None])
        return Relevance.of_inputs(batch, source_BTS, input_BTT)


def _hash(words: Tensor, labels: Tensor) -> Tensor:
    mixed = words.long() * WORD + labels.long() * LABEL
    # Each shift brings high bits down, since a product's low bits depend on low bits alone.
    for shift in (29, 32):
        mixed = (mixed ^ (mixed >> shift)) * MIX
    return ((mixed >> 40) & 0xFFFFFF).float() / 2**24  # what float32 holds exactly
