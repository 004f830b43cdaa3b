"""Links from relevance."""

import numpy as np
import pytest

from xnmt_bench.metrics.aer.alignments import link_diagonal
from xnmt_bench.words.pieces import best_links


def test_pieces_are_summed_over_the_source_and_averaged_over_the_target():
    # Source words: 0 = pieces 0, 1; 1 = piece 2; then EOS. Target words: 0 = piece 0; 1 = 1, 2.
    source, target = [0, 0, 1, -1], [0, 1, 1, -1]
    relevance = np.array(
        [
            [0.3, 0.3, 0.5, 9.0],  # 0.6 against 0.5: the sum counts, and EOS is not a word
            [0.0, 0.1, 0.9, 0.0],  # averaged with the next piece: 0.45 against 0.5
            [0.4, 0.4, 0.1, 0.0],
            [9.0, 9.0, 9.0, 9.0],  # the target's EOS
        ]
    )
    assert best_links(relevance, source, target) == {(0, 0), (1, 1)}


def test_a_blind_explainers_pieces_behind_the_first_have_no_part():
    """Draws of 0 to 1 for each piece link to a long word as often as to a short one."""
    source, target = [0, 1, 1, 1, 1, 2, -1], [0, 0]
    rng = np.random.default_rng(0)
    draws = rng.random((3000, 2, 7))
    linked = {
        blind: np.bincount([i for d in draws for i, _ in best_links(d, source, target, blind)])
        for blind in (True, False)
    }
    error = np.sqrt(3000 * 1 / 3 * 2 / 3)
    assert np.abs(linked[True] - 1000).max() < 4 * error
    assert linked[False][1] > 2900
    # Of negative scores, as minus a distance, a sum would make the long word the least.
    assert best_links(-np.ones((2, 7)) * [3, 1, 2, 2, 2, 3, 3], source, target, True) == {(1, 0)}


def test_relevance_is_signed_and_ties_go_left():
    assert best_links(np.array([[-5.0, -1.0, -1.0]]), [0, 1, 2], [0]) == {(1, 0)}


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [(3, 3, {(0, 0), (1, 1), (2, 2)}), (4, 2, {(1, 0), (3, 1)}), (1, 3, {(0, 0), (0, 1), (0, 2)})],
)
def test_the_diagonal(source, target, expected):
    assert link_diagonal(source, target) == expected


def test_a_word_without_a_piece_has_no_link():
    # Source words 0, 2 and 3 have a piece, and target words 0 and 2; all of them harm.
    relevance = -np.array([[3.0, 1.0, 2.0], [1.0, 2.0, 3.0]])
    assert best_links(relevance, [0, 2, 3], [0, 2]) == {(2, 0), (0, 2)}
    assert (
        best_links(np.zeros((1, 1)), [-1], [0]) == best_links(np.zeros((1, 1)), [0], [-1]) == set()
    )
