"""The catalogue of causes: the mark follows from the words that the rule names."""

from collections import Counter

import pytest

from xnmt_bench.corpora.planted.catalogue import MARKS, STARTS, Catalogue
from xnmt_bench.corpora.planted.twins import CUES, MIRRORS

SIZES = {"train": 400, "valid": 20, "test": 60}
TABLES = {
    "or": {(0, 0): "ja", (0, 1): "nein", (1, 0): "nein", (1, 1): "nein"},
    "and": {(0, 0): "ja", (0, 1): "ja", (1, 0): "ja", (1, 1): "nein"},
    "xor": {(0, 0): "ja", (0, 1): "nein", (1, 0): "nein", (1, 1): "ja"},
    "cancelling": {(0, 0): "ja", (0, 1): "offen", (1, 0): "nein", (1, 1): "offen"},
    "far": {(0, 0): "ja", (0, 1): "ja", (1, 0): "nein", (1, 1): "nein"},
}
CATALOGUE = (*TABLES, "prefix")


def kinds(sentence):
    """The kinds of both source words, from the places that the annotation names."""
    source, [planted] = sentence.source.split(), sentence.gold.planted
    return MIRRORS.index(source[planted.link]) // 4, CUES.index(source[planted.cue]) // 4


@pytest.mark.parametrize("cue", TABLES)
def test_the_mark_follows_from_the_kinds_of_both_words(cue):
    count_of_kinds = Counter()
    for sentence in Catalogue(**SIZES, cue=cue).sentences("train"):
        assert sentence.target.split()[-1] == TABLES[cue][kinds(sentence)]
        assert sentence.target.startswith(": ")
        count_of_kinds[kinds(sentence)] += 1
    assert len(count_of_kinds) == 4 and min(count_of_kinds.values()) > 60  # of 400


def test_of_prefix_only_the_first_target_word_says_the_mark():
    by_kinds = Counter()
    for sentence in Catalogue(**SIZES, cue="prefix").sentences("train"):
        target, [planted] = sentence.target.split(), sentence.gold.planted
        assert planted.earlier == 0
        assert MARKS.index(target[-1]) == STARTS.index(target[0])
        by_kinds[kinds(sentence), target[-1]] += 1
    assert len(by_kinds) == 8 and min(by_kinds.values()) > 25  # source words decide nothing


@pytest.mark.parametrize("cue", CATALOGUE)
def test_annotation_stands_at_its_words(cue):
    corpus = Catalogue(**SIZES, cue=cue)
    plain = list(corpus.corpus.sentences("test"))
    for sentence, inner in zip(corpus.sentences("test"), plain, strict=True):
        source, target, gold = sentence.source.split(), sentence.target.split(), sentence.gold
        [planted] = gold.planted
        assert target[planted.word] in MARKS and planted.word == len(target) - 1
        assert len(gold.deciding_source) == len(gold.deciding_prefix) == len(target)
        deciding = {source[n] for n in gold.deciding_source[-1]}
        both = {source[planted.link], source[planted.cue]}
        expected = {"far": {source[planted.link]}, "prefix": set()}.get(cue, both)
        assert deciding == expected
        assert gold.deciding_prefix[-1] == ({0} if cue == "prefix" else set())
        # The sentence's own links join the same words as before.
        words = inner.source.split(), inner.target.split()
        linked_words = {(words[0][i], words[1][j]) for i, j in inner.gold.sure}
        moved = {(source[i], target[j]) for i, j in gold.sure}
        assert moved == linked_words | {(":", ":"), (";", ";")}


@pytest.mark.parametrize("cue", CATALOGUE)
def test_substitutes_of_a_planted_word_are_of_the_other_kind(cue):
    for sentence in Catalogue(**SIZES, cue=cue).sentences("test"):
        [planted], (first, second) = sentence.gold.planted, kinds(sentence)
        assert {MIRRORS.index(w) // 4 for w in planted.other_links} == {1 - first}
        assert {CUES.index(w) // 4 for w in planted.other_cues} == {1 - second}


def test_the_slot_is_licensed_by_place():
    for sentence in Catalogue(**SIZES).sentences("test"):
        target = sentence.target.split()
        assert target.count(";") == 1 and target[-2] == ";"
        assert {*target[:-1]}.isdisjoint(MARKS)
