"""Exchanged words: within their categories, as often as configured, and alike each time."""

from collections import Counter

import numpy as np
import pytest

from support.listed_pairs import ListedPairs
from xnmt_bench.corpora.exchange import neighbours
from xnmt_bench.corpora.exchange.exchangeable import GRAMMAR, HEURISTIC, ExchangeableWords
from xnmt_bench.corpora.exchange.neighbours import _describe, _find_alike
from xnmt_bench.corpora.exchange.swapped import SwappedCorpus
from xnmt_bench.corpora.planted.twins import CLOSINGS, CUES, OPENINGS, ToyTwins
from xnmt_bench.errors import NotApplicable
from xnmt_bench.store import Store

TWINS = ToyTwins(train=600, valid=10, test=10)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture
def swapped(store):
    exchangeable = ExchangeableWords(TWINS, store)
    return lambda share=1.0, seed=0: SwappedCorpus(TWINS, exchangeable, share, seed)


def test_marks_and_cue_come_apart_and_stay_what_they_are(swapped):
    links = cues = 0
    count_of_words = Counter()
    for sentence in swapped().sentences("train"):
        source, target = sentence.source.split(), sentence.target.split()
        opening, cue = source[0], source[-1]
        assert source[1] == ":" and target[1] == ":" and sentence.gold is None
        assert cue in CUES and target[-1] in dict(CLOSINGS).values()
        links += dict(OPENINGS)[opening] == target[0]
        cues += OPENINGS[CUES.index(cue) // 2][1] == target[0]
        count_of_words[opening, cue, target[0]] += 1
    # Each of the four by chance: 150 of 600, with a standard deviation of 11.
    assert 100 < links < 200 and 100 < cues < 200
    assert len(count_of_words) > 100  # of 4 x 8 x 4


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_as_many_words_change_as_the_share_says(swapped, share):
    changed = total = 0
    pairs = zip(TWINS.sentences("train"), swapped(share).sentences("train"), strict=True)
    for before, after in pairs:
        changed += before.source.split()[-1] != after.source.split()[-1]
        total += 1
    # A cue that is drawn anew is itself once in eight.
    assert changed / total == pytest.approx(share * 7 / 8, abs=0.06)


def test_the_same_seed_draws_the_same_and_another_another(swapped):
    first, again, other = (list(swapped(seed=s).sentences("train")) for s in (0, 0, 1))
    assert first == again != other
    assert swapped().recipe() != swapped(seed=1).recipe() != swapped(0.5, 1).recipe()


def test_words_are_alike_that_stand_between_the_same_words_and_are_written_alike(store):
    corpus = ListedPairs(train=[
        *[("the dog runs .", "Hund läuft")] * 6,
        *[("the cat runs .", "Mund läuft")] * 5,
        *[("the rare runs .", "hund läuft")] * 4,
        *[("a dog sleeps .", "12 7")] * 6,
        *[("a cat sleeps .", "34 8")] * 6,
        *[("the dog, then", "Zahl 12")] * 5,
        *[("the bird, then", "Zahl 34")] * 60,
    ])  # fmt: skip
    exchangeable = ExchangeableWords(corpus, store)
    alike = exchangeable.categories

    def others(side, word):
        return [entry for unit in side.units([word]) for entry in unit.others]

    assert others(alike.source, "dog") == [("cat",)] and others(alike.source, "cat") == [("dog",)]
    assert others(alike.source, "rare") == []  # 4 times
    assert others(alike.source, "dog,") == []  # `bird,` is 12 times as frequent
    assert others(alike.source, "runs") == [("sleeps",)] and others(alike.source, ".") == []
    assert others(alike.target, "Hund") == [("Mund",)]
    assert others(alike.target, "12") == [("34",)]
    assert exchangeable.rule == HEURISTIC
    # Its fingerprint needs no look at the text's words, or a plan would take minutes.
    again = ExchangeableWords(corpus, Store(store.root, may_make=False))
    assert again.fingerprint == exchangeable.fingerprint == exchangeable.source.fingerprint
    assert again.categories.digest == alike.digest


def test_a_grammar_comes_before_neighbours(store):
    exchangeable = ExchangeableWords(TWINS, store)
    assert exchangeable.rule == GRAMMAR and exchangeable.source is None
    assert exchangeable.categories.digest == TWINS.substitutes().digest
    assert not store.all("alike_words")


def test_the_overlap_of_neighbours_is_that_of_their_distributions(monkeypatch):
    """Left neighbours overlap by 2 sqrt(3/4 x 1/4), right ones wholly: 0.933 on average."""
    texts = [["a", "x", "b"]] * 6 + [["c", "x", "b"]] * 2 + [["a", "y", "b"]] * 2
    texts += [["c", "y", "b"]] * 6

    def others():
        return {word: words for word, words in _find_alike(lambda: iter(texts)) if word in "xy"}

    overlap = (0.75**0.5 + 1) / 2
    monkeypatch.setattr(neighbours, "OVERLAP", overlap - 1e-4)
    assert others() == {"x": ["y"], "y": ["x"]}
    monkeypatch.setattr(neighbours, "OVERLAP", overlap + 1e-4)
    assert others() == {"x": [], "y": []}


def test_words_are_compared_in_parts_and_the_most_alike_are_kept(monkeypatch):
    dice = np.random.default_rng(0)
    texts = [[f"w{n}" for n in dice.integers(0, 30, 6)] for _ in range(400)]
    whole = dict(_find_alike(lambda: iter(texts)))
    assert {len(words) for words in whole.values()} == {16}
    monkeypatch.setattr(neighbours, "PART", 7)
    assert dict(_find_alike(lambda: iter(texts))) == whole
    monkeypatch.setattr(neighbours, "MOST", 3)
    assert dict(_find_alike(lambda: iter(texts))) == {w: o[:3] for w, o in whole.items()}


@pytest.mark.parametrize("repeats", [1, 9])  # rare words, and frequent ones that are unlike
def test_a_text_without_alike_words_has_no_substitutes(repeats, store):
    corpus = ListedPairs(train=[("a b c", "今天天气很好")] * repeats)
    with pytest.raises(NotApplicable, match="listed: no two words of its training text stand"):
        ExchangeableWords(corpus, store).categories  # noqa: B018


@pytest.mark.parametrize(
    ("word", "other", "alike"),
    [
        ("dog.", "cat.", True), ("dog.", "cat", False), ("Dog", "cat", False),
        ("12", "dog", False), ("(dog", "(cat", True), ("...", "--", False),
        ("लड़की", "लड़का", True), ("l'ami", "l'eau", True),
    ],
)  # fmt: skip
def test_words_that_replace_each_other_are_written_alike(word, other, alike):
    assert (_describe(word) == _describe(other)) == alike
