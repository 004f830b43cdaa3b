"""Proxies that have weights of only some pieces, against proxies of whole vocabularies."""

import math

import numpy as np
import pytest
import torch

from proxies.base import Vocabulary
from proxies.data import pack
from proxies.narrowed import Narrowed, Pieces
from proxies.sa import SA
from proxies.scoring import distributions, log_likelihoods

SIZE, K = 40, 2
SOURCE, TARGET = np.array([7, 3, -1, 9, 3]), np.array([30, 5, 8, 5])


def narrowed():
    """A proxy that tells three pieces of each side apart."""
    torch.manual_seed(0)
    source, target = Pieces(SOURCE, SIZE), Pieces(TARGET, SIZE)
    return Narrowed(SA(Vocabulary(len(source), len(target), K), 16), source, target).eval()


def rules(label_N, words_NK):
    return pack(np.array(label_N), np.array(words_NK), np.zeros_like(words_NK))


def test_q_is_a_distribution_over_the_whole_vocabulary():
    proxy, words = narrowed(), torch.tensor([[3, 9, 5, -1], [11, -1, 30, 2]])
    q_BV = proxy.log_distributions(words, torch.zeros_like(words)).exp()
    assert q_BV.shape == (2, SIZE)
    torch.testing.assert_close(q_BV.sum(1), torch.ones(2))
    others = [v for v in range(SIZE) if v not in (5, 8, 30)]
    assert (q_BV[:, others] == q_BV[:, :1]).all()
    # The mass of the class is what a softmax over the classes gives it.
    classes = proxy(words, torch.zeros_like(words)).softmax(-1)
    torch.testing.assert_close(q_BV[:, others].sum(1), classes[:, -1])
    torch.testing.assert_close(q_BV[:, [5, 8, 30]], classes[:, :-1])


def test_words_that_never_occur_are_one_word_and_none_is_another():
    proxy, zeros = narrowed(), torch.zeros(3, 4, dtype=torch.long)
    words = torch.tensor([[11, 3, 5, 2], [12, 3, 5, 6], [-1, 3, 5, 2]])
    unseen, as_unseen, none = proxy(words, zeros)
    assert torch.equal(unseen, as_unseen)
    assert not torch.allclose(unseen, none)


def test_scores_and_loss_are_those_of_whole_distributions():
    proxy, words = narrowed(), [[3, 9, 5, -1], [11, -1, 30, 2], [7, 3, 8, 30]]
    for labels in ([5, 30, 8], [0, 39, 5]):
        decisions = rules(labels, words)
        [(rows, log_q_NV)] = distributions(proxy, decisions)
        expected_N = log_q_NV[torch.arange(3), labels]
        log_q_N, correct_N = log_likelihoods(proxy, decisions)
        np.testing.assert_allclose(log_q_N, expected_N, rtol=1e-6)
        assert rows == slice(0, 3)
        told_apart_N = np.isin(labels, TARGET)
        assert (correct_N <= told_apart_N).all()
        batch = torch.tensor(words), torch.zeros(3, 4, dtype=torch.long)
        loss = proxy.loss(*batch, torch.tensor(labels))
        torch.testing.assert_close(loss, -expected_N.mean())
        # Under distributions, as the judge `kl` learns them.
        p_BV = torch.rand(3, SIZE).softmax(-1)
        loss = proxy.loss(*batch, proxy.target.gather(p_BV))
        torch.testing.assert_close(loss, -(p_BV * log_q_NV).sum(1).mean())


def test_a_first_choice_is_never_a_piece_that_is_not_told_apart():
    proxy = narrowed()
    with torch.no_grad():
        proxy.proxy.output.bias[-1] = 50.0  # nearly all mass is of the rest
    _, correct_N = log_likelihoods(proxy, rules([0, 1], [[3, 9, 5, -1]] * 2))
    assert not correct_N.any()


@pytest.mark.parametrize("count", [0, SIZE])
def test_a_vocabulary_of_which_all_or_nothing_occurs(count):
    pieces = Pieces(np.arange(count), SIZE)
    p_BC = pieces.gather(torch.full((1, SIZE), 1 / SIZE))
    torch.testing.assert_close(p_BC.sum(), torch.tensor(1.0))
    assert pieces.log_count_C[-1] == math.log(max(1, SIZE - count))
