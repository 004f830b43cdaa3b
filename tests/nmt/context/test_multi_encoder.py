"""The multi-encoder against its formulas, word by word."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from support.context_ids import join_context
from support.systems import context_aware, double
from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.nmt.batch import Batch, Layout

CONTEXT = [[11, 12], [13, 14, 15], [16]]
CURRENT = [21, 22, 23]
TARGET = [31, 32, EOS]


@pytest.fixture(scope="module")
def multi_encoder_model(workplace):
    """In float64, with norms and biases that change their input."""
    model = double(context_aware("multi_encoder", workplace).system.model)
    generator = torch.Generator().manual_seed(3)
    for weight in model.context.parameters():
        weight.add_(0.3 * torch.randn(weight.shape, generator=generator, dtype=weight.dtype))
    return model


def encoded(model, sentences):
    """The encoder's output of the current sentence, the last."""
    batch = model.collate([(join_context(sentences), TARGET)])
    encoding = model.encode(model.embed_source(batch.source_BS), batch.layout)
    assert encoding.mask_BS.sum() == len(sentences[-1]) + 1  # the decoder sees nothing else
    return encoding.states_BSD[0][encoding.mask_BS[0]]


def alone(model, ids):
    """A sentence's states by the sentence-level encoder."""
    ids = torch.tensor([[*ids, EOS]])
    layout = Layout(torch.ones_like(ids), ids[:, :1])
    return model.base.encoder_states(model.base.embed_source(ids), layout)[0]


def attention(module, query, rows):
    """One query over rows, head by head; and each head's weights."""
    size = len(query) // module.heads
    keys, values = module.key_value(torch.stack(rows)).chunk(2, dim=-1)
    q, mixed, weights = module.query(query), [], []
    for head in range(module.heads):
        head_slice = slice(head * size, (head + 1) * size)
        energy = torch.stack([q[head_slice] @ key[head_slice] / math.sqrt(size) for key in keys])
        weights.append(energy.softmax(0))
        mixed.append(
            sum(w * value[head_slice] for w, value in zip(weights[-1], values, strict=True))
        )
    return module.out(torch.cat(mixed)), torch.stack(weights)


def slow(model, sentences):
    """The current sentence's states as the formulas have them, word by word."""
    c, states = model.context, [alone(model, ids) for ids in sentences]
    out = []
    for h in states[-1]:
        words = [c.word_norm(attention(c.word, h, list(H))[0]) for H in states[-2::-1]]
        s = c.sentence_norm(attention(c.sentence, h, words)[0])
        f = c.inner_norm(s + c.feed_forward[3](F.relu(c.feed_forward[0](s))))
        g = torch.sigmoid(c.gate.weight @ torch.cat([h, f]) + c.gate.bias)
        out.append(c.norm((1 - g) * h + g * f))
    return torch.stack(out)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_against_a_slow_loop(multi_encoder_model, depth):
    sentences = [*CONTEXT[:depth], CURRENT]
    torch.testing.assert_close(
        encoded(multi_encoder_model, sentences), slow(multi_encoder_model, sentences)
    )


def test_with_the_gate_shut_it_is_the_norm_of_the_transformer(multi_encoder_model, workplace):
    expected = multi_encoder_model.context.norm(alone(multi_encoder_model, CURRENT))
    torch.testing.assert_close(
        encoded(multi_encoder_model, [CURRENT]), expected
    )  # no context at all
    shut = double(multi_encoder_model)
    shut.context.gate.weight.zero_()
    shut.context.gate.bias.fill_(-1e4)
    torch.testing.assert_close(encoded(shut, [*CONTEXT, CURRENT]), expected)


def test_one_context_sentence_has_the_whole_second_level(multi_encoder_model):
    c, (H, current_states) = (
        multi_encoder_model.context,
        (alone(multi_encoder_model, ids) for ids in (CONTEXT[0], CURRENT)),
    )
    for t, out in enumerate(encoded(multi_encoder_model, [CONTEXT[0], CURRENT])):
        h = current_states[t]
        w = c.word_norm(attention(c.word, h, list(H))[0])
        value = c.sentence.key_value(w).chunk(2)[1]  # a weight of 1 changes nothing
        s = c.sentence_norm(c.sentence.out(value))
        f = c.inner_norm(s + c.feed_forward(s))
        g = c.gate(torch.cat([h, f])).sigmoid()
        torch.testing.assert_close(out, c.norm((1 - g) * h + g * f))


def test_the_order_of_context_sentences_is_not_seen(multi_encoder_model):
    in_order, other = ([*order, CURRENT] for order in (CONTEXT, CONTEXT[::-1]))
    torch.testing.assert_close(
        encoded(multi_encoder_model, in_order), encoded(multi_encoder_model, other)
    )


def test_the_first_level_is_readable(multi_encoder_model):
    sentences = [*CONTEXT, CURRENT]
    batch = multi_encoder_model.collate([(join_context(sentences), TARGET), ([21, EOS], TARGET)])
    source = multi_encoder_model.embed_source(batch.source_BS)
    weights = multi_encoder_model.encoder_attention(source, batch.layout)
    assert weights.shape[1] == 1
    starts = np.cumsum([0, *(len(ids) + 1 for ids in sentences)])
    here = slice(starts[3], starts[4])
    for k, ids in enumerate(CONTEXT):
        there, H = slice(starts[k], starts[k + 1]), list(alone(multi_encoder_model, ids))
        for t, h in enumerate(alone(multi_encoder_model, CURRENT)):
            expected = attention(multi_encoder_model.context.word, h, H)[1]
            head_weights = weights[0, -1, :, here.start + t, there]
            torch.testing.assert_close(head_weights, expected)  # EOS is one of the rows
    assert weights[0, -1, :, here, here].abs().max() == 0
    assert weights[0, -1, :, : here.start].abs().max() == 0
    assert weights[1, -1].abs().max() == 0


def test_the_weights_of_the_first_step_stay(workplace):
    job = context_aware("multi_encoder", workplace)
    first = double(job.system.model).base.state_dict()
    from xnmt_bench.nmt.loading import load_model

    initial = load_model(job.settings.nmt.initial).state_dict()
    assert first.keys() == initial.keys()
    for name, weight in initial.items():
        assert torch.equal(weight.double(), first[name]), name


def test_a_longer_neighbour_changes_nothing(multi_encoder_model):
    pairs = [(join_context([*CONTEXT[:n], CURRENT]), TARGET) for n in (0, 3, 1, 2)]
    together = multi_encoder_model(multi_encoder_model.collate(pairs))
    for row, pair in enumerate(pairs):
        alone = multi_encoder_model(Batch.collate([pair]))
        torch.testing.assert_close(together[row], alone[0])
