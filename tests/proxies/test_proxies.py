"""The proxies FN, RN and SA, and the decisions they read."""

from itertools import chain

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from proxies.base import LONGEST, Vocabulary
from proxies.data import append, batch_decisions, narrowest, open_decisions, pack, unpack
from proxies.fn import FN
from proxies.rn import RN
from proxies.sa import SA
from proxies.scoring import log_likelihoods
from xnmt_bench.registry import load

SOURCE, TARGET, K = 30, 20, 2
SIZES = {
    "fn": {"dimension": 32, "hidden": 64},
    "rn": {"dimension": 32, "hidden": 32},
    "sa": {"dimension": 32, "layers": 2, "heads": 2, "feed_forward": 64},
}


def build(name, k=K, dropout=0.0, **options):
    torch.manual_seed(0)
    made_by = load("proxies", name)
    return made_by(Vocabulary(SOURCE, TARGET, k), **SIZES[name], dropout=dropout, **options).eval()


def random_rules(count, k=K, seed=0):
    """Labels, words and places as `pack` takes them, with some empty places."""
    rng = np.random.default_rng(seed)
    words = np.concatenate(
        [rng.integers(-1, SOURCE, (count, k)), rng.integers(-1, TARGET, (count, k))], axis=1
    )
    positions = np.where(words < 0, -1, rng.integers(0, 40, words.shape))
    return rng.integers(0, TARGET, count), words, positions


def logits(proxy, words, positions=None):
    words = torch.as_tensor(words)
    positions = torch.zeros_like(words) if positions is None else torch.as_tensor(positions)
    with torch.no_grad():
        return proxy(words, positions)


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("k", [1, 5])
def test_shapes(name, k):
    _, words, positions = random_rules(7, k)
    assert logits(build(name, k), words, positions).shape == (7, TARGET)


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize(("place", "size"), [(0, SOURCE), (K, TARGET)])
def test_an_empty_place_is_like_no_word(name, place, size):
    rules = torch.ones((size + 1, 2 * K), dtype=torch.long)
    rules[:, place] = torch.arange(-1, size)
    logits_RV = logits(build(name), rules)
    distance = torch.cdist(logits_RV, logits_RV) + torch.eye(size + 1)
    assert distance.min() > 1e-4


@pytest.mark.parametrize("name", SIZES)
def test_a_rule_does_not_depend_on_its_batch(name):
    proxy, (_, words, positions) = build(name), random_rules(9)
    together = logits(proxy, words, positions)
    alone = torch.cat([logits(proxy, words[n : n + 1], positions[n : n + 1]) for n in range(9)])
    torch.testing.assert_close(together, alone)


@pytest.mark.parametrize("swapped", [[1, 0, 2, 3], [0, 1, 3, 2]])
def test_only_a_bag_has_no_order(swapped):
    words = torch.tensor([[3, 4, 5, 6]])
    for proxy in (build("fn"), build("rn"), build("sa")):
        in_order, other = logits(proxy, words), logits(proxy, words[:, swapped])
        assert torch.equal(in_order, other) == isinstance(proxy, FN)


@pytest.mark.parametrize("name", SIZES)
def test_the_sides_are_told_apart(name):
    words = torch.tensor([[3, 4, 5, 6]])
    as_given, other = (logits(build(name), w) for w in (words, words[:, [2, 3, 0, 1]]))
    assert (as_given - other).abs().max() > 1e-3


@pytest.mark.parametrize("name", SIZES)
def test_places_in_the_sentence_are_not_told(name):
    _, words, positions = random_rules(20)
    proxy = build(name)
    assert torch.equal(logits(proxy, words, positions), logits(proxy, words, positions + 1))


@pytest.mark.parametrize("kind", [RN, SA])
def test_places_in_the_sentence_are_told_where_asked_for(kind):
    name = kind.__name__.lower()
    proxy, words = build(name, sentence_positions=True), torch.tensor([[3, 4, 5, 6]])
    places = torch.tensor([[0, 0, 0, 0], [1, 0, 0, 0], [-1, 0, 0, 0], [0, 0, 0, LONGEST - 1]])
    logits_RV = logits(proxy, words.expand(4, -1), places)
    assert (torch.cdist(logits_RV, logits_RV) + torch.eye(4)).min() > 1e-4
    # Places beyond the last that has an embedding of its own share that one.
    _, _, far = unpack(pack(np.array([0]), words.numpy(), np.array([[0, 0, 0, 10 * LONGEST]])))
    torch.testing.assert_close(logits(proxy, words, far), logits_RV[3:])


