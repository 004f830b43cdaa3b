"""hit@k: how often a rule holds a word that is known to decide its label.

Only for corpora whose gold names the deciding words, such as the toy corpus.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from xnmt_bench.corpora.sentence import Gold, Sentence
from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.rules.table import Rules, sentence_rows


def hit_at_k(sentences: Iterable[Sentence], split: EncodedSplit, rules: Rules) -> np.ndarray | None:
    """Return how many decisions' top-k words of a side hold a deciding word of that side.

    Counted are decisions whose label is the gold word, since the gold decides nothing else, and
    sides on which something decides.

    Args:
        sentences: all of the corpus's, in order, with gold.
        split: those that have ids.
        rules: the decisions, in the order of the split.

    Returns:
        Hits and counted decisions of the source, of the prefix, and of either side, (U, 6), one row
        a sentence of the rules, in their order; None where no gold names deciding words.
    """
    # Slices and no masks: a mask a sentence would walk over all rules each time.
    rows_of = {int(rules.sentence_N[rows.start]): rows for rows in sentence_rows(rules.sentence_N)}
    counts_of = dict.fromkeys(rows_of, [0] * 6)
    for number, sentence in enumerate(sentences):
        # Only sentences with rules are counted; the corpus has more.
        if number not in rows_of:
            continue
        if sentence.gold is None or not sentence.gold.deciding_source:
            return None
        index = int(np.searchsorted(split.number, number))
        if split.untied(index):
            continue  # its gold names words, and its rules have subwords of two
        words = [side.current_words(index).tolist() for side in (split.source, split.target)]
        sentence_rules = rules.take(rows_of[number])
        counts_of[number] = _count(sentence_rules, split.target[index], sentence.gold, *words)
    return np.array([*counts_of.values()], dtype=np.int64).reshape(-1, 6)


def _count(
    rules: Rules, ids: np.ndarray, gold: Gold, source_words: list[int], target_words: list[int]
) -> list[int]:
    """Return one sentence's hits and counted decisions of the source, the prefix, either side."""
    counts = [0] * 6
    for row, step in enumerate(rules.step_N):
        label, word = rules.label_N[row], target_words[step]
        # EOS has no deciding word, and the gold decides only the gold word.
        if label == EOS or label != ids[step]:
            continue
        # The earlier pieces of a word decide its later ones.
        own_word = {word} if step and target_words[step - 1] == word else set()
        sides = (
            (gold.deciding_source[word], source_words, rules.source_position_NK[row]),
            (gold.deciding_prefix[word] | own_word, target_words, rules.prefix_position_NK[row]),
        )
        hits = [
            (side, any(p >= 0 and words[p] in deciding for p in positions_K))
            for side, (deciding, words, positions_K) in enumerate(sides)
            if deciding  # only words decide, never -1
        ]
        for side, hit in [*hits, (2, any(hit for _, hit in hits))] if hits else []:
            counts[2 * side] += hit
            counts[2 * side + 1] += 1
    return counts
