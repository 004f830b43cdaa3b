"""s-hier-to-2 against its formulas, step by step."""

import pytest
import torch

from support.context_ids import join_context
from support.systems import context_aware, double
from xnmt_bench.corpora.vocabulary.subwords import BOS, EOS, SEPARATOR
from xnmt_bench.nmt.batch import Batch, Layout

PREVIOUS, CURRENT = [11, 12, 13], [21, 22]
TARGET = [31, 32, SEPARATOR, 33, EOS]


@pytest.fixture(scope="module")
def s_hier_model(workplace):
    """In float64, for slow loops."""
    return double(context_aware("s_hier_to_2", workplace).system.model)


def alone(model, ids):
    """The encoder's states of a sentence that is read alone."""
    ids = torch.tensor([[*ids, EOS]])
    states, _ = model.run_encoder(model.embed_source(ids), Layout(torch.ones_like(ids), ids))
    return states[0]


def additive(module, state, rows):
    """Weights over rows."""
    return torch.stack([
        module.energy.weight[0] @ torch.tanh(module.query.weight @ state + module.key(h))
        for h in rows
    ]).softmax(0)  # fmt: skip


def slow(model, previous, current, target):
    """The logits of every step, and what each step took from either source."""
    sources = [alone(model, previous), alone(model, current)]
    start = torch.tanh(model.start(torch.stack([h.mean(0) for h in sources]).mean(0)))
    state, cell, logits, shares, weights = start, torch.zeros_like(start), [], [], []
    for word in [BOS, *target[:-1]]:
        x = model.target_embedding.weight[word]
        within = [
            additive(look, state, rows) for look, rows in zip(model.sources, sources, strict=True)
        ]
        c = [a @ rows for a, rows in zip(within, sources, strict=True)]
        energy = [
            model.energy(torch.tanh(model.query(state) + key(ck)))
            for key, ck in zip(model.keys, c, strict=True)
        ]
        b = torch.cat(energy).softmax(0)
        mixed = sum(bk * V(ck) for bk, V, ck in zip(b, model.values, c, strict=True))
        state, cell = model.cell(torch.cat([x, mixed])[None], (state[None], cell[None]))
        state, cell = state[0], cell[0]
        features = torch.cat([state, mixed, x])
        logits.append(model.output(torch.tanh(model.readout(features))))
        shares.append(b)
        weights.append(torch.cat([bk * a for bk, a in zip(b, within, strict=True)]))
    return torch.stack(logits), torch.stack(shares), torch.stack(weights)


def test_against_a_slow_loop(s_hier_model):
    batch = s_hier_model.collate([(join_context([PREVIOUS, CURRENT]), TARGET)])
    logits, _, weights = slow(s_hier_model, PREVIOUS, CURRENT, TARGET)
    torch.testing.assert_close(s_hier_model(batch)[0], logits)
    encoding = s_hier_model.encode(s_hier_model.embed_source(batch.source_BS), batch.layout)
    attended = s_hier_model.attention(
        encoding, s_hier_model.embed_target(batch.input_BT)
    ).cross_BLHTS[0, 0, 0]
    torch.testing.assert_close(attended, weights)


def test_before_a_documents_first_sentence_stands_eos_alone(s_hier_model):
    pair, other = ([*CURRENT, EOS], [33, EOS]), (join_context([PREVIOUS, CURRENT]), TARGET)
    logits, _, weights = slow(s_hier_model, [], CURRENT, pair[1])
    for pairs in ([pair], [other, pair]):
        batch = s_hier_model.collate(pairs)
        torch.testing.assert_close(s_hier_model(batch)[-1, :2], logits)
        encoding = s_hier_model.encode(s_hier_model.embed_source(batch.source_BS), batch.layout)
        attended = s_hier_model.attention(
            encoding, s_hier_model.embed_target(batch.input_BT)
        ).cross_BLHTS
        torch.testing.assert_close(attended[-1, 0, 0, :2, :3], weights[:, 1:])


def test_equal_sources_with_equal_parameters_have_equal_shares(s_hier_model):
    twin = double(s_hier_model)
    for pair in (twin.sources, twin.keys, twin.values):
        pair[0].load_state_dict(pair[1].state_dict())
    _, shares, _ = slow(twin, CURRENT, CURRENT, TARGET)
    torch.testing.assert_close(shares, torch.full_like(shares, 0.5))
    batch = twin.collate([(join_context([CURRENT, CURRENT]), TARGET)])
    encoding = twin.encode(twin.embed_source(batch.source_BS), batch.layout)
    attended = twin.attention(encoding, twin.embed_target(batch.input_BT)).cross_BLHTS[0, 0, 0]
    torch.testing.assert_close(attended[:, :3].sum(1), torch.full((len(TARGET),), 0.5).double())


def test_both_translations_are_learnt(s_hier_model):
    assert Batch.collate([([1], TARGET)]).current_BT.tolist() == [[False] * 3 + [True] * 2]
    states = s_hier_model.states(
        s_hier_model.collate([(join_context([PREVIOUS, CURRENT]), TARGET)])
    )
    assert (states.abs().sum(-1) > 0).all()