@pytest.mark.parametrize("name", SIZES)
def test_a_small_step_down_the_gradient_lessens_the_loss_by_its_square(name):
    """To first order, for all weights: what training follows is the gradient of the loss."""
    label_B, words_BK, positions_BK = unpack(pack(*random_rules(64, seed=3)))
    proxy, rate = build(name).double().train(), 1e-5

    def loss():
        return F.cross_entropy(proxy(words_BK, positions_BK), label_B)

    before = loss()
    before.backward()
    with torch.no_grad():
        for weight in proxy.parameters():
            assert weight.grad.any()
            weight -= rate * weight.grad
        square = sum(float(weight.grad.square().sum()) for weight in proxy.parameters())
        assert float(before - loss()) == pytest.approx(rate * square, rel=1e-3)


def test_scores_are_the_log_softmax_of_the_labels():
    label, words, positions = random_rules(25)
    proxy = build("fn", dropout=0.5)
    proxy.train()  # as training leaves it; scores know no dropout
    scores, correct = log_likelihoods(proxy, pack(label, words, positions), batch_size=10)
    probability = logits(proxy.eval(), words, positions).softmax(-1).numpy()
    np.testing.assert_allclose(np.exp(scores), probability[np.arange(25), label], rtol=1e-5)
    assert (correct == (probability.argmax(-1) == label)).all()
    assert scores.dtype == np.float64


@pytest.mark.parametrize(("words", "size"), [(2**15, 2), (2**15 + 1, 4)])
@pytest.mark.parametrize("k", [1, 3])
def test_decisions_come_back(tmp_path, k, words, size):
    parts = [random_rules(count, k, seed=count) for count in (4, 1, 6)]
    parts[1][0][0] = words - 1  # the last word of the vocabulary
    kind = narrowest(words)
    with (tmp_path / "decisions").open("wb") as file:
        for part in parts:
            append(pack(*part), file, kind)
    assert (tmp_path / "decisions").stat().st_size == 11 * (1 + 4 * k) * size
    decisions = open_decisions(tmp_path / "decisions", k, kind)
    assert decisions.shape == (11, 1 + 4 * k)
    assert not decisions.flags.writeable
    for unpacked, *expected in zip(unpack(decisions), *parts, strict=True):
        assert unpacked.dtype == torch.int64
        np.testing.assert_array_equal(unpacked.numpy(), np.concatenate(expected))


def test_places_behind_the_last_that_is_told_apart_are_that_one():
    label, words, positions = random_rules(3)
    positions[:, 0] = LONGEST - 2, LONGEST, 2**15
    _, _, unpacked_positions = unpack(pack(label, words, positions))
    assert unpacked_positions[:, 0].tolist() == [LONGEST - 2, LONGEST - 1, LONGEST - 1]
    assert unpacked_positions[:, 1].tolist() == positions[:, 1].tolist()


def epoch_of(seed, epoch, size=103):
    """The labels of each batch, where a decision's label is its number."""
    numbers = np.arange(size)
    decisions = pack(numbers, np.zeros((size, 2), int), np.zeros((size, 2), int))
    batches = list(batch_decisions(decisions, 10, seed, epoch))
    assert len(batches) == len(batch_decisions(decisions, 10, seed, epoch)) == 11
    return [label.tolist() for label, _, _ in batches]


def test_an_epoch_is_a_permutation():
    batches = epoch_of(seed=1, epoch=0)
    assert [len(batch) for batch in batches] == [10] * 10 + [3]
    order = list(chain(*batches))
    assert order != sorted(order) == list(range(103))


def test_the_order_is_a_function_of_seed_and_epoch():
    assert epoch_of(1, 0) == epoch_of(1, 0)
    orders = [epoch_of(seed, epoch) for seed, epoch in ((0, 0), (0, 1), (1, 0), (1, 1))]
    assert len({str(order) for order in orders}) == 4
    assert list(chain(*epoch_of(None, 5))) == list(range(103))
