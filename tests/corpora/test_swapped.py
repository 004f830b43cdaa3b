"""Exchanged words: within their categories, as often as configured, and alike each time."""

from collections import Counter

import pytest

from support.listed_pairs import ListedPairs
from xnmt_bench.corpora.exchange.bands import categories_of, frequency_bands
from xnmt_bench.corpora.exchange.swapped import SwappedCorpus
from xnmt_bench.corpora.planted.twins import CLOSINGS, CUES, OPENINGS, ToyTwins
from xnmt_bench.errors import NotApplicable

TWINS = ToyTwins(train=600, valid=10, test=10)


def swapped(share=1.0, seed=0):
    return SwappedCorpus(TWINS, TWINS.substitutes(), share, seed)


def test_marks_and_cue_come_apart_and_stay_what_they_are():
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
def test_as_many_words_change_as_the_share_says(share):
    changed = total = 0
    pairs = zip(TWINS.sentences("train"), swapped(share).sentences("train"), strict=True)
    for before, after in pairs:
        changed += before.source.split()[-1] != after.source.split()[-1]
        total += 1
    # A cue that is drawn anew is itself once in eight.
    assert changed / total == pytest.approx(share * 7 / 8, abs=0.06)


def test_the_same_seed_draws_the_same_and_another_another():
    first, again, other = (list(swapped(seed=s).sentences("train")) for s in (0, 0, 1))
    assert first == again != other
    assert swapped().recipe() != swapped(seed=1).recipe() != swapped(0.5, 1).recipe()


def test_bands_hold_words_of_like_frequency_ending_and_capital():
    corpus = ListedPairs(train=[
        ("running sleeping the the dog", "Hund Mund Bund"),
        ("running sleeping the the rare", "Hund Mund und"),
        ("often often often often eaten", "und 12 12 hund"),
        ("often often often often eaten", "hund . ."),
    ])  # fmt: skip
    bands = frequency_bands(corpus)

    def others(side, word):
        return [entry for unit in side.units([word]) for entry in unit.others]

    assert others(bands.source, "running") == [("sleeping",)]
    assert others(bands.source, "often") == []  # 8 times, and `eaten` twice
    assert others(bands.source, "the") == others(bands.source, "rare") == []
    assert others(bands.target, "Hund") == [("Mund",)]
    assert others(bands.target, "hund") == others(bands.target, "12") == []
    assert others(bands.target, "und") == others(bands.target, ".") == []
    assert categories_of(corpus, True, "x").digest == bands.digest
    assert categories_of(TWINS, False, "x").digest == TWINS.substitutes().digest
    with pytest.raises(NotApplicable, match=r"listed does not say .*; x=true takes words"):
        categories_of(corpus, False, "x")
