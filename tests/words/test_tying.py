"""Tokens of other tools' dumps, tied to the words of the text that they are of."""

import pytest

from xnmt_bench.words.tying import tie_tokens
from xnmt_bench.words.weighed import Tokens


def tied(pieces, text, eos=True):
    tokens = tie_tokens(Tokens.of(pieces.split(" "), eos), text)
    return None if tokens is None else list(tokens.words)


@pytest.mark.parametrize(
    ("pieces", "text", "words"),
    [
        ("▁the ▁do g ▁sees", "the dog sees", [0, 1, 1, 2]),
        ("the do@@ g sees", "The dog sees", [0, 1, 1, 2]),
        # A zero-width non-joiner became a blank; then U+200B vanished, and a mark was split off.
        ("▁می ▁رو م ▁خانه", "می\u200cروم خانه", [0, 0, 0, 1]),
        ("▁the ▁s ▁ \u0301 ▁x", "\u200b thé\u200b s\u00b4 x", [1, 2, 2, 2, 3]),
        ("▁a ▁ . . . ▁1 ⁄ 2", "a … ½", [0, 1, 1, 1, 1, 2, 2, 2]),
        # Moses's marks.
        ("don &apos;t go @-@ to &amp; fro", "don 't go - to & fro", [0, 1, 2, 3, 4, 5, 6]),
        ("a &apos;s &quot; b &quot;", "a &apos;s &quot; b &quot;", [0, 1, 2, 3, 4]),
        # A tool without subwords cannot say more of unknown words.
        ("the <unk> <unk> sees", "the dog quickly sees", [0, 1, 2, 3]),
        ("the ⁇ sees", "the 犬 sees", [0, 1, 2]),
    ],
)
def test_tokens_are_of_the_words_that_hold_their_letters(pieces, text, words):
    assert tied(pieces, text) == [*words, -1]
    assert tied(pieces, text, eos=False) == words


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ("the dog sees him", "the dog sees"),
        ("thedog sees", "the dog sees"),  # a token of two words
        ("a geht ' s dir", "a \ufffd geht’s dir"),  # as many words, of which one vanished
        ("▁Wie ▁geht ▁s <unk>", "\ufffd Wie geht´s ?"),
        ("other words stand here", "the dog sees him"),
    ],
)
def test_tokens_that_may_be_of_other_words_are_not_tied(pieces, text):
    assert tied(pieces, text) is None
