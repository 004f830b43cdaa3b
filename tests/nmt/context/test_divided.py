"""Training sentences that are split so that their parts are context (divide and rule)."""

import random

import pytest

from xnmt_bench.corpora.sentence import Corpus, Gold, Sentence
from xnmt_bench.nmt.context.divided import DividedCorpus, divided, uncrossed


class Few(Corpus):
    name, source_language, target_language = "few", "en", "de"

    def __init__(self, *pairs):
        self._pairs = pairs

    def sentences(self, split):
        for n, (document, source, target) in enumerate(self._pairs):
            yield Sentence(words("s", source), words("t", target), document, n, Gold())

    def recipe(self, split=None):
        return {"pairs": self._pairs}


def words(side, count):
    return " ".join(f"{side}{n}" for n in range(count))


def sizes(corpus, split="train"):
    return [
        (s.document, s.position, len(s.source.split()), len(s.target.split()))
        for s in corpus.sentences(split)
    ]


def test_middle():
    corpus = Few(("a", 6, 6), ("a", 7, 5), ("a", 9, 1), ("b", 12, 3))
    assert sizes(divided(corpus, "middle")) == [
        ("a", 0, 6, 6),  # too short
        ("a", 1, 3, 2), ("a", 2, 4, 3),  # the longer half stands behind
        ("a", 3, 9, 1),  # nothing to cut
        ("b", 0, 6, 1), ("b", 1, 6, 2),
    ]  # fmt: skip


def test_multi():
    corpus = Few(("a", 14, 14), ("a", 17, 11), ("a", 15, 2))
    assert sizes(divided(corpus, "multi")) == [
        ("a", 0, 7, 7), ("a", 1, 7, 7),
        ("a", 2, 5, 3), ("a", 3, 5, 3), ("a", 4, 7, 5),
        ("a", 5, 7, 1), ("a", 6, 8, 1),  # no three parts of two words
    ]  # fmt: skip


def test_nothing_is_lost_and_only_training_is_split():
    corpus = Few(("a", 20, 19), ("b", 8, 8))
    for how in ("middle", "multi", "aligned"):
        parts = list(divided(corpus, how).sentences("train"))
        for document, index in (("a", 0), ("b", 1)):
            document_parts = [p for p in parts if p.document == document]
            for side in ("source", "target"):
                texts = " ".join(getattr(p, side) for p in document_parts)
                assert texts == getattr(list(corpus.sentences("train"))[index], side)
            assert all(p.gold is None for p in document_parts)
        for split in ("valid", "test"):
            assert list(divided(corpus, how).sentences(split)) == list(corpus.sentences(split))
    assert divided(corpus, None) is corpus


@pytest.mark.parametrize(
    ("links", "cut"),
    [
        ({(n, n) for n in range(8)}, (4, 4)),
        ({(0, 0), (2, 3), (6, 6)}, (2, 3)),  # as near as 6, and the first
        ({(4, 2), (2, 4)}, None),  # they cross
        ({(4, 4), (3, 5), (6, 6)}, (6, 6)),
        ({(1, 1), (7, 7)}, None),  # a part of one word
        (set(), None),
    ],
)
def test_a_cut_that_no_link_crosses(links, cut):
    assert uncrossed(frozenset(links), 8, 8) == cut


def test_aligned_cuts_where_words_do():
    """Words are translated one by one, but the target begins with four more."""
    dice = random.Random(0)
    sources = [" ".join(dice.sample("abcdefghijklmnopqrst", 8)) for _ in range(60)]

    class Aligned(Few):
        def sentences(self, split):
            for n, text in enumerate(sources):
                yield Sentence(text, f"oh oh oh oh {text.upper()}", str(n), 0)

    for part in DividedCorpus(Aligned(), "aligned").sentences("train"):
        source = part.source.upper().split()
        assert len(source) == 4
        assert part.target.removeprefix("oh oh oh oh ").split() == source
    middle = [p.target for p in DividedCorpus(Aligned(), "middle").sentences("train")]
    assert {len(text.split()) for text in middle} == {6}
