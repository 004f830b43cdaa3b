"""At which of two entities an explainer points: beside slow loops, and on a system."""

from dataclasses import replace

import numpy as np
import pytest

from xnmt_bench.corpora.suites.consistency.chains import chains
from xnmt_bench.corpora.suites.consistency.suite import Entity, Item
from xnmt_bench.metrics.consistency import Consistency
from xnmt_bench.metrics.consistency.judge import JudgedPronoun, TranslatedMention
from xnmt_bench.metrics.consistency.points import (
    Pointing,
    points,
    weigh_suite,
    weigh_words,
    write_entity_relevance,
)
from xnmt_bench.metrics.consistency.statistics import results, statistics
from xnmt_bench.morphology import GenderEvidence
from xnmt_bench.parquet import read_table
from xnmt_bench.pipeline.weighed_sentences import WeighedSentences
from xnmt_bench.store import fingerprint
from xnmt_bench.words import Tokens, Weighed
from xnmt_bench.words.pieces import to_words

SOURCE, TRANSLATION = "The cook's guest laughs as she eats.", "Der Gast lacht, weil sie isst."
# As a system cuts them: pieces, and the word of each.
CUT = "The cook ' s gue st laughs as she eats . </s>", "Der Ga st lacht , weil s ie isst . </s>"
SOURCE_TOKENS = Tokens(
    tuple(CUT[0].split()),
    (0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9, -1), "The cook ' s guest laughs as she eats .",
)  # fmt: skip
TARGET_TOKENS = Tokens(
    tuple(CUT[1].split()),
    (0, 1, 1, 2, 3, 4, 5, 5, 6, 7, -1), "Der Gast lacht , weil sie isst .",
)  # fmt: skip
SOURCE_OF = [0, 1, 1, 1, 2, 2, 3, 4, 5, 6, 6]  # of each piece, the suite's word
TARGET_OF = [0, 1, 1, 2, 2, 3, 4, 4, 5, 5]


def weighed(seed=0):
    weights_TS = np.random.default_rng(seed).normal(size=(11, 12))
    return Weighed(0, SOURCE_TOKENS, TARGET_TOKENS, weights_TS)


def judged(pronoun, other=True, entity="f", pronoun_gender="f", of_other="m"):
    """Genders of three mentions, and where the pronoun's translation stands."""
    mentions = [
        TranslatedMention(0, [0], [0], GenderEvidence(g, ""))
        for g in (entity, pronoun_gender, of_other)
    ]
    mentions[1] = TranslatedMention(0, [5], pronoun, GenderEvidence(pronoun_gender, ""))
    return JudgedPronoun(mentions[0], mentions[1], mentions[2] if other else None, True, None, "")


def test_a_blind_explainers_words_have_the_weights_of_their_first_pieces():
    """Source words of one to three pieces, some of which are words of their own to the system."""
    sentence = replace(weighed(), blind=True)
    found_YX = weigh_words(sentence, SOURCE, TRANSLATION).words_YX
    first = [SOURCE_OF.index(x) for x in range(7)]
    # Where the system has one word for a row, its first piece decides.
    for y, t in ((0, 0), (1, 1), (3, 5), (4, 6)):
        np.testing.assert_array_equal(found_YX[y], sentence.weights_TS[t, first])


def test_weights_of_a_suites_words_beside_a_loop():
    """Pieces of one system's word are averaged first, then the words that a suite's holds."""
    sentence = weighed()
    found_YX = weigh_words(sentence, SOURCE, TRANSLATION).words_YX
    assert found_YX.shape == (6, 7)
    system_word = [0, 1, 1, 2, 3, 4, 5, 5, 6, 7]
    for y in range(6):
        for x in range(7):
            columns = [s for s, word in enumerate(SOURCE_OF) if word == x]
            by_word = {}
            for t, word in enumerate(TARGET_OF):
                if word == y:
                    by_word.setdefault(system_word[t], []).append(
                        sentence.weights_TS[t, columns].sum()
                    )
            expected = np.mean([np.mean(values) for values in by_word.values()])
            assert found_YX[y, x] == pytest.approx(expected)


def rights(weighings, texts, items, judged_pronouns):
    weights = weigh_suite(weighings, texts, items)
    return [pointing.right for pointing in points(weights, items, judged_pronouns)]


def test_an_entity_weighs_what_its_heaviest_word_does():
    sentence = weighed()
    weights_YX = weigh_words(sentence, SOURCE, TRANSLATION).words_YX
    item = Item(0, 5, Entity((2,)), Entity((0, 1)))
    texts = {0: (SOURCE, TRANSLATION)}
    weighings = WeighedSentences("", False, lambda: [sentence])
    [share] = rights(weighings, texts, [item], [judged([4])])
    assert share == float(weights_YX[4, 2] > max(weights_YX[4, :2]))
    [turned] = rights(weighings, texts, [Item(0, 5, item.other, item.entity)], [judged([4])])
    assert turned == 1 - share
    tied_weighings = WeighedSentences(
        "", False, lambda: [Weighed(0, SOURCE_TOKENS, TARGET_TOKENS, np.ones((11, 12)))]
    )
    [tied] = rights(tied_weighings, texts, [Item(0, 5, Entity((3,)), Entity((4,)))], [judged([4])])
    assert tied == 0.5


