"""From pieces to words: scores of a model's subwords as scores of words between blanks.

Shapes: T and S pieces of rows and columns, Y and X words of rows and columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from xnmt_bench.corpora.sentence import Links
from xnmt_bench.corpora.vocabulary.subwords import EOS, NO_WORD, SEPARATOR

ROUNDING = 1e-5  # relative: uniform weights that were rounded are still uniform


def tokens_of_pieces(words: Sequence[int]) -> list[int]:
    """Return which token of the sentence in words each piece belongs to, from 0.

    A piece of no word, such as EOS or a marker, is a token of its own.

    Args:
        words: the word that each piece belongs to, -1 for none.
    """
    tokens: list[int] = []
    current = -1
    for place, word in enumerate(words):
        current += place == 0 or word < 0 or word != words[place - 1]
        tokens.append(current)
    return tokens


def membership(words: Sequence[int] | np.ndarray, count: int | None = None) -> np.ndarray:
    """Return 1 where a piece belongs to a word, else 0: (pieces, words).

    Args:
        words: the word that each piece belongs to, below 0 for none, as EOS and markers have it.
        count: how many words there are; up to the last with a piece, if not given.
    """
    of_piece = np.asarray(words, dtype=np.int64)
    count = int(of_piece.max(initial=-1)) + 1 if count is None else count
    # As numbers, so that sums over pieces are products of matrices.
    return (of_piece[:, None] == np.arange(count)).astype(np.float64)


def to_words(
    scores_TS: np.ndarray,
    rows: Sequence[int] | np.ndarray,
    columns: Sequence[int] | np.ndarray,
    sizes: tuple[int, int] | None = None,
    blind: bool = False,
) -> np.ndarray:
    """Return scores of words for words, made of those of their pieces.

    They are summed over the pieces of a column's word, and averaged over those of a row's. Of a
    blind explainer they are those of each word's first piece: scores drawn alike for all pieces are
    then drawn alike for all words. A sum would make words of many pieces the greatest more often.

    Args:
        scores_TS: scores of pieces for pieces; NaN counts as 0.
        rows: the word that each piece of the rows belongs to, below 0 for none; length T.
        columns: the same for the columns; length S.
        sizes: how many words rows and columns have; up to the last with a piece, if not given.
        blind: whether the explainer never asks the model.

    Returns:
        Scores of words for words, (Y, X); 0 for a word without a piece.
    """
    count_Y, count_X = sizes or (None, None)
    of_rows, of_columns = membership(rows, count_Y), membership(columns, count_X)
    if blind:
        of_rows, of_columns = (_of_first_pieces(x) for x in (of_rows, of_columns))
    # A sum over a column's pieces, since a word's relevance is that of all its parts; a mean over
    # a row's pieces, since each is a decision of its own.
    mean = of_rows / np.maximum(of_rows.sum(0), 1)
    return mean.T @ np.nan_to_num(scores_TS) @ of_columns


def _of_first_pieces(member: np.ndarray) -> np.ndarray:
    """Return which pieces belong to which words, (pieces, words), without all but the first."""
    return member * (member.cumsum(0) == 1)


def as_shares(weights: np.ndarray, empty: float = 0.0) -> np.ndarray:
    """Return weights of source tokens as attention would be: shares of their sum.

    Negative weights and NaN count as 0. EOS has a share where it has a weight; where it shall have
    none, leave it out before.

    Args:
        weights: of source tokens for each target token, (T, S), or for all of them, (S,).
        empty: every share of a row that no token has a weight in.

    Returns:
        Shares, shaped like the weights; a row sums to 1, where a token has a weight in it.
    """
    # Attention knows no harm: what lowers a step's probability has no share in it.
    positive = np.maximum(np.nan_to_num(weights), 0)
    sums = positive.sum(-1, keepdims=True)
    return np.divide(positive, sums, out=np.full_like(positive, empty), where=sums > 0)


def significant(weights_IN: np.ndarray, whole_matrix: bool = False) -> np.ndarray:
    """Drop insignificant weights, and scale the others so that the greatest is 1.

    After Dinarelli et al. (2024), section 3.3. A weight at or below 1/N is dropped, which a uniform
    distribution over the N words would give.

    Args:
        weights_IN: raw weights of I words over the N words of one context sentence.
        whole_matrix: divide by the greatest weight of the matrix, not of each row.
    """
    if not weights_IN.size:
        return weights_IN
    kept = np.where(weights_IN > (1 + ROUNDING) / weights_IN.shape[1], weights_IN, 0.0)
    greatest = kept.max() if whole_matrix else kept.max(axis=1, keepdims=True)
    return np.divide(kept, greatest, out=np.zeros_like(kept), where=greatest > 0)


def best_links(
    relevance_TS: np.ndarray,
    source_words: Sequence[int],
    target_words: Sequence[int],
    blind: bool = False,
) -> Links:
    """Link each target word to the source word of greatest relevance, ties to the leftmost.

    Words without a piece have no link.

    Args:
        relevance_TS: of source pieces for target pieces.
        source_words: the word that each source piece belongs to, below 0 for none; length S.
        target_words: the same for target pieces; length T.
        blind: whether the explainer never asks the model; see `to_words`.
    """
    relevance_YX = to_words(relevance_TS, target_words, source_words, blind=blind)
    # Of words that have a piece: one without would be the best where all others have harmed.
    source_X, target_Y = (
        np.array(sorted({word for word in side if word >= 0}), dtype=np.int64)
        for side in (source_words, target_words)
    )
    if not len(source_X) or not len(target_Y):
        return frozenset()
    # `argmax` takes the first of equal values, which is the leftmost word.
    best_Y = source_X[relevance_YX[np.ix_(target_Y, source_X)].argmax(1)]
    return frozenset(zip(best_Y.tolist(), target_Y.tolist(), strict=True))


def count_through(
    ids: Sequence[int] | np.ndarray,
    words: Sequence[int] | np.ndarray,
    sizes: Sequence[int],
    closed: bool = False,
) -> np.ndarray:
    """Return the word of each id of a concatenation, counted through its last sentences.

    `NO_WORD` for separators, EOS, and sentences behind the current one or before those counted,
    such as a prompt's examples.

    Args:
        ids: the concatenation.
        words: of each id, counted from 0 in each sentence.
        sizes: how many words each sentence that is counted has, the current one last.
        closed: what closes a context sentence is the last of its words, and counted in its size.
    """
    ids, words, counted = np.asarray(ids), np.asarray(words), np.full(len(ids), NO_WORD)
    ends = np.flatnonzero(np.isin(ids, (SEPARATOR, EOS))).tolist()
    # The first EOS closes the current sentence.
    current = next(number for number, end in enumerate(ends) if ids[end] == EOS)
    stops = [-1, *ends[: current + 1]][-len(sizes) - 1 :]
    before = 0
    for size, (stop, end) in zip(sizes, pairwise(stops), strict=True):
        part = words[stop + 1 : end]
        counted[stop + 1 : end] = np.where(part >= 0, part + before, part)
        # Of sentences that are encoded alone, EOS is attended to as a word of the context.
        if closed and end != stops[-1]:
            counted[end] = before + size - 1
        before += size
    return counted
