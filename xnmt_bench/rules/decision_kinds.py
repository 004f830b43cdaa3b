"""What kind of decision a decision is: where fidelity is lost can be told by it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from xnmt_bench.corpora.sentence import Gold
from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import BOS, EOS, Subwords, current_start
from xnmt_bench.rules.table import Rules, sentence_rows

FIFTHS = ("first fifth", "second", "third", "fourth", "last fifth")
UP_TO = (10, 100, 1000, 10000)
FREQUENCIES = ("0-10", "11-100", "101-1,000", "1,001-10,000", "> 10,000")
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
    """Return the category of each decision in every facet, as text, (N,).

    Args:
        rules: the decisions.
        split: their sentences.
        target: the target vocabulary.
        training: the NMT system's training sentences, in which labels are counted.
        gold: the sentences' annotation, where steps are the reference's words.

    Returns:
        `place`: the fifth of the sentence the step is in. `frequency`: how often the label is in
        the training targets. `piece`: whether the label begins a word or goes on with one.
        `link`: whether the step's target word has a gold link; empty without gold.
    """
    place, piece, link = (np.full(len(rules), "", dtype=object) for _ in range(3))
    for rows in sentence_rows(rules.sentence_N):
        number = int(rules.sentence_N[rows.start])
        index = int(np.searchsorted(split.number, number))
        ids = split.target[index]
        now = current_start(ids)
        steps, labels = rules.step_N[rows] - now, rules.label_N[rows]
        place[rows] = np.asarray(FIFTHS)[5 * steps // (len(ids) - now)]
        before = np.append(BOS, ids[now:])[steps]
        begins = target.begin_words(before.tolist(), labels.tolist())
        inside = np.where(begins, "begins a word", "goes on")
        piece[rows] = np.where(labels == EOS, "end of sentence", inside)
        if gold and (annotation := gold.get(number)) and annotation.possible:
            words = split.target.current_words(index)[now:][steps]
            linked = [
                np.isin(words, [j for _, j in links])
                for links in (annotation.sure, annotation.possible)
            ]
            # The first that holds counts; EOS is not a word, so it has no link to miss.
            names = ["", *GOLD_LINKS[:2]]
            link[rows] = np.select([words < 0, *linked], names, default=GOLD_LINKS[2])
    frequency = name_frequencies(training, len(target))[rules.label_N]
    return {"place": place, "frequency": frequency, "piece": piece, "link": link}


def name_frequencies(training: EncodedSplit, size: int) -> np.ndarray:
    """Return the name of each target id's frequency in training targets, (V,).

    Args:
        training: the NMT system's training sentences.
        size: of the target vocabulary.
    """
    # Labels are counted in training targets, as the paper counts frequencies of words.
    counts = np.zeros(size, dtype=np.int64)
    for index in range(len(training)):
        ids = training.target[index]
        np.add.at(counts, ids[current_start(ids) :], 1)  # a context's words are their own
    return np.asarray(FREQUENCIES, dtype=object)[np.searchsorted(UP_TO, counts)]