def test_what_cannot_be_told_is_not_counted():
    texts, weighings = {0: (SOURCE, TRANSLATION)}, WeighedSentences("", False, lambda: [weighed()])
    alone, earlier = Item(0, 5, Entity((2,))), Item(0, 5, Entity((2,), 1), Entity((1,)))
    item = Item(0, 5, Entity((2,)), Entity((1,)))
    judged_pronouns = [judged([4], other=False), judged([4]), judged([])]
    assert rights(weighings, texts, [alone, earlier, item], judged_pronouns) == [None] * 3
    assert rights(WeighedSentences("", False, list), texts, [item], [judged([4])]) == [None]


def test_relevance_of_an_entity_is_the_mean_over_its_words(tmp_path):
    """Empty of what is not linked, not explained, or stands in an earlier sentence."""
    sentence = weighed()
    weights = {0: weigh_words(sentence, SOURCE, TRANSLATION)}
    items = [Item(0, 5, Entity((2,))), Item(0, 5, Entity((2,), 1)), Item(1, 5, Entity((2,)))]
    pronoun = TranslatedMention(0, [5], [4], None)
    linked, unlinked = (
        JudgedPronoun(TranslatedMention(0, [2], words, None), pronoun, None, True, None, "")
        for words in ([0, 1], [])
    )
    write_entity_relevance(weights, [*items, items[0]], [linked] * 3 + [unlinked], tmp_path)
    first, *other_scores = read_table(tmp_path / "entity_relevance.parquet")[
        "relevance"
    ].to_pylist()
    assert first == pytest.approx((weights[0].words_YX[0] + weights[0].words_YX[1]) / 2)
    assert other_scores == [[], [], []]


def test_it_points_where_the_pronoun_goes():
    """Right, wrong, both: a pronoun that fits both goes nowhere in particular."""
    item = Item(0, 5, Entity((2,)), Entity((1,)))
    judged_pronouns = [judged([4]), judged([4], pronoun_gender="m"), judged([4], of_other="f")]
    assert [j.cluster for j in judged_pronouns] == ["right", "wrong", "both"]
    columns = statistics(
        [item] * 3, judged_pronouns, pointings=[Pointing(p, None) for p in (1.0, 1.0, 0.5)]
    )
    score_of = results({name: c.sum(keepdims=True) for name, c in columns.items()})
    assert score_of["points_right"] == pytest.approx(2.5 / 3)
    assert score_of["points_there"] == 0.5  # of two, one


def test_on_a_system(transformer):
    """Of the generated corpus's own translations."""
    pytest.importorskip("german_nouns")
    metric = Consistency(suite="chains", links="explainer", relevance=True)
    [planned, _] = metric.measure(transformer)
    assert planned.keys["explainer"] == transformer.explained.name
    evidence = planned.make()
    columns = evidence.units.columns
    # Its words are the corpus's, so that weights of words need not be carried.
    weights = {
        s.number: to_words(s.weights_TS, list(s.target.words), list(s.source.words))
        for s in transformer.weighed_sentences()
    }
    pointing = []
    for item in chains(transformer.corpus).items:
        weights_YX = weights[item.sentence]
        steps = [y for y, row_X in enumerate(weights_YX) if row_X.argmax() == item.pronoun]
        if item.other and item.backs == {0} and steps:
            step_X = weights_YX[steps].mean(0)
            entity, other = (max(step_X[n] for n in e.words) for e in (item.entity, item.other))
            pointing.append(1 if entity > other else 0 if entity < other else 0.5)
    assert len(pointing) > 3
    assert (columns["pointing"].sum(), columns["pointed"].sum()) == (len(pointing), sum(pointing))
    assert evidence.made_by["relevance"] == transformer.weighed_sentences().fingerprint
    # Beside the judged pronouns, row by row: the relevance at the words of each entity.
    pronouns, relevance = (
        read_table(evidence.files[name]).to_pylist() for name in ("judged", "entity_relevance")
    )
    compared = 0
    for row, values in zip(pronouns, relevance, strict=True):
        if row["entity_target"] and not row["entity_back"]:
            expected = weights[row["number"]][row["entity_target"]].mean(0)
            assert values["relevance"] == pytest.approx(expected.tolist())
            compared += 1
        else:
            assert values["relevance"] == []
    assert compared > 3


def test_a_row_of_people_is_of_the_system_whose_relevance_is_asked(transformer):
    """Another system in the same results has a row of people of its own."""
    metric = Consistency(suite="chains", links="explainer", relevance=True)
    system_row, people = (planned.identify() for planned in metric.measure(transformer))
    assert (system_row.model, people.model) == (transformer.system.fingerprint, "")
    assert people.content["system"] == transformer.system.fingerprint
    name = f"{transformer.explained.name} of {transformer.system.name}"
    assert (people.columns["explainer"], people.columns["links"]) == (name, name)
    assert (
        system_row.columns["explainer"] == system_row.columns["links"] == transformer.explained.name
    )
    assert "system" not in system_row.content
    _, plain = (
        p.identify() for p in Consistency(suite="chains", links="gold").measure(transformer)
    )
    assert "system" not in plain.content


def test_what_people_are_aligned_by_is_in_their_row(transformer):
    metric = Consistency(suite="chains", learn_from="train")
    _, people = (planned.identify() for planned in metric.measure(transformer))
    assert people.content["learn_from"] == fingerprint(transformer.corpus.recipe("train"))
