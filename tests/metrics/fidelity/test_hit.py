"""hit@k on sentences whose hits are counted by hand."""

import numpy as np
import pytest

from xnmt_bench.corpora.sentence import Gold, Sentence
from xnmt_bench.corpora.vocabulary.encoded import EncodedSide, EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.metrics.fidelity.hit import hit_at_k
from xnmt_bench.rules.table import Rules


def split_of(**sentences):
    """An encoded split, in which ids of the same ten belong to a word."""
    numbers = np.array([int(name.removeprefix("n")) for name in sentences])
    sides = []
    for rows in zip(*sentences.values(), strict=True):
        words = [[sorted({i // 10 for i in ids}).index(i // 10) for i in ids] for ids in rows]
        sides.append(EncodedSide.of([[*ids, EOS] for ids in rows], [[*w, -1] for w in words]))
    return EncodedSplit(*sides, numbers)


def rules_of(*rows):
    """Rules of (sentence, step, label, source positions, prefix positions)."""
    sentence, step, label, source, prefix = (np.array(column) for column in zip(*rows, strict=True))
    nothing = np.zeros_like(source)
    return Rules(sentence, step, label, np.ones(len(rows)), nothing, nothing, source, prefix)


def sentence_of(source, target, deciding_source, deciding_prefix):
    """A pair with gold."""
    gold = Gold(
        deciding_source=tuple(map(frozenset, deciding_source)),
        deciding_prefix=tuple(map(frozenset, deciding_prefix)),
    )
    return Sentence(source, target, "d", 0, gold)


# Source a b c; target X Y, where X has two pieces.
PAIR = sentence_of("a b c", "X Y", [{0}, {1, 2}], [set(), {0}])
SPLIT = split_of(n0=([10, 20, 30], [50, 51, 60]))


def hits(*rows, sentences=(PAIR,), split=SPLIT):
    return hit_at_k(iter(sentences), split, rules_of(*rows))


def test_hits_by_hand():
    hit_counts = hits(
        (0, 0, 50, [0, 2], [-1, -1]),  # source hit; nothing in the prefix decides X
        (0, 1, 51, [2, 1], [0, -1]),  # source miss; the first piece of X decides its second
        (0, 2, 60, [0, 2], [1, -1]),  # source hit by c, prefix hit by X's second piece
        (0, 3, EOS, [0, 1], [0, 1]),  # no word
    )
    assert hit_counts.tolist() == [[2, 3, 2, 2, 3, 3]]


def test_decisions_that_differ_from_the_gold_are_not_counted():
    hit_counts = hits(
        (0, 0, 99, [0, 1], [-1, -1]),
        (0, 1, EOS, [0, 1], [0, -1]),
        (0, 2, 60, [0, -1], [0, -1]),
        (0, 3, 60, [1, 2], [0, 1]),  # a word where the gold has ended
    )
    assert hit_counts.tolist() == [[0, 1, 1, 1, 1, 1]]


def test_a_later_piece_without_the_first_is_a_miss():
    long = sentence_of("a", "X Y", [{0}, {0}], [set(), set()])
    split = split_of(n0=([10], [50, 60, 61, 62]))
    rows = [(0, 2, 61, [-1], [0]), (0, 3, 62, [-1], [2])]  # 0 is X; 2 is Y's second piece
    assert hits(*rows, sentences=[long], split=split).tolist() == [[0, 2, 1, 2, 1, 2]]


def test_sentences_are_found_by_their_number():
    """Sentence 1 was too long to be kept, and sentence 0 is not among the rules."""
    other = sentence_of("a b", "Z", [{0}], [set()])
    split = split_of(n0=([10, 20, 30], [50, 51, 60]), n2=([10, 11, 20], [70]), n3=([10, 20], [80]))
    # The second piece of sentence 2 still is its word 0; in sentence 3 it would be word 1.
    rows = [(2, 0, 70, [1], [-1]), (3, 0, 80, [0], [-1])]
    hit_counts = hits(*rows, sentences=[PAIR, PAIR, other, other], split=split)
    assert hit_counts.tolist() == [[1, 1, 0, 0, 1, 1]] * 2


@pytest.mark.parametrize("gold", [None, Gold()])
def test_no_deciding_words_no_counts(gold):
    pair = Sentence("a b c", "X Y", "d", 0, gold)
    assert hits((0, 0, 50, [0], [-1]), sentences=[pair]) is None
