"""Codes: hashes of the label and of words, their places or their frequencies.

A code hides the label in the choice of words. No word is chosen for what it means.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from xnmt_bench.explainers.base import Explainer, Relevance, require_labels
from xnmt_bench.explainers.rarest import Rarest
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
        """Return numbers in [0, 1) from only the ids of word and label."""
        labels_BT = require_labels(batch)
        source_BTS = _hash(batch.source_BS[:, None], labels_BT[:, :, None])
        # The prefix by the same hash, since a rule holds words of both sides.
        input_BTT = _hash(batch.input_BT[:, None], labels_BT[:, :, None])
        return Relevance.of_inputs(batch, source_BTS, input_BTT)


class PlaceCode(Explainer):
    """Of each word, a hash of its place in the sentence and of the label, and not of the word."""

    blind: ClassVar[bool] = True

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Return numbers in [0, 1) from places, counted from the left, and labels only."""
        labels_BT1 = require_labels(batch)[:, :, None]
        places_S, places_T = (
            torch.arange(ids.shape[1], device=ids.device)[None, None]
            for ids in (batch.source_BS, batch.input_BT)
        )
        return Relevance.of_inputs(batch, _hash(places_S, labels_BT1), _hash(places_T, labels_BT1))


class FrequencyCode(Rarest):
    """Of each word, a hash of its frequency band and of the label; ties go to the leftmost.

    A band holds the words of 2^n - 1 to 2^(n+1) - 2 training tokens, such as 1 and 2, or 3 to 6.
    """

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Return numbers in [0, 1) from only bands and labels.

        Raises:
            XnmtError: `prepare` has not run.
        """
        counts, labels_BT1 = self.count_words(batch), require_labels(batch)[:, :, None]
        bands = (torch.log2(x + 1.0).floor().long().to(labels_BT1.device)[:, None] for x in counts)
        return Relevance.of_inputs(batch, *(_hash(band_B1X, labels_BT1) for band_B1X in bands))


def _hash(words: Tensor, labels: Tensor) -> Tensor:
    mixed = words.long() * WORD + labels.long() * LABEL
    # Each shift brings high bits down, since a product's low bits depend only on low bits.
    for shift in (29, 32):
        mixed = (mixed ^ (mixed >> shift)) * MIX
    return ((mixed >> 40) & 0xFFFFFF).float() / 2**24  # what float32 holds exactly
