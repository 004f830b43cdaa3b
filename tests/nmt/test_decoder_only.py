"""The decoder-only translator: one softmax over source and prefix, read from left to right."""

from __future__ import annotations

import math

import pytest
import torch

from support.systems import batch_of, double, double_and_batch, small_job, trained
from xnmt_bench.nmt.decoder_only import rotate
from xnmt_bench.nmt.switched import SwitchedOff
from xnmt_bench.registry import load_explainer
from xnmt_bench.words.pieces import as_shares


@pytest.fixture(scope="module")
def job(workplace):
    return trained("decoder_only", workplace)


@pytest.fixture(scope="module")
def model_and_batch(job):
    """A model in float64, and a labelled batch of three sentences."""
    return double_and_batch(job, [3, 4, 5])


def test_rotations_turn_pairs_and_keep_what_two_places_are_apart():
    """Su et al. 2021, Eq. 34, by hand; products of queries and keys depend on distances alone."""
    x_BHTE = torch.tensor([1.0, 0.0, 0.0, 2.0]).double().view(1, 1, 1, 4)
    turned = rotate(x_BHTE, torch.tensor([3])).flatten()
    slow = 3 / 10000**0.5
    by_hand = [math.cos(3), -2 * math.sin(slow), math.sin(3), 2 * math.cos(slow)]
    assert turned.tolist() == pytest.approx(by_hand)
    query, key = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)
    products = [
        (rotate(query, torch.tensor([a])) * rotate(key, torch.tensor([b]))).sum()
        for a, b in ((5, 2), (105, 102))
    ]
    torch.testing.assert_close(*products)


def test_the_source_is_read_from_left_to_right(model_and_batch):
    """A source word changes no state before it: keys and values of earlier words stay."""
    model, batch = model_and_batch
    source = model.embed_source(batch.source_BS)
    changed = source.clone()
    changed[:, 2] += 1
    before, after = (model.encode(x, batch.layout).extra for x in (source, changed))
    for layer, (first, second) in enumerate(zip(before, after, strict=True)):
        assert torch.equal(first[:, :2], second[:, :2])
        assert not torch.equal(first[:, 2:], second[:, 2:]), layer


def test_a_target_stands_behind_its_own_source_whatever_the_padding(job):
    model = double(job.system.model)
    split = job.texts.split("test")
    order = sorted(range(len(split)), key=lambda i: len(split.source[i]))
    short, long = batch_of(split, order[:1]), batch_of(split, [order[0], order[-1]])
    steps = short.target_BT.shape[1]
    torch.testing.assert_close(model.states(short)[0], model.states(long)[0, :steps])


def test_a_removed_word_is_seen_by_no_other_position(model_and_batch):
    model, batch = model_and_batch
    row = torch.tensor([0])
    keep_RS, keep_RT = (torch.ones_like(x[:1]) for x in (batch.source_BS, batch.input_BT))
    keep_RS[0, [0, 2]], keep_RT[0, 1] = 0, 0
    switched = SwitchedOff(model, batch, "attention")
    encoding = switched.reading(switched.encoding(row, keep_RS), row, keep_RT)
    weights = model.attention(encoding, switched.inputs(row, keep_RT))
    assert weights.cross_BLHTS[..., [0, 2]].abs().max() == 0
    later = weights.prefix_BLHTT[..., 2:, 1]
    assert later.abs().max() == 0
    within = model.encoder_attention(model.embed_source(batch.source_BS[:1]), encoding.layout)
    assert within[..., 1:, 0].abs().max() == 0
    # The first word sees itself, since attention needs a key.
    assert (within[..., 0, 0] == 1).all()


def test_attention_to_the_source_is_made_shares(job, workplace):
    """A row over the source sums to less than 1, since the prefix has a part of the softmax."""
    weighed = small_job(workplace, "decoder_only", "explainer=attention").weighed_sentences()
    assert not weighed.shares
    sentence = next(iter(weighed))
    sums = sentence.weights_TS.sum(1)
    assert (sums < 1).all() and (sums > 0).all()
    assert as_shares(sentence.weights_TS).sum(1) == pytest.approx(1)


def test_attention_weighs_the_prefix_against_the_source(model_and_batch):
    model, batch = model_and_batch
    relevance = load_explainer("attention").relevance(model, batch)
    total_BT = relevance.source_BTS.nansum(-1) + relevance.prefix_BTT.nansum(-1)
    # What is left is on the separator and on the input itself.
    assert (total_BT[batch.target_mask_BT] < 1).all()
