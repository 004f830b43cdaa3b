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
) -> dict[str, float] | None:
    """Share of decisions whose top-k words of a side hold a deciding word of that side.

    Counted are decisions whose label is the gold word, since the gold decides nothing else, and
    sides on which something decides. The earlier pieces of a word decide its later ones.

    Args:
        sentences: the corpus's sentences, in order, with gold.
        split: the same sentences as ids.
        source: source vocabulary.
        target: target vocabulary.
        rules: the decisions, in the order of the split.

    Returns:
        Shares for `source`, `prefix` and `both` together; None where no gold names deciding words.
    """
    starts = np.flatnonzero(np.diff(rules.sentence_N, prepend=-1))
    wanted = {int(rules.sentence_N[i]): n for n, i in enumerate(starts)}
    ends = [*starts[1:].tolist(), len(rules)]
    hits = {"source": [0, 0], "prefix": [0, 0]}
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
        _count(rows, split.target[index], sentence.gold, words, hits)
    rates = {side: right / max(1, total) for side, (right, total) in hits.items()}
    right, total = (sum(h[i] for h in hits.values()) for i in (0, 1))
    return {**rates, "both": right / max(1, total)}


def _count(
    rules: Rules,
    gold_ids: np.ndarray,
    gold: Gold,
    words: tuple[np.ndarray, np.ndarray],
    hits: dict[str, list[int]],
) -> None:
    """Adds one sentence's [hits, decisions] of each side."""
    source_words, target_words = words
    for row, step in enumerate(rules.step_N):
        label, word = rules.label_N[row], target_words[step]
        if label == EOS or label != gold_ids[step]:
            continue
        own = {int(word)} if step and target_words[step - 1] == word else set()
        deciding = {
            "source": set(gold.deciding_source[word]),
            "prefix": set(gold.deciding_prefix[word]) | own,
        }
        chosen = {
            "source": _words_at(source_words, rules.source_position_NK[row]),
            "prefix": _words_at(target_words, rules.prefix_position_NK[row]),
        }
        for side, expected in deciding.items():
            if expected:
                hits[side][0] += bool(expected & chosen[side])
                hits[side][1] += 1


def _words_at(words: np.ndarray, positions_K: np.ndarray) -> set[int]:
    return {int(words[p]) for p in positions_K if p >= 0 and words[p] >= 0}
