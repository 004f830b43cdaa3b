"""Markers around the mentions of clusters (Yehudai et al. 2023, section 4)."""

import random

import pytest

from support.coreference_rows import ROWS, ListedChains
from xnmt_bench.corpora.vocabulary.subwords import MARKER
from xnmt_bench.errors import XnmtError
from xnmt_bench.registry import create
from xnmt_bench.resolvers.base import tidy
from xnmt_bench.resolvers.markers import MarkedCorpus, mark


def unmarked(text):
    return [word for word in text.split() if not MARKER.fullmatch(word)]


def test_the_papers_example():
    text = "The trophy didn’t fit in the suitcase because it was too small"
    assert mark(text, (((6, 6), (8, 8)),)).text == (
        "The trophy didn’t fit in the <ENT1> suitcase </ENT1> because <ENT1> it </ENT1> "
        "was too small"
    )


def test_clusters_are_numbered_by_their_first_mention():
    marked = mark("a b c d", (((1, 1), (3, 3)), ((0, 0), (2, 2))))
    assert marked.text == ("<ENT1> a </ENT1> <ENT2> b </ENT2> <ENT1> c </ENT1> <ENT2> d </ENT2>")


@pytest.mark.parametrize(
    ("clusters", "expected"),
    [
        # `John sold his car as it broke`: `his` of `his car`.
        ((((0, 0), (2, 2)), ((2, 3), (5, 5))),
         "<1> John </1> sold <1> his </1> <2> car </2> as <2> it </2> broke"),
        # The inner mention is of the same cluster.
        ((((0, 3), (2, 2), (5, 5)),),
         "<1> John sold </1> <1> his </1> car as <1> it </1> broke"),
        # Two mentions cross: the shorter keeps its words.
        ((((0, 2), (6, 6)), ((2, 3), (5, 5))),
         "<1> John sold </1> <2> his car </2> as <2> it </2> <1> broke </1>"),
        # Equal mentions: the cluster that comes first, and the other keeps no two.
        ((((2, 2), (5, 5)), ((2, 2), (6, 6))),
         "John sold <1> his </1> car as <1> it </1> broke"),
    ],
)  # fmt: skip
def test_mentions_that_share_words(clusters, expected):
    text = mark("John sold his car as it broke", clusters).text
    assert text.replace("ENT", "") == expected


def test_a_cluster_that_loses_its_mentions_gives_its_number_and_words_back():
    marked = mark("a b c d", (((0, 0), (1, 1)), ((0, 0), (2, 2)), ((2, 2), (3, 3))))
    assert marked.text == "<ENT1> a </ENT1> <ENT1> b </ENT1> <ENT2> c </ENT2> <ENT2> d </ENT2>"
    assert (marked.marked, marked.covered) == (2, 1)


def test_at_most_eight_clusters():
    text = " ".join(f"w{n}" for n in range(20))
    marked = mark(text, tuple(((2 * n, 2 * n), (2 * n + 1, 2 * n + 1)) for n in range(10)))
    assert (marked.marked, marked.beyond, marked.covered) == (8, 2, 0)
    assert marked.text.endswith("<ENT8> w15 </ENT8> w16 w17 w18 w19")


def test_markers_are_never_nested_and_leave_every_word_alone():
    """Random clusters: brackets match at once, words stay, each cluster has two mentions."""
    rng = random.Random(0)
    for _ in range(300):
        words = [f"w{n}" for n in range(rng.randint(2, 14))]
        clusters = tidy(
            [
                (first, min(first + rng.randint(0, 3), len(words) - 1))
                for first in rng.choices(range(len(words)), k=rng.randint(1, 4))
            ]
            for _ in range(rng.randint(0, 6))
        )
        marked = mark(" ".join(words), clusters, most=3)
        pieces = marked.text.split()
        assert unmarked(marked.text) == words
        opened, counts = None, {}
        for piece in pieces:
            if piece.startswith("<ENT"):
                assert opened is None
                opened = piece[1:-1]
                counts[opened] = counts.get(opened, 0) + 1
            elif piece.startswith("</ENT"):
                assert piece[2:-1] == opened
                opened = None
        assert opened is None
        assert list(counts) == [f"ENT{n + 1}" for n in range(marked.marked)]
        assert all(count > 1 for count in counts.values())
        assert marked.marked <= 3
        assert marked.marked + marked.beyond + marked.covered == len(clusters)


def test_a_text_without_clusters_stays_as_it_is():
    assert mark("two  blanks ", ()).text == "two  blanks "


def test_a_corpus_with_markers_keeps_its_annotation():
    """Places count the words of the text, and vocabularies give markers no word."""
    corpus = ListedChains(*ROWS)
    marked = MarkedCorpus(corpus, create("resolvers", "gold"), most=1)
    assert marked.marked and not corpus.marked
    pairs = zip(corpus.sentences("train"), marked.sentences("train"), strict=True)
    for plain, with_markers in pairs:
        assert with_markers.gold == plain.gold
        assert unmarked(with_markers.source) == plain.source.split()
    assert list(marked.counts()) == [
        "3 clusters have markers; 0 beyond the first 1 of their sentence and 0 without two "
        "mentions of their own have none"
    ]
    assert marked.recipe() != MarkedCorpus(corpus, create("resolvers", "gold")).recipe()


def test_another_source_than_english():
    class German(ListedChains):
        source_language = "de"

    with pytest.raises(XnmtError, match="made: a resolver reads English, not de"):
        MarkedCorpus(German(*ROWS), create("resolvers", "gold"))


def test_bad_input_is_named_by_split_and_sentence():
    marked = MarkedCorpus(
        ListedChains(ROWS[0], ("a <ENT1> b </ENT1>", [])), create("resolvers", "gold")
    )
    with pytest.raises(XnmtError, match="made, valid, sentence 2: the text holds a marker: <ENT1>"):
        list(marked.sentences("valid"))


def test_a_training_split_without_any_cluster_is_an_error():
    marked = MarkedCorpus(ListedChains(ROWS[3]), create("resolvers", "gold"))
    with pytest.raises(XnmtError, match="made: the training split has no cluster to mark"):
        list(marked.sentences("train"))
    assert len(list(marked.sentences("test"))) == 1
