"""Words of pieces, counted through the sentences of a concatenation."""

import pytest

from xnmt_bench.corpora.vocabulary.subwords import EOS, SEPARATOR
from xnmt_bench.words.pieces import count_through

EXAMPLE, CONTEXT, CURRENT, BEHIND = [20, SEPARATOR], [21, 22, SEPARATOR], [23, EOS], [24, EOS]


@pytest.mark.parametrize(
    ("parts", "sizes", "closed", "expected"),
    [
        ((CONTEXT, CURRENT), (2, 1), False, [0, 1, -1, 2, -1]),
        ((CONTEXT, CURRENT, BEHIND), (2, 1), False, [0, 1, -1, 2, -1, -1, -1]),
        # Of sentences that are encoded alone, what closes the context is a word of it.
        ((CONTEXT, CURRENT), (3, 1), True, [0, 1, 2, 3, -1]),
        # Examples of a prompt are no context.
        ((EXAMPLE, CONTEXT, CURRENT), (2, 1), False, [-1, -1, 0, 1, -1, 2, -1]),
        ((EXAMPLE, CURRENT, BEHIND), (1,), False, [-1, -1, 0, -1, -1, -1]),
    ],
)
def test_words_are_counted_through_the_last_sentences(parts, sizes, closed, expected):
    ids = [i for part in parts for i in part]
    words = [n if i > EOS else -1 for part in parts for n, i in enumerate(part)]
    assert count_through(ids, words, sizes, closed).tolist() == expected
