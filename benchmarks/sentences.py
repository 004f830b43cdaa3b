"""Encoded sentences, their decisions and random rules, which several benchmarks share."""

from __future__ import annotations

import numpy as np

from xnmt_bench.corpora.vocabulary.encoded import EncodedSide, EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.metrics.erasure.erasing import Decision, words_of
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.rules.table import Rules


def encode(model: NMTModel, pairs: list[tuple[str, str]]) -> EncodedSplit:
    """Return the sentences as ids."""
    sides = (
        EncodedSide.of([[*subwords.encode(text), EOS] for text in texts])
        for subwords, texts in zip(model.vocabularies, zip(*pairs, strict=True), strict=True)
    )
    return EncodedSplit(*sides, np.arange(len(pairs)))


def list_decisions(split: EncodedSplit) -> list[Decision]:
    """Return every decision, its words in the order of the sentence; labels are made up."""
    decisions = []
    for i in range(len(split)):
        source, target = words_of(split.source[i]), words_of(split.target[i])
        for step in range(len(split.target[i])):
            prefix = target[target < step]
            side = np.repeat([0, 1], [len(source), len(prefix)])
            places = np.concatenate([source, prefix])
            decisions.append(Decision(i, step, int(split.target[i][step]), side, places))
    return decisions


def draw_rules(decisions: list[Decision]) -> Rules:
    """Return rules of one word a side, drawn at random, as Base scores them."""
    rng = np.random.default_rng(0)
    names = ("sentence", "step", "label")
    columns = (np.array([getattr(d, name) for d in decisions]) for name in names)
    sides = []
    for side in (0, 1):
        # The first step sees no prefix, and has -1 in the place of a word.
        places = [d.place_W[d.side_W == side] for d in decisions]
        sides.append(np.array([[rng.choice(p) if len(p) else -1] for p in places]))
    return Rules(*columns, np.zeros(len(decisions)), *sides, *sides)
