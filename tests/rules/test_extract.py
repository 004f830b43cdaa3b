"""What an explainer may not give: a gap, a number for a word ahead, an infinite score."""

import numpy as np
import pytest

from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.errors import XnmtError
from xnmt_bench.rules.extract import ExtractionOptions, side_columns

IDS = np.array([11, 12, EOS])
# Step t sees the words before it: of three steps and three words six scores are NaN.
UNSEEN = ~np.tri(3, k=-1, dtype=bool)
PREFIX = np.where(UNSEEN, np.nan, 0.5)


def columns(scores_TX, unseen, side="prefix"):
    return side_columns(side, scores_TX, IDS, unseen, ExtractionOptions(largest_k=2))


def test_scores_are_kept_with_their_words():
    assert columns(PREFIX, UNSEEN)["prefix_ids"].tolist()[-1] == [11, 12]


@pytest.mark.parametrize(
    ("place", "score", "problem"),
    [
        ((1, 0), np.nan, "gave no number to a prefix word that the step can see"),
        ((0, 2), 0.5, "gave a number to a prefix word that the step cannot see"),
    ],
)
def test_exactly_the_words_that_a_step_sees_have_numbers(place, score, problem):
    scores = PREFIX.copy()
    scores[place] = score
    with pytest.raises(XnmtError, match=problem):
        columns(scores, UNSEEN)


@pytest.mark.parametrize("turned", [PREFIX[::-1, ::-1], PREFIX.T[::-1], PREFIX[:, ::-1]])
def test_as_many_numbers_at_other_places_are_refused(turned):
    """Those of later words, which hold the label, would make rules that nothing can beat."""
    assert np.isnan(turned).sum() == UNSEEN.sum()
    with pytest.raises(XnmtError, match="to a prefix word that the step can"):
        columns(turned, UNSEEN)


@pytest.mark.parametrize("score", [np.inf, -np.inf, 1e31])
def test_scores_that_overflow_are_refused(score):
    with pytest.raises(XnmtError, match=r"gave a source word a score beyond 1e\+30"):
        columns(np.array([[0.1, score, 0.0]]), np.full((1, 3), False), "source")
