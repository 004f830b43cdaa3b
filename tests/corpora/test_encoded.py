"""A corpus as ids on disk."""

import numpy as np
import pytest

from support.listed_pairs import ListedPairs
from xnmt_bench.corpora.passage import Context
from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit, encode
from xnmt_bench.corpora.vocabulary.subwords import EOS, SEPARATOR, Subwords, Tied


class Letters(Subwords):
    """A letter is an id."""

    fingerprint = "letters"

    def __len__(self):
        return 1000

    def encode(self, text):
        return [ord(letter) for letter in text]

    def decode(self, ids):
        return "".join(map(chr, ids))

    def pieces(self, ids):
        return list(map(chr, ids))


TRAIN = [("ab", "xyz"), ("abcd", "x"), ("a", "wxyz"), ("abc", "x"), ("b", "y"), ("a", "")]


@pytest.fixture
def encoded_folder(tmp_path):
    corpus = ListedPairs(train=TRAIN, test=[("toolong", "x")])
    counts = encode(corpus, Letters(), Letters(), 3, tmp_path)
    assert counts == {
        # Either side counts, and EOS does not. A side without a word cannot be read.
        "train": {"kept": 3, "too_long": 2, "unreadable": 1},
        "valid": {"kept": 0, "too_long": 0, "unreadable": 0},
        "test": {"kept": 0, "too_long": 1, "unreadable": 0},
    }
    return tmp_path


def test_sentences_come_back_closed_by_eos(encoded_folder):
    split = EncodedSplit.open(encoded_folder, "train")
    kept = [TRAIN[n] for n in (0, 3, 4)]
    assert len(split) == len(split.source) == len(split.target) == 3
    for i, (source, target) in enumerate(kept):
        assert split.source[i].tolist() == [*map(ord, source), EOS]
        assert split.target[i].tolist() == [*map(ord, target), EOS]
    assert split.source.lengths().tolist() == [3, 4, 2]
    assert split.target.lengths().tolist() == [4, 2, 2]


def test_words_stand_beside_ids(tmp_path):
    corpus = ListedPairs(train=[("a bc", "x"), ("d\u2003e", "y z")])
    encode(corpus, Letters(), Letters(), 9, tmp_path, splits=["train"])
    source = EncodedSplit.open(tmp_path, "train").source.taken(np.array([1, 0]))
    # A blank of its own belongs to the word behind it, and one of Unicode's ends no word.
    assert [source.words(i).tolist() for i in range(2)] == [[0, 0, 0, -1], [0, 1, 1, 1, -1]]


def test_pairs_that_the_system_cannot_read_are_left_out(tmp_path):
    """By the length of each side that it reads, below the configured length."""
    splits = ["train"]
    counts = encode(
        ListedPairs(train=TRAIN), Letters(), Letters(), 4, tmp_path, splits=splits, readable=(2, 3)
    )
    assert counts == {"train": {"kept": 2, "too_long": 0, "unreadable": 4}}
    assert EncodedSplit.open(tmp_path, "train").number.tolist() == [0, 4]


@pytest.mark.parametrize(
    ("context", "readable", "examples", "depths"),
    [
        # Sentences of 4 ids: a concatenation of n has 5n - 1, its EOS not counted.
        (Context(3), (None, None), 0, [0, 1, 2, 3]),
        (Context(3), (19, 19), 0, [0, 1, 2, 3]),
        (Context(3), (19, 18), 0, [0, 1, 2, 2]),
        (Context(3, target=False), (19, 4), 0, [0, 1, 2, 3]),
        (Context(3), (13, 19), 0, [0, 1, 1, 1]),
        # Following sentences take room of the source, and so do a prompt's examples.
        (Context(3, following=1), (19, 19), 0, [0, 1, 2, 3]),
        (Context(3, following=2), (18, 19), 0, [0, 0, 1, 2]),
        # What does not fit beside the current sentence is left out, the farthest first.
        (Context(0, following=3), (10, 19), 0, [0, 0, 0, 0]),
        (Context(3), (19, 19), 1, [0, 1, 2, 2]),
    ],
)
def test_a_context_is_shortened_to_what_the_system_reads(
    tmp_path, context, readable, examples, depths
):
    """By the system's limits, however long a sentence may be."""
    corpus, source = ListedPairs(train=[("abcd", "wxyz")] * 4), Letters()
    source.in_front = [Tied([*map(ord, "show")], [0] * 4)] * examples
    counts = encode(
        corpus, source, Letters(), 4, tmp_path, context, splits=["train"], readable=readable
    )
    assert counts["train"]["kept"] == 4
    rows = EncodedSplit.open(tmp_path, "train").source
    assert [int((rows[n] == SEPARATOR).sum()) - examples for n in range(4)] == depths
    if readable[0]:
        assert rows.lengths().max() <= readable[0] + 1


def test_pairs_keep_their_number_in_the_corpus(encoded_folder):
    assert EncodedSplit.open(encoded_folder, "train").number.tolist() == [0, 3, 4]


def test_ids_are_a_copy(encoded_folder):
    """Writing into them must not reach the mapped file."""
    split = EncodedSplit.open(encoded_folder, "train")
    ids = split.source[0]
    ids[:] = 0
    assert split.source[0][0] == ord("a")
    assert np.issubdtype(ids.dtype, np.integer)


@pytest.mark.parametrize("name", ["valid", "test"])
def test_an_empty_split(encoded_folder, name):
    split = EncodedSplit.open(encoded_folder, name)
    assert len(split) == len(split.source) == 0
    assert split.target.lengths().tolist() == []
