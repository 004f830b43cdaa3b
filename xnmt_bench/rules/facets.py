"""What kind of decision a decision is: where fidelity is lost can be told by it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from xnmt_bench.corpora.encoded import EncodedSplit
from xnmt_bench.corpora.sentence import Gold
from xnmt_bench.corpora.subwords import BOS, EOS, Subwords, current_start
from xnmt_bench.rules.table import Rules

FIFTHS = ("first fifth", "second", "third", "fourth", "last fifth")
FREQUENCIES = (10, 100, 1000, 10000)
GOLD_LINKS = ("sure", "possible only", "none")
# In reading order; a facet that a corpus cannot tell has empty names.
FACETS = ("place", "frequency", "piece", "link")


def facets(
    rules: Rules,
    split: EncodedSplit,
    target: Subwords,
    training: EncodedSplit,
    gold: Mapping[int, Gold] | None,
) -> dict[str, np.ndarray]:
    """The category of each decision in every facet, as text; shapes (N,).

    Args:
        rules: the decisions.
        split: their sentences.
        target: the target vocabulary.
        training: the NMT system's training sentences, in which labels are counted.
        gold: the sentences' annotation, where steps are the reference's words.

    Returns:
        `place`: the fifth of the sentence the step is in. `frequency`: how often the label is in
        the training targets. `piece`: whether the label begins a word or goes on with one.
        `link`: whether the step's target word has a gold link; empty where there is no gold.
    """
    starts = np.flatnonzero(np.diff(rules.sentence_N, prepend=-1)).tolist()
    place, piece = np.empty(len(rules), dtype=object), np.empty(len(rules), dtype=object)
    link = np.full(len(rules), "", dtype=object)
    for start, end in pairwise([*starts, len(rules)]):
        number = int(rules.sentence_N[start])
        ids = split.target[int(np.searchsorted(split.number, number))]
        now = current_start(ids)
        steps = rules.step_N[start:end] - now
        before = [BOS if s == 0 else int(ids[now + s - 1]) for s in steps]
        piece[start:end] = _pieces(target, before, rules.label_N[start:end].tolist())
        place[start:end] = np.asarray(FIFTHS, dtype=object)[5 * steps // (len(ids) - now)]
        if gold and (own := gold.get(number)) and own.possible:
            link[start:end] = _links(own, target.current_words(ids.tolist())[now:], steps)
    counts = np.zeros(len(target), dtype=np.int64)
    for index in range(len(training)):
        ids = training.target[index]
        np.add.at(counts, ids[current_start(ids) :], 1)  # a context's words are their own
    return {
        "place": place,
        "frequency": _frequency_names()[np.searchsorted(FREQUENCIES, counts)][rules.label_N],
        "piece": piece,
        "link": link,
    }


def _links(gold: Gold, words: list[int], steps: np.ndarray) -> np.ndarray:
    """EOS is no word, so it has no link to miss."""
    sure, possible = ({j for _, j in links} for links in (gold.sure, gold.possible))
    names = [
        ""
        if j < 0
        else GOLD_LINKS[0]
        if j in sure
        else GOLD_LINKS[1]
        if j in possible
        else GOLD_LINKS[2]
        for j in words
    ]
    return np.asarray(names, dtype=object)[steps]


def _frequency_names() -> np.ndarray:
    low = [0, *(edge + 1 for edge in FREQUENCIES)]
    names = [f"{a:,}-{b:,}" for a, b in zip(low, FREQUENCIES, strict=False)]
    return np.asarray([*names, f"> {FREQUENCIES[-1]:,}"], dtype=object)


def _pieces(target: Subwords, before: list[int], labels: list[int]) -> list[str]:
    """What piece of a word each label is, behind the id that its step has before it."""
    names = ("goes on", "begins a word")
    begin = target.begin_words(before, labels)
    return [
        "end of sentence" if label == EOS else names[begins]
        for label, begins in zip(labels, begin, strict=True)
    ]
