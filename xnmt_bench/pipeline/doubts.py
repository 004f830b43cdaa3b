"""Doubts: what makes the numbers of a job mean little, measured, and said under its tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig

from xnmt_bench.corpora.sentence import SIDES, Corpus
from xnmt_bench.corpora.subwords import UNK
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.texts import Texts
from xnmt_bench.store import Store


def exceeds(value: float, threshold: float | None) -> bool:
    """Return whether something is beyond its threshold; there may be none."""
    return threshold is not None and value > threshold


def about_texts(texts: Texts, store: Store, thresholds: DictConfig) -> Iterator[str]:
    """Yield doubts about a test set: it stands in training, or the system cannot read it.

    Args:
        texts: of the system's corpus.
        store: where the counts are kept.
        thresholds: the configuration's `doubts`.
    """

    def work(_: Path) -> dict[str, Any]:
        return {"shared": _shared_pairs(texts.corpus), **_coverage(texts)}

    facts = store.make("doubts", work, version=1, cheap=True, encoded=texts.encoded).facts
    shared, pairs = facts["shared"]
    if exceeds(shared / pairs, thresholds.shared_pairs):
        yield f"{shared} of {pairs} test pairs also stand in the training split"
    for side in SIDES:
        if exceeds(facts["unknown"][side], thresholds.unknown):
            share = f"{100 * facts['unknown'][side]:.1f} %"
            yield f"the vocabulary does not know {share} of the subwords of the {side} side"
    if thresholds.swapped is not None and facts["swapped"] < thresholds.swapped:
        yield (
            "each side fits the other side's vocabulary better "
            f"({facts['swapped']:.2f} times the subwords): is the system of the other direction?"
        )


def _shared_pairs(corpus: Corpus) -> tuple[int, int]:
    """Return how many test pairs are also training pairs, and how many test pairs there are."""
    # The test set fits into memory, the training split need not.
    test = [(s.source, s.target) for s in corpus.sentences(EVALUATED)]
    test_pairs = set(test)
    shared = {
        # A set: repeated training pairs count once, repeated test pairs each time.
        pair
        for s in corpus.sentences("train")
        if (pair := (s.source, s.target)) in test_pairs
    }
    return sum(pair in shared for pair in test), len(test)


def _coverage(texts: Texts) -> dict[str, Any]:
    """Return the share of unknown subwords a side, and how the vocabularies fit the other sides."""
    sentences, unknown = texts.sentences(EVALUATED), {}
    own_length = other_length = 0
    for side, vocabulary, other_vocabulary in zip(
        SIDES, texts.subwords, reversed(texts.subwords), strict=True
    ):
        lines = [getattr(sentence, side) for sentence in sentences]
        ids = [i for line in lines for i in vocabulary.encode(line)]
        unknown[side] = ids.count(UNK) / len(ids)
        own_length += len(ids)
        # A vocabulary cuts text of its own language into fewer pieces.
        other_length += sum(len(other_vocabulary.encode(line)) for line in lines)
    return {"unknown": unknown, "swapped": other_length / own_length}


def about_decisions(
    label_N: np.ndarray, gold_N: np.ndarray, thresholds: DictConfig
) -> Iterator[str]:
    """Yield doubts about a system that decides almost always alike, or hardly knows its next word.

    Args:
        label_N: what the system decides.
        gold_N: the word that stands in the target there.
        thresholds: the configuration's `doubts`.
    """
    alike = np.bincount(label_N).max() / len(label_N)  # share of the most frequent label
    if exceeds(alike, thresholds.alike):
        yield f"{100 * alike:.1f} % of the system's decisions are one and the same subword"
    right, guessed = (label_N == gold_N).mean(), np.bincount(gold_N).max() / len(gold_N)
    if thresholds.gain is not None and right < thresholds.gain * guessed:
        yield (
            f"the system decides as the target does in {100 * right:.1f} % of the decisions, and a "
            f"constant guess of the target's most frequent subword in {100 * guessed:.1f} %"
        )
