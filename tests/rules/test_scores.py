"""Scores of decisions, in memory and on disk."""

import math

import numpy as np
import pytest

from xnmt_bench.errors import StoreError
from xnmt_bench.rules.scores import DecisionScores


def scores_of(*sentences):
    """Scores from each sentence's log-likelihoods."""
    numbers = [7 * n for n, sentence in enumerate(sentences) for _ in sentence]  # with gaps
    steps = [step for sentence in sentences for step in range(len(sentence))]
    values = np.asarray([value for sentence in sentences for value in sentence], dtype=float)
    return DecisionScores(np.asarray(numbers), np.asarray(steps), values, values > -1)


def random_scores(sentences=100):
    rng = np.random.default_rng(0)
    return scores_of(*[(-rng.random(n) * n).tolist() for n in rng.integers(1, 12, sentences)])


def test_some_of_the_decisions():
    scores = scores_of([math.log(1 / 2), math.log(1 / 8)], [math.log(1 / 4)])
    assert len(scores) == 3
    assert scores.take(scores.correct_N).log_likelihood_N.tolist() == [math.log(1 / 2)]
    assert scores.take(np.array([2, 1])).sentence_N.tolist() == [7, 0]


@pytest.fixture
def saved_scores(tmp_path):
    path = tmp_path / "test.parquet"
    random_scores().save(path)
    return path


def test_scores_come_back(saved_scores):
    loaded, expected = DecisionScores.load(saved_scores), random_scores()
    for name in DecisionScores.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(loaded, name), getattr(expected, name))


@pytest.mark.parametrize("damage", ["missing", "truncated", "altered"])
def test_damaged_scores_are_named(saved_scores, damage):
    content = saved_scores.read_bytes()
    if damage == "missing":
        saved_scores.unlink()
    elif damage == "truncated":
        saved_scores.write_bytes(content[:-20])
    else:  # in the middle of the log-likelihoods
        middle = len(content) // 2
        saved_scores.write_bytes(
            content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        )
    with pytest.raises(StoreError) as error:
        DecisionScores.load(saved_scores)
    assert str(saved_scores) in str(error.value)
