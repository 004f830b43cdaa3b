"""From relevance to word alignment, and alignments that need no model."""

from __future__ import annotations

import numpy as np

from xnmt_bench.corpora.sentence import Links


def best_links(relevance_TS: np.ndarray, source_words: list[int], target_words: list[int]) -> Links:
    """For each target word the source word of greatest relevance, ties to the leftmost.

    Args:
        relevance_TS: of source pieces for target pieces; see `to_words`.
        source_words: the word each source piece belongs to, -1 for none; length S.
        target_words: the same for target pieces; length T.
    """
    relevance_YX = to_words(relevance_TS, target_words, source_words)
    return frozenset((int(i), j) for j, i in enumerate(relevance_YX.argmax(1)))


def to_words(scores_TS: np.ndarray, rows: list[int], columns: list[int]) -> np.ndarray:
    """From pieces to words: summed over the pieces of a column's word, averaged over a row's.

    Args:
        scores_TS: scores of pieces for pieces; NaN counts as 0.
        rows: the word each piece of the rows belongs to, -1 for none; length T.
        columns: the same for the columns; length S.
    """
    # 1 where a piece belongs to a word: (pieces, words).
    of_rows, of_columns = (
        (np.asarray(words)[:, None] == np.arange(max(words, default=-1) + 1)).astype(np.float64)
        for words in (rows, columns)
    )
    return (of_rows / of_rows.sum(0)).T @ np.nan_to_num(scores_TS) @ of_columns


def diagonal(source: int, target: int) -> Links:
    """Each of `target` words with that of `source` words at the same share of its sentence."""
    return frozenset((int((j + 0.5) * source / target), j) for j in range(target))
