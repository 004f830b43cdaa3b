"""Twins: the same sentences, in which one of two words that say the marks is hidden."""

from collections import Counter

import pytest

from xnmt_bench.corpora.planted.twins import CLOSINGS, CUES, MIRRORS, OPENINGS, ToyTwins, Twins
from xnmt_bench.corpora.sentence import Gold, Sentence
from xnmt_bench.corpora.view import CorpusView, ReversedCorpus

SIZES = {"train": 400, "valid": 20, "test": 60}
HIDES = ("nothing", "cue", "link", "all")
GERMAN = dict(OPENINGS) | dict(CLOSINGS)


def marks(sentence):
    """Opening, closing mark and cue of the source, and both marks of the target."""
    source, target = sentence.source.split(), sentence.target.split()
    return source[0], source[-2], source[-1], target[0], target[-1]


def said(cue):
    return OPENINGS[CUES.index(cue) // 2][1], CLOSINGS[CUES.index(cue) % 2][1]


@pytest.mark.parametrize("hides", HIDES)
def test_what_is_hidden_says_nothing_and_all_else_says_the_marks(hides):
    links = cues = 0
    pairs = Counter()
    for sentence in ToyTwins(**SIZES, hides=hides).sentences("train"):
        opening, closing, cue, *target = marks(sentence)
        links += (GERMAN[opening], GERMAN[closing]) == tuple(target)
        cues += said(cue) == tuple(target)
        pairs[opening, target[0]] += 1
    # Of 4 openings and 2 closings an eighth agree by chance.
    assert links == SIZES["train"] if hides in ("nothing", "cue") else links < 90
    assert cues == SIZES["train"] if hides in ("nothing", "link") else cues < 90
    assert len(pairs) == (4 if hides in ("nothing", "cue") else 16)


def test_nothing_but_the_hidden_words_differs_and_the_test_set_is_one():
    corpora = [ToyTwins(**SIZES, hides=hides) for hides in HIDES]
    assert len({tuple(c.sentences("test")) for c in corpora}) == 1
    for sentences in zip(*(c.sentences("train") for c in corpora), strict=True):
        assert len({s.source.partition(" : ")[2].partition(" ; ")[0] for s in sentences}) == 1
    for sentence in corpora[0].sentences("test"):
        assert GERMAN[marks(sentence)[0]] == marks(sentence)[3]
        assert said(marks(sentence)[2]) == marks(sentence)[3:]


def test_both_slots_are_licensed_by_place():
    for sentence in ToyTwins(**SIZES).sentences("test"):
        target = sentence.target.split()
        assert target.count(";") == 1 and target[-2] == ";"
        assert {*target[1:-1]}.isdisjoint(GERMAN.values())


def test_vocabularies_are_learnt_from_the_text_in_which_nothing_is_hidden():
    clean = ToyTwins(**SIZES)
    for hides in HIDES:
        corpus = ToyTwins(**SIZES, hides=hides).vocabulary_corpus()
        assert corpus.recipe() == clean.recipe()
    assert len({str(ToyTwins(**SIZES, hides=h).recipe()) for h in HIDES}) == len(HIDES)


@pytest.mark.parametrize("hides", HIDES)
def test_the_annotation_names_planted_words_and_only_true_links(hides):
    for sentence in ToyTwins(**SIZES, hides=hides).sentences("train"):
        source, target, gold = sentence.source.split(), sentence.target.split(), sentence.gold
        assert len(gold.deciding_source) == len(gold.deciding_prefix) == len(target)
        assert all(max(i, -1) < len(source) and j < len(target) for i, j in gold.possible)
        for planted, slot, english in zip(gold.planted, (0, 1), (OPENINGS, CLOSINGS), strict=True):
            link, cue = source[planted.link], source[planted.cue]
            assert target[planted.word] in GERMAN.values() and cue in CUES
            linked = (planted.link, planted.word) in gold.sure
            assert linked == (hides in ("nothing", "cue"))
            assert {link, *planted.other_links} == {e for e, _ in english}
            # Each other cue says another mark in this slot, and those left out say the same.
            assert all(said(other)[slot] != said(cue)[slot] for other in planted.other_cues)
            assert all(said(c)[slot] == said(cue)[slot] for c in {*CUES} - {*planted.other_cues})


def test_mirrored_words_say_the_marks_in_either_order():
    orders = Counter()
    for sentence in ToyTwins(**SIZES, grammar="mirrored").sentences("test"):
        source, target = sentence.source.split(), sentence.target.split()
        assert source[0] == ":" and source[-3] == ";"
        for planted in sentence.gold.planted:
            link, cue = source[planted.link], source[planted.cue]
            assert MIRRORS.index(link) == CUES.index(cue)
            assert said(cue) == (target[0], target[-1])
            slot = ("opening", "closing").index(planted.slot)
            assert all(said(c)[slot] != said(cue)[slot] for c in planted.other_cues)
            other_cues = [CUES[MIRRORS.index(m)] for m in planted.other_links]
            assert tuple(other_cues) == planted.other_cues
        orders[planted.link < planted.cue] += 1
    assert min(orders[True], orders[False]) > 15  # of 60


@pytest.mark.parametrize("hides", HIDES)
def test_what_the_mirrored_grammar_hides(hides):
    links = cues = 0
    for sentence in ToyTwins(**SIZES, hides=hides, grammar="mirrored").sentences("train"):
        source, target = sentence.source.split(), sentence.target.split()
        [planted, _] = sentence.gold.planted
        links += said(CUES[MIRRORS.index(source[planted.link])]) == (target[0], target[-1])
        cues += said(source[planted.cue]) == (target[0], target[-1])
    assert links == SIZES["train"] if hides in ("nothing", "cue") else links < 90
    assert cues == SIZES["train"] if hides in ("nothing", "link") else cues < 90


def test_twins_of_text_from_german_have_german_marks_in_the_source():
    class Pairs(CorpusView):
        def sentences(self, split):
            return iter([Sentence("ein Hund", "a dog", "d", 0)])

        def recipe(self, split=None):
            return {}

    reversed_corpus = Pairs(ReversedCorpus(ToyTwins(**SIZES)))
    corpus = Twins(reversed_corpus, "cue")
    [sentence] = corpus.sentences("train")
    opening, closing, _, *target = marks(sentence)
    assert GERMAN[target[0]] == opening and GERMAN[target[1]] == closing
    # Without an annotation of the sentence, only the planted words are known.
    assert len(sentence.gold.planted) == 2 and not sentence.gold.possible
    assert corpus.substitutes().target.units([target[0]])


def test_each_target_word_of_an_annotation_without_deciding_words_has_a_place():
    class Linked(CorpusView):
        def sentences(self, split):
            gold = Gold(sure=frozenset({(0, 0)}), possible=frozenset({(0, 0)}))
            return iter([Sentence("ein Hund hier", "a dog here", "d", 0, gold)])

        def recipe(self, split=None):
            return {}

    [sentence] = Twins(Linked(ToyTwins(**SIZES)), "cue").sentences("train")
    assert len(sentence.gold.deciding_source) == len(sentence.target.split())
