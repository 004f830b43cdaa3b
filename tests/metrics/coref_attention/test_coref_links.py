"""Attention over coreference links: planted truth and hand-worked matrices."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from xnmt_bench.corpora.function_words import is_function
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.metrics.coref_attention.link_attention import (
    SUBSETS,
    CorefScores,
    PlacedMention,
    coref_scores,
)
from xnmt_bench.words.pieces import significant

NONE = frozenset()


def mention(chain, words, text=None):
    texts = (text or " ".join("x" * len(words))).split()
    return PlacedMention(chain, tuple(words), tuple(texts))


def sums(scores, subset="all"):
    """Over every sentence that a score is of."""
    numbers = [link.sentence for link in scores.links] + [n for n, _ in scores.mentions]
    units = scores.units("a test set", range(max(numbers, default=-1) + 1), subset)
    return {name: column.sum(keepdims=True) for name, column in units.columns.items()}


def results(scores, subset="all"):
    """The metrics over all sentences."""
    return {name: float(value) for name, [value] in coref_scores(sums(scores, subset)).items()}


def of_toy(mentions, text):
    words = text.split()
    return [PlacedMention(m.chain, m.words, tuple(words[i] for i in m.words)) for m in mentions]


def toy_pairs(side):
    """Each toy sentence with each of its up to three predecessors in the document."""
    documents = itertools.groupby(ToyCorpus(test=200).sentences("test"), lambda s: s.document)
    for _, sentences in documents:
        spoken = [
            (
                getattr(s, side).split(),
                of_toy(getattr(s.gold, f"{side}_mentions"), getattr(s, side)),
            )
            for s in sentences
        ]
        for i, current in enumerate(spoken):
            for distance in range(1, min(3, i) + 1):
                yield distance, current, spoken[i - distance]


def oracle(current, context):
    """All of a mention's attention on the mentions of its chain."""
    weights = np.zeros((len(current[0]), len(context[0])))
    for m in current[1]:
        right = [n for a in context[1] if a.chain == m.chain for n in a.words]
        for i in m.words:
            weights[i, right] = 1 / max(1, len(right))
    return weights


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("whole_matrix", [False, True])
def test_an_oracle_is_perfect_on_the_toy_corpus(side, whole_matrix):
    scores = CorefScores()
    for number, (distance, current, context) in enumerate(toy_pairs(side)):
        weights = oracle(current, context)
        if whole_matrix:
            weights = (weights > 0) * 1.0  # one greatest weight, wherever it stands
        scores.add(number, distance, significant(weights, whole_matrix), current[1], context[1],
                   context[0], NONE)  # fmt: skip
    score_of = results(scores)
    assert score_of["links"] == len(scores.links) > 250
    assert (score_of["max_weight"], score_of["nonzero"], score_of["average"]) == (1, 1, 1)
    assert score_of["precision"] == 1


@pytest.mark.parametrize("count", range(2, 51))
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_uniform_attention_is_nothing(count, kind):
    even = np.full((4, count), kind(1) / kind(count))
    rounded = np.exp(np.log(even) + kind(1)) / np.exp(np.log(even) + kind(1)).sum(1, keepdims=True)
    for weights in (even, rounded, even / 3):
        assert significant(weights).max() == 0
        scores = CorefScores()
        scores.add(0, 1, significant(weights), [mention("a", [0])], [mention("a", [1])],
                   ["w"] * count, NONE)  # fmt: skip
        assert results(scores)["nonzero"] == 0


def test_post_processing_by_hand():
    raw = np.array([[0.30, 0.20, 0.25, 0.25], [0.60, 0.30, 0.05, 0.05], [0.1, 0.1, 0.1, 0.1]])
    expected = [[1, 0, 0, 0], [1, 0.5, 0, 0], [0, 0, 0, 0]]
    np.testing.assert_allclose(significant(raw), expected)
    kept_weights = [[0.5, 0, 0, 0], [1, 0.5, 0, 0], [0, 0, 0, 0]]
    np.testing.assert_allclose(significant(raw, whole_matrix=True), kept_weights)


