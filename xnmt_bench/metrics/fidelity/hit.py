"""hit@k: how often a rule holds a word that is known to decide its label.

Only for corpora whose gold names the deciding words, such as the toy corpus.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from xnmt_bench.corpora.encoded import EncodedSplit
from xnmt_bench.corpora.sentence import Gold, Sentence
from xnmt_bench.corpora.subwords import EOS, Subwords
from xnmt_bench.rules.table import Rules


def hit_at_k(
    sentences: Iterable[Sentence],
    split: EncodedSplit,
    source: Subwords,
    target: Subwords,
    rules: Rules,
) -> np.ndarray | None:
    """How many decisions' top-k words of a side hold a deciding word of that side.

    Counted are decisions whose label is the gold word, since the gold decides nothing else, and
    sides on which something decides. The earlier pieces of a word decide its later ones.

    Args:
        sentences: the corpus's sentences, in order, with gold.
        split: the same sentences as ids.
        source: source vocabulary.
        target: target vocabulary.
        rules: the decisions, in the order of the split.

    Returns:
        Hits and counted decisions of the source and of the prefix, (U, 4), one row a sentence of
        the rules, in their order; None where no gold names deciding words.
    """
    starts = np.flatnonzero(np.diff(rules.sentence_N, prepend=-1))
    wanted = {int(rules.sentence_N[i]): n for n, i in enumerate(starts)}
    ends = [*starts[1:].tolist(), len(rules)]
    counts_U4 = np.zeros((len(starts), 4), dtype=np.int64)
    for number, sentence in enumerate(sentences):
        if number not in wanted:
            continue
        if sentence.gold is None or not sentence.gold.deciding_source:
            return None
        n = wanted[number]
        index = int(np.searchsorted(split.number, number))
        words = (
            np.asarray(source.current_words(split.source[index].tolist())),
            np.asarray(target.current_words(split.target[index].tolist())),
        )
        rows = rules.take(slice(int(starts[n]), ends[n]))
        counts_U4[n] = _count(rows, split.target[index], sentence.gold, words)
    return counts_U4


def _count(
    rules: Rules, gold_ids: np.ndarray, gold: Gold, words: tuple[np.ndarray, np.ndarray]
) -> list[int]:
    """One sentence's hits and counted decisions of the source, then of the prefix."""
    source_words, target_words = words
    counts = [0, 0, 0, 0]
    for row, step in enumerate(rules.step_N):
        label, word = rules.label_N[row], target_words[step]
        if label == EOS or label != gold_ids[step]:
            continue
        # The earlier pieces of a word decide its later ones.
        own = {int(word)} if step and target_words[step - 1] == word else set()
        sides = (
            (gold.deciding_source[word], source_words, rules.source_position_NK),
            (gold.deciding_prefix[word] | own, target_words, rules.prefix_position_NK),
        )
        for side, (deciding, words_X, positions_NK) in enumerate(sides):
            if deciding:
                counts[2 * side] += bool(deciding & _words_at(words_X, positions_NK[row]))
                counts[2 * side + 1] += 1
    return counts


def _words_at(words: np.ndarray, positions_K: np.ndarray) -> set[int]:
    return {int(words[p]) for p in positions_K if p >= 0 and words[p] >= 0}
