"""Edit distance with swaps, and tokenisation there and back."""

import itertools

import pytest

from xnmt_bench.corpora.tokens import align_tokens, detokenizer, tokenizer
from xnmt_bench.errors import XnmtError


@pytest.mark.parametrize(
    ("first", "second", "pairs"),
    [
        ("a b c", "a b c", [(0, 0), (1, 1), (2, 2)]),
        ("a b c", "a c", [(0, 0), (2, 1)]),
        ("a c", "a b c", [(0, 0), (1, 2)]),
        ("a b c", "a x c", [(0, 0), (1, 1), (2, 2)]),
        ("a b c d", "a c b d", [(0, 0), (1, 2), (2, 1), (3, 3)]),
        ("a b", "b a", [(0, 1), (1, 0)]),
        ("", "a", []),
        ("a", "", []),
    ],
)
def test_by_hand(first, second, pairs):
    assert align_tokens(first.split(), second.split()) == pairs


def distance(a, b):
    """The same distance by recursion."""
    if not a or not b:
        return len(a) + len(b)
    least = min(
        distance(a[:-1], b) + 1,
        distance(a, b[:-1]) + 1,
        distance(a[:-1], b[:-1]) + (a[-1] != b[-1]),
    )
    if len(a) > 1 and len(b) > 1 and a[-1] == b[-2] and a[-2] == b[-1]:
        least = min(least, distance(a[:-2], b[:-2]) + 1)
    return least


def test_the_alignment_costs_what_the_cheapest_edits_cost():
    for a, b in itertools.product(itertools.product("xyz", repeat=4), repeat=2):
        b = b[: 1 + (sum(map(ord, a)) % 4)]
        pairs = align_tokens(a, b)
        crossed = sum(i < k and j > m for (i, j), (k, m) in itertools.permutations(pairs, 2))
        changed = sum(a[i] != b[j] for i, j in pairs)
        cost = changed + crossed + len(a) + len(b) - 2 * len(pairs)
        assert cost == distance(a, b), (a, b, pairs)


@pytest.mark.parametrize(
    "text", ["Yes, that's it.", '"Well," he said, "no!"', "A (small) test; ok?"]
)
def test_tokens_go_to_raw_text_and_back(text):
    tokens = tokenizer("moses", "en")(text).split()
    assert len(tokens) > len(text.split())
    assert detokenizer("en")(tokens) == text


def test_treebank_quotes_become_plain_ones():
    assert detokenizer("en")(["``", "No", ",", "''", "he", "said", "."]) == '"No," he said.'


def test_tokenizers_are_few():
    assert tokenizer(None, "de")("Ein  Hund.") == "Ein  Hund."
    with pytest.raises(XnmtError, match="unknown tokenizer 'spacy'"):
        tokenizer("spacy", "de")


def test_clitics_that_stand_alone_are_not_cut_again():
    words = tokenizer("moses", "en")
    for text in ("Don 't say it 's mine .", "Don't say it's mine."):
        assert words(text) == "Don 't say it 's mine ."
    assert words("He said 'yes' .") == tokenizer("moses", "en")("He said 'yes'.")