def test_metrics_by_hand():
    weights = np.array([[1.0, 0.0, 0.4, 0.0], [0.0, 0.0, 1.0, 0.5], [0.0, 0.0, 0.0, 0.0]])
    current = [mention("a", [0]), mention("b", [1, 2])]
    context = [mention("a", [0]), mention("a", [1]), mention("b", [3])]
    scores = CorefScores()
    scores.add(5, 2, weights, current, context, ["dog", "cat", ".", "the"], frozenset({"the"}))
    assert [link.weight for link in scores.links] == [1.0, 0.0, 0.5]
    assert {(link.sentence, link.distance) for link in scores.links} == {(5, 2)}
    score_of = results(scores)
    assert score_of["links"] == 3
    assert score_of["max_weight"] == pytest.approx(1 / 3)
    assert score_of["nonzero"] == pytest.approx(2 / 3)
    assert score_of["average"] == pytest.approx(0.5)
    # Both mentions attend to something, and both to a right antecedent among it.
    assert score_of["precision"] == 1
    # Word 0 attends to dog and the full stop, word 1 to the full stop and the article.
    assert (score_of["dispersion"], score_of["dispersion_function"]) == (0.5, 1.5)


def test_a_mention_that_looks_elsewhere_costs_precision():
    scores, pronoun = CorefScores(), mention("a", [0])
    scores.add(0, 1, np.array([[0.0, 1.0]]), [pronoun], [pronoun], ["x", "y"], NONE)
    assert results(scores)["precision"] == 0
    assert results(scores)["nonzero"] == 0
    # A look at a right antecedent in any context sentence mends it ...
    scores.add(0, 2, np.array([[1.0, 0.0]]), [pronoun], [pronoun], ["x", "y"], NONE)
    assert results(scores)["precision"] == 1
    # ... and a mention without an antecedent in the context cannot be right or wrong.
    scores.add(1, 1, np.array([[1.0, 0.0]]), [pronoun], [mention("b", [1])], ["x", "y"], NONE)
    assert (sums(scores)["looking"], sums(scores)["looking_right"]) == ([1], [1])


@pytest.mark.parametrize(
    ("current_text", "context_text", "attended", "naive", "hard"),
    [
        ("it", "it", [[0]], False, False),  # not found, so not found in a naive way
        ("It", "it", [[1]], True, False),
        ("it", "the dog", [[1, 0]], False, False),
        # The paper's own two cases; whichever word of the mention it is that attends to `pink`.
        ("the pink one", "a pink balloon", [[0, 0, 0], [0, 1, 0], [0, 0, 0]], True, False),
        ("the pink one", "a pink balloon", [[0, 0, 0], [0, 0, 0], [0, 1, 0]], True, False),
        ("the pink one", "a pink balloon", [[0, 1, 0], [0, 1, 0], [0, 0, 1]], False, False),
        ("the pink one", "a pink balloon", [[1, 0, 0], [0, 1, 0], [0, 0, 0]], False, False),
        ("the dog", "the dog", [[0, 1], [1, 0]], True, False),
        ("the dog", "a dog", [[0, 0], [0, 0]], False, False),
        ("the animal", "a dog", [[0, 0], [0, 1]], False, True),
        ("the old dog", "a dog", [[0, 0], [0, 0], [0, 1]], True, True),
    ],
)
def test_naive_and_hard(current_text, context_text, attended, naive, hard):
    current, two = (mention("a", range(len(t.split())), t) for t in (current_text, context_text))
    scores = CorefScores()
    words = context_text.split()
    scores.add(0, 1, np.array(attended, dtype=float), [current], [two], words,
               frozenset({"the", "a", "it", "one"}))  # fmt: skip
    [link] = scores.links
    assert (link.naive, link.hard) == (naive, hard)
    assert results(scores)["naive"] == naive


def test_groups_share_their_links_as_in_table_5():
    """Of the paper's concatenation model, all cases and those with positive attention."""
    # 224 cases: in 93 the antecedent has the greatest weight, in 5 more a significant one, and in
    # 118 the mention looks anywhere. 32 are naive.
    weights = [[1.0, 0.0]] * 93 + [[0.5, 1.0]] * 5 + [[0.0, 1.0]] * 20 + [[0.0, 0.0]] * 106
    scores = CorefScores()
    for case, row in enumerate(weights):
        pronoun, two = mention("a", [0], "it"), mention("a", [0], "it" if case < 32 else "malaria")
        scores.add(case, 1, np.array([row]), [pronoun], [two], ["malaria", "."], NONE)
    columns = ("links", "naive", "max_weight", "nonzero", "positive")
    rows_of = {of: [results(scores, of)[name] for name in columns] for of in SUBSETS}
    shares = {
        of: [n, *(round(100 * share, 1) for share in row)] for of, (n, *row) in rows_of.items()
    }
    assert shares["all"] == [224, 14.3, 41.5, 43.8, 52.7]
    assert shares["positive attention"] == [118, 27.1, 78.8, 83.1, 100]


