"""Doubts: what makes the numbers of a test set mean little, measured, and said under tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xnmt_bench.corpora.formats.alignment import counts_from_one
from xnmt_bench.corpora.sentence import SIDES, Corpus
from xnmt_bench.corpora.vocabulary.subwords import UNK, Subwords
from xnmt_bench.nmt.fairseq.subwords import DictionarySubwords
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.settings import DoubtSettings
from xnmt_bench.pipeline.texts import Texts
from xnmt_bench.store import Store, fingerprint


def exceeds(value: float, threshold: float | None) -> bool:
    """Return whether something is beyond its threshold; there may be none."""
    return threshold is not None and value > threshold


def about_texts(
    texts: Texts, learnt: Texts, store: Store, thresholds: DoubtSettings
) -> Iterator[str]:
    """Yield doubts about the corpus's test set: as `about_pairs`, and about its gold alignment.

    Args:
        texts: of the system's corpus.
        learnt: of the corpus that the system is trained on, which may be the same.
        store: where the counts are kept.
        thresholds: the configuration's `doubts`.
    """
    sentences = texts.sentences(EVALUATED)
    pairs = [(s.source, s.target) for s in sentences]
    if unreadable := texts.encoded[EVALUATED].facts[EVALUATED]["unreadable"]:
        yield (
            f"{unreadable} of {unreadable + len(sentences)} test pairs have no word on a side or "
            "are longer than the system reads, and are left out"
        )
    yield from about_pairs(pairs, texts, learnt, store, thresholds)
    gold = [s.gold.possible for s in sentences if s.gold]
    if thresholds.gold_shift is not None and counts_from_one(gold):
        yield "no gold link has word 0: does the file count words from 1?"


def about_pairs(
    pairs: Sequence[tuple[str, str]],
    texts: Texts,
    learnt: Texts,
    store: Store,
    thresholds: DoubtSettings,
) -> Iterator[str]:
    """Yield doubts about test pairs: they are also training pairs, or the system cannot read them.

    Args:
        pairs: sources and targets, as the system's corpus is written.
        texts: of the system's corpus.
        learnt: of the corpus that the system is trained on, whose training split is searched.
        store: where the counts are kept.
        thresholds: the configuration's `doubts`.
    """

    def work(_: Path) -> dict[str, Any]:
        shared = _shared_pairs(pairs, learnt.corpus)
        return {"shared": shared, **_coverage(pairs, texts.subwords)}

    measured = fingerprint({"pairs": [list(pair) for pair in pairs]})
    facts = store.stage(
        # Stored, since the training split is read whole for a number.
        "doubts",
        work,
        version=3,
        cheap=True,
        encoded=texts.encoded[EVALUATED],
        learnt=learnt.corpus.recipe("train"),
        pairs=measured,
    ).facts
    shared = facts["shared"]
    # A share: short sentences come in both splits by chance.
    if exceeds(shared / len(pairs), thresholds.shared_pairs):
        yield f"{shared} of {len(pairs)} test pairs also stand in the training split"
    for side in SIDES:
        if exceeds(facts["unknown"][side], thresholds.unknown):
            share = f"{100 * facts['unknown'][side]:.1f} %"
            yield f"the vocabulary does not know {share} of the subwords of the {side} side"
        if exceeds(facts["avoidable"][side] / facts["subwords"][side], thresholds.avoidable):
            yield (
                f"{facts['avoidable'][side]} of {facts['subwords'][side]} subwords of the {side} "
                "side are unknown only because words are cut differently: was the training text "
                f"cut with a vocabulary (nmt.reader.{side}_vocabulary) or glossaries?"
            )
    if thresholds.swapped is not None and facts["swapped"] < thresholds.swapped:
        yield (
            "each side fits the other side's vocabulary better "
            f"({facts['swapped']:.2f} times the subwords): is the system of the other direction?"
        )


def _shared_pairs(pairs: Sequence[tuple[str, str]], corpus: Corpus) -> int:
    """Return how many test pairs are also training pairs."""
    # The test set fits into memory, the training split need not.
    test_pairs = set(pairs)
    shared = {
        # A set: repeated training pairs count once, repeated test pairs each time.
        pair
        for s in corpus.sentences("train")
        if (pair := (s.source, s.target)) in test_pairs
    }
    return sum(pair in shared for pair in pairs)


def _coverage(
    pairs: Sequence[tuple[str, str]], subwords: tuple[Subwords, Subwords]
) -> dict[str, Any]:
    """Return unknown subwords a side, and how the vocabularies fit the other sides.

    Returns:
        By side the share of `unknown` ones, how many are `avoidable` by another cut, and how many
        `subwords` there are; and `swapped`, subwords by the other side's vocabulary over these.
    """
    unknown, avoidable, length = {}, {}, dict[str, int]()
    other_length = 0
    for side, lines, vocabulary, other_vocabulary in zip(
        SIDES, zip(*pairs, strict=True), subwords, reversed(subwords), strict=True
    ):
        ids = [i for line in lines for i in vocabulary.encode(line)]
        unknown[side] = ids.count(UNK) / len(ids)
        avoidable[side] = (
            vocabulary.count_avoidable(lines) if isinstance(vocabulary, DictionarySubwords) else 0
        )
        length[side] = len(ids)
        # A vocabulary cuts text of its own language into fewer pieces.
        other_length += sum(len(other_vocabulary.encode(line)) for line in lines)
    return {
        "unknown": unknown,
        "avoidable": avoidable,
        "subwords": length,
        "swapped": other_length / sum(length.values()),
    }


def about_decisions(
    label_N: np.ndarray, gold_N: np.ndarray, thresholds: DoubtSettings
) -> Iterator[str]:
    """Yield doubts about a system that decides almost always alike, or hardly knows its next word.

    Args:
        label_N: what the system decides.
        gold_N: the word that the target has there.
        thresholds: the configuration's `doubts`.
    """
    alike = np.bincount(label_N).max() / len(label_N)  # share of the most frequent label
    if exceeds(alike, thresholds.alike):
        yield f"{100 * alike:.1f} % of the system's decisions are one and the same subword"
    # Against a constant guess, which a frequent subword makes a good one.
    right, guessed = (label_N == gold_N).mean(), np.bincount(gold_N).max() / len(gold_N)
    if thresholds.gain is not None and right < thresholds.gain * guessed:
        yield (
            f"the system decides as the target does in {100 * right:.1f} % of the decisions, and "
            f"a constant guess of the target's most frequent subword in {100 * guessed:.1f} %"
        )
