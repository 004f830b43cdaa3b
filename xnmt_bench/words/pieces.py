"""From pieces to words: scores of a model's subwords as scores of words between blanks.

Shapes: T and S pieces of rows and columns, Y and X words of rows and columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xnmt_bench.corpora.sentence import Links
from xnmt_bench.corpora.subwords import EOS, SEPARATOR, Subwords, current_span


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


def membership(words: Sequence[int]) -> np.ndarray:
    """Return 1 where a piece belongs to a word, else 0: (pieces, words).

    Args:
        words: the word that each piece belongs to, -1 for none, as EOS and markers have it.
    """
    of_piece = np.asarray(words, dtype=np.int64)
    count = int(of_piece.max(initial=-1)) + 1
    # As numbers, so that sums over pieces are products of matrices.
    return (of_piece[:, None] == np.arange(count)).astype(np.float64)


def to_words(scores_TS: np.ndarray, rows: Sequence[int], columns: Sequence[int]) -> np.ndarray:
    """Sum scores over the pieces of a column's word, and average them over those of a row's.

    Args:
        scores_TS: scores of pieces for pieces; NaN counts as 0.
        rows: the word that each piece of the rows belongs to, -1 for none; length T.
        columns: the same for the columns; length S.

    Returns:
        Scores of words for words, (Y, X).
    """
    of_rows, of_columns = membership(rows), membership(columns)
    # A sum over a column's pieces, since a word's relevance is that of all its parts; a mean over
    # a row's pieces, since each is a decision of its own.
    return (of_rows / of_rows.sum(0)).T @ np.nan_to_num(scores_TS) @ of_columns


def first_pieces(scores_TS: np.ndarray, rows: Sequence[int], columns: Sequence[int]) -> np.ndarray:
    """Return the scores of each word's first piece for each word's first piece, (Y, X).

    Scores drawn alike for all pieces are then drawn alike for all words. Under `to_words` the sum
    of a word with many pieces would more often be the greatest, and a mean less often.

    Args:
        scores_TS: scores of pieces for pieces; NaN counts as 0.
        rows: the word that each piece of the rows belongs to, -1 for none; length T.
        columns: the same for the columns; length S.
    """
    # `index` finds the first piece of each word.
    places = ([words.index(n) for n in range(max(words) + 1)] for words in (rows, columns))
    return np.nan_to_num(scores_TS)[np.ix_(*places)]


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


def best_links(
    relevance_TS: np.ndarray, source_words: Sequence[int], target_words: Sequence[int]
) -> Links:
    """Link each target word to the source word of greatest relevance, ties to the leftmost.

    Args:
        relevance_TS: of source pieces for target pieces.
        source_words: the word that each source piece belongs to, -1 for none; length S.
        target_words: the same for target pieces; length T.
    """
    relevance_YX = to_words(relevance_TS, target_words, source_words)
    if not relevance_YX.shape[1]:  # a sentence without a source word
        return frozenset()
    # `argmax` takes the first of equal values, which is the leftmost word.
    return frozenset((int(i), j) for j, i in enumerate(relevance_YX.argmax(1)))


def segment_words(
    subwords: Subwords, ids: list[int], closed: bool = False
) -> tuple[list[int], list[int]]:
    """Return the word of each id of a concatenation, and the number of words of each sentence.

    Words are counted through the whole concatenation, up to the current sentence. Separators, EOS
    and the sentences that follow are -1.

    Args:
        subwords: of the side.
        ids: the concatenation.
        closed: count what closes a context sentence as the last of its words.
    """
    words, sizes = list[int](), list[int]()
    _, last = current_span(ids)
    ends = [n for n, i in enumerate(ids[:last]) if i in (SEPARATOR, EOS)]
    for start, end in zip([0, *(end + 1 for end in ends)], ends, strict=False):
        sentence_words = subwords.words(ids[start:end])
        # Of sentences that are encoded alone, EOS is attended to as a word of the context.
        counts_end = closed and end != ends[-1]
        size, before = max(sentence_words, default=-1) + 1, sum(sizes)
        words += [word + before for word in sentence_words]
        words.append(before + size if counts_end else -1)
        sizes.append(size + counts_end)
    return words + [-1] * (len(ids) - last), sizes