def test_context_is_needed_where_the_sentence_names_no_antecedent():
    scores = CorefScores()
    current = [mention("a", [0]), mention("a", [2]), mention("b", [1])]
    context = [mention("a", [0]), mention("b", [1])]
    scores.add(0, 1, np.zeros((3, 2)), current, context, ["x", "y"], NONE)
    assert [link.needed for link in scores.links] == [True, False, True]
    # Annotators have the last word.
    mentions = [
        replace(m, needed=answer) for m, answer in zip(current, (False, True, None), strict=True)
    ]
    scores = CorefScores()
    scores.add(0, 1, np.zeros((4, 3)), mentions, context, ["a", "b", "c"], NONE)
    assert [link.needed for link in scores.links] == [False, True, True]


def test_sums_stand_at_their_sentence_and_subsets_count_their_links_alone():
    scores, pronoun = CorefScores(), mention("a", [0])
    looks, looks_away = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    scores.add(0, 1, looks, [pronoun], [pronoun], ["x", "y"], NONE)
    # Three sentences back the chain is spoken of in other words.
    far = [mention("a", [0], "dog"), mention("a", [1], "cat")]
    scores.add(2, 3, looks_away, [mention("a", [0], "bird")], far, ["dog", "cat"], NONE)
    scores.add(2, 2, looks, [pronoun], [pronoun], ["x", "y"], NONE)
    scores.add(2, 1, 0 * looks, [pronoun], [pronoun], ["x", "y"], NONE)
    units = scores.units("a test set", [4, 7, 9], "all")
    assert (units.test_set, units.number_U.tolist()) == ("a test set", [4, 7, 9])
    assert units["links"].tolist() == [1, 0, 4]
    assert units["weight"].tolist() == [1, 0, 2]
    links = {subset: scores.units("s", [4, 7, 9], subset)["links"].tolist() for subset in SUBSETS}
    assert links == {
        "all": [1, 0, 4],
        "distance 1": [1, 0, 1],
        "distance 2": [0, 0, 1],
        "distance 3": [0, 0, 2],
        "context needed": [1, 0, 4],
        "context needed, hard": [0, 0, 2],
        "positive attention": [1, 0, 3],
    }
    assert results(scores, "distance 3")["nonzero"] == 0.5
    # These are not properties of a link.
    assert {"precision", "dispersion"} <= results(scores).keys()
    assert not {"precision", "dispersion"} & results(scores, "distance 3").keys()


def test_nothing_is_not_a_number():
    score_of = results(CorefScores())
    assert score_of["links"] == 0
    assert math.isnan(score_of["nonzero"])
    assert math.isnan(score_of["precision"])


def test_needed_links_are_counted_in_every_row():
    """Of four links two need their context, and one of these has a weight."""
    scores = CorefScores()
    for case, (needed, weight) in enumerate([(True, 1.0), (True, 0.0), (False, 1.0), (False, 1.0)]):
        pronoun = PlacedMention("a", (0,), ("it",), needed)
        two = PlacedMention("a", (0,), ("dog",))
        scores.add(case, 1, np.array([[weight]]), [pronoun], [two], ["dog"], NONE)
    assert results(scores)["nonzero"] == 0.75
    for subset in ("all", "distance 1", "context needed"):
        assert results(scores, subset)["needed_nonzero"] == 0.5


def test_eos_is_a_function_token():
    assert is_function("</s>", frozenset())
    assert is_function("...", frozenset())
    assert not is_function("s", frozenset())


def test_attached_punctuation_is_no_part_of_a_function_word():
    assert is_function("It.", frozenset({"it"})) and is_function("(it", frozenset({"it"}))
    assert not is_function("item.", frozenset({"it"}))
