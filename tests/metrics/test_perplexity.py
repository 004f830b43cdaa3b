"""Perplexity of decisions and its bootstrap."""

import math
import random

import numpy as np
import pytest

from xnmt_bench.errors import StoreError
from xnmt_bench.metrics.bootstrap import BLOCK
from xnmt_bench.metrics.perplexity import DecisionScores, perplexity, unigram


def scores_of(*sentences):
    """Scores from each sentence's log-likelihoods."""
    numbers = [7 * n for n, sentence in enumerate(sentences) for _ in sentence]  # with gaps
    steps = [step for sentence in sentences for step in range(len(sentence))]
    values = np.asarray([value for sentence in sentences for value in sentence], dtype=float)
    return DecisionScores(np.asarray(numbers), np.asarray(steps), values, values > -1)


def random_scores(sentences=40):
    rng = np.random.default_rng(0)
    # Long sentences are harder, so that a bootstrap has to weigh them right.
    return [(-rng.random(n) * n).tolist() for n in rng.integers(1, 12, sentences)]


def test_perplexity_by_hand():
    scores = scores_of([math.log(1 / 2), math.log(1 / 8)], [math.log(1 / 4)])
    score = perplexity(scores, "signed", 50, 0)
    assert score.value == pytest.approx(4)
    assert score.low <= score.value <= score.high
    assert score.signature == "signed"
    assert scores.agreement == pytest.approx(1 / 3)
    assert str(score).startswith("4.00 [")


def naive_interval(sentences, samples, seed):
    """The bootstrap as a textbook writes it."""
    draw, values = random.Random(seed), []
    for _ in range(samples):
        drawn = [x for sentence in draw.choices(sentences, k=len(sentences)) for x in sentence]
        values.append(math.exp(-sum(drawn) / len(drawn)))
    values.sort()
    return values[round(0.025 * samples)], values[round(0.975 * samples)]


def test_the_interval_equals_a_naive_bootstrap():
    sentences = random_scores()
    score = perplexity(scores_of(*sentences), "", 4000, 1)
    low, high = naive_interval(sentences, 4000, 2)
    width = high - low
    assert width > 0.1 * score.value  # or the tolerance would hide anything
    assert score.low == pytest.approx(low, abs=0.06 * width)
    assert score.high == pytest.approx(high, abs=0.06 * width)


def test_sentences_are_resampled_not_decisions():
    """Decisions differ but sentences are alike: nothing depends on which of them are drawn."""
    score = perplexity(scores_of(*[[-1.0, -3.0]] * 20), "", 200, 0)
    assert score.low == pytest.approx(score.value) == score.high
    # Sentences differ but each one's decisions are alike: the interval is that of few sentences.
    sentences = [[-1.0] * 50, [-3.0] * 50] * 5
    wide = perplexity(scores_of(*sentences), "", 500, 0)
    narrow = perplexity(scores_of(*[[x] for sentence in sentences for x in sentence]), "", 500, 0)
    assert wide.high - wide.low > 4 * (narrow.high - narrow.low)


@pytest.mark.parametrize("samples", [1, BLOCK - 1, BLOCK, 2 * BLOCK + 3])
def test_the_interval_is_reproducible(samples):
    scores = scores_of(*random_scores())
    assert perplexity(scores, "", samples, 5) == perplexity(scores, "", samples, 5)
    assert perplexity(scores, "", samples, 5).low != perplexity(scores, "", samples, 6).low


def test_unigram_by_hand():
    # Counts 2, 1, 0 and one more for each of the three labels.
    log_p, first = unigram(np.array([0, 1, 0]), np.array([0, 1, 2, 0]), 3)
    assert np.exp(log_p) == pytest.approx([3 / 6, 2 / 6, 1 / 6, 3 / 6])
    assert first.tolist() == [True, False, False, True]


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "test.parquet"
    scores_of(*random_scores(100)).save(path)
    return path


def test_scores_come_back(saved):
    found, expected = DecisionScores.load(saved), scores_of(*random_scores(100))
    for name in DecisionScores.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("damage", ["missing", "truncated", "altered"])
def test_damaged_scores_are_named(saved, damage):
    content = saved.read_bytes()
    if damage == "missing":
        saved.unlink()
    elif damage == "truncated":
        saved.write_bytes(content[:-20])
    else:  # in the middle of the log-likelihoods
        middle = len(content) // 2
        saved.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    with pytest.raises(StoreError) as error:
        DecisionScores.load(saved)
    assert str(saved) in str(error.value)
