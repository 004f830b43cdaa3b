"""CADec against its formulas, step by step, and what its drafts are made of."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from support.context_ids import join_context
from support.systems import context_aware, double
from xnmt_bench.corpora.passage import Context
from xnmt_bench.corpora.vocabulary.subwords import BOS, EOS, PAD, WORDS
from xnmt_bench.nmt.batch import DraftOptions, Layout
from xnmt_bench.nmt.context.drafts import corrupted, sample
from xnmt_bench.nmt.decoding import translate
from xnmt_bench.nmt.loading import load_model
from xnmt_bench.nmt.scoring import log_probability
from xnmt_bench.nmt.transformer import sinusoids

SOURCES = [[11, 12], [13, 14, 15], [16], [21, 22, 23]]
TARGETS = [[31, 32], [33], [34, 35], [36, 37]]


@pytest.fixture(scope="module")
def cadec_job(workplace):
    return context_aware("cadec", workplace)


@pytest.fixture(scope="module")
def cadec_model(cadec_job):
    """In float64, with norms and biases that change their input."""
    model = double(cadec_job.system.model)
    generator = torch.Generator().manual_seed(3)
    for weight in model.second.parameters():
        weight.add_(0.2 * torch.randn(weight.shape, generator=generator, dtype=weight.dtype))
    return model


def first_pass(model, source, target):
    """The base's source states, and its states at each word of a target, EOS included."""
    source = torch.tensor([[*source, EOS]])
    inputs = torch.tensor([[BOS, *target]])
    layout = Layout(torch.ones_like(source), torch.ones_like(inputs))
    encoding = model.base.encode(model.base.embed_source(source), layout)
    states = model.base.decode(encoding, model.base.embed_target(inputs))
    return encoding.states_BSD[0], states[0]


def attention(module, query, rows, kept_weights=None):
    """One query over rows, head by head; each head's weights go to a list, if there is one."""
    size = len(query) // module.heads
    keys, values = module.key_value(torch.stack(rows)).chunk(2, dim=-1)
    q, mixed, heads = module.query(query), [], []
    for head in range(module.heads):
        head_slice = slice(head * size, (head + 1) * size)
        heads.append(
            torch.stack(
                [q[head_slice] @ key[head_slice] / math.sqrt(size) for key in keys]
            ).softmax(0)
        )
        mixed.append(sum(w * value[head_slice] for w, value in zip(heads[-1], values, strict=True)))
    if kept_weights is not None:
        kept_weights.append(torch.stack(heads))
    return module.out(torch.cat(mixed))


def slow(model, sources, targets, order=None, kept_weights=None):
    """Logits of the current sentence's steps; memories in the order of `order`.

    `kept_weights` receives those of the last layer: of prefix, source and translations.
    """
    embedding = model.base.target_embedding.weight
    draft = model.draft(torch.tensor([join_context(sources)]))[0].tolist()
    memory_source, memory_target = [], []
    for k in order or range(len(sources)):
        place = len(sources) - 1 - k
        o = F.one_hot(torch.tensor(place), 4).to(embedding.dtype)
        words = draft if place == 0 else [*targets[k], EOS]
        E, R = first_pass(model, sources[k], words[:-1])
        memory_source += [torch.cat([row, o]) for row in E]
        memory_target += [torch.cat([embedding[y], r, o]) for y, r in zip(words, R, strict=True)]
    size = embedding.shape[1]
    x = [torch.zeros_like(embedding[0])] + [embedding[y] * math.sqrt(size) for y in targets[-1]]
    x = [row + sinusoids(torch.tensor(t), size, row) for t, row in enumerate(x)]
    for layer in model.second.layers:
        weights = ([], [], [])
        after = [
            layer.norms[0](row + attention(layer.self_attention, row, x[: t + 1], weights[0]))
            for t, row in enumerate(x)
        ]
        for norm, module, rows, to in (
            (layer.norms[1], layer.source_attention, memory_source, weights[1]),
            (layer.norms[2], layer.target_attention, memory_target, weights[2]),
        ):
            after = [norm(row + attention(module, row, rows, to)) for row in after]
        x = [layer.norms[3](row + layer.feed_forward(row)) for row in after]
    if kept_weights is not None:
        kept_weights[:] = weights
    return torch.stack([model.output.weight @ row for row in x])


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_against_a_slow_loop(cadec_model, depth):
    sources, targets = SOURCES[3 - depth :], TARGETS[3 - depth :]
    batch = cadec_model.collate([(join_context(sources), join_context(targets))])
    logits = cadec_model(batch)[0][batch.current_BT[0]]
    torch.testing.assert_close(logits, slow(cadec_model, sources, targets))


@pytest.mark.parametrize("depth", [0, 2])
def test_attention_is_that_of_the_slow_loop(cadec_model, depth):
    """Of translations the mean of two; a row of the memory counts for the word beside it."""
    sources, targets = SOURCES[3 - depth :], TARGETS[3 - depth :]
    batch, kept_weights = cadec_model.collate([(join_context(sources), join_context(targets))]), []
    slow(cadec_model, sources, targets, kept_weights=kept_weights)
    encoding = cadec_model.encode(cadec_model.embed_source(batch.source_BS), batch.layout)
    attended = cadec_model.attention(encoding, cadec_model.embed_target(batch.input_BT))
    start = len(join_context(targets)) - len(targets[-1]) - 1
    for t, (prefix, source, memory) in enumerate(zip(*kept_weights, strict=True)):
        torch.testing.assert_close(attended.cross_BLHTS[0, -1, :, start + t], source)
        expected = torch.zeros(len(prefix), len(join_context(targets))).double()
        expected[:, start : start + t + 1] += prefix / 2
        # The context's translations stand before the draft; input n + 1 is word n.
        expected[:, 1 : start + 1] += memory[:, :start] / 2
        torch.testing.assert_close(attended.prefix_BLHTT[0, -1, :, start + t], expected)


def test_the_order_of_the_memory_is_not_seen(cadec_model):
    batch = cadec_model.collate([(join_context(SOURCES), join_context(TARGETS))])
    states = cadec_model(batch)[0][batch.current_BT[0]]
    torch.testing.assert_close(states, slow(cadec_model, SOURCES, TARGETS, [2, 0, 3, 1]))
    # But which sentence is which is: its place is part of the memory.
    swapped = [join_context([some[n] for n in (1, 0, 2, 3)]) for some in (SOURCES, TARGETS)]
    batch = cadec_model.collate([swapped])
    assert not torch.allclose(states, cadec_model(batch)[0][batch.current_BT[0]])


def test_the_draft_is_of_the_source_alone(cadec_model):
    """The authors' code limits it by the length of what is scored."""
    sources = [join_context(SOURCES), join_context(SOURCES[2:]), join_context(SOURCES[:2])]
    drafts = cadec_model.draft(torch.tensor([[*x, *[PAD] * (13 - len(x))] for x in sources]))
    [expected] = translate(cadec_model.base, [[*SOURCES[-1], EOS]], 4)
    assert drafts[0][drafts[0] != PAD].tolist() == expected
    assert torch.equal(drafts[0], drafts[1])
    targets = [join_context([*TARGETS[:3], [36] * n]) for n in (1, 20)]
    for target in targets:
        assert cadec_model.collate([(sources[0], target)]).draft_BU[0].tolist() == expected


def test_one_draft_a_source_and_none_a_variant(cadec_model, monkeypatch):
    drafted = []
    real = translate
    monkeypatch.setattr(
        "xnmt_bench.nmt.context.drafts.translate",
        lambda m, sources, beam: drafted.extend(sources) or real(m, sources, beam),
    )
    cadec_model.drafts.forget()
    pairs = [(join_context(SOURCES), join_context([*TARGETS[:3], [36, n]])) for n in range(40, 60)]
    log_probability(cadec_model, pairs, 60)
    assert drafted == [(*SOURCES[-1], EOS)]


def test_a_batch_without_a_draft_is_refused(cadec_model):
    batch = replace(
        cadec_model.collate([(join_context(SOURCES), join_context(TARGETS))]), draft_BU=None
    )
    with pytest.raises(ValueError, match="no draft"):
        cadec_model(batch)


def test_what_is_trained_and_what_stays(cadec_job):
    initial, trained = load_model(cadec_job.settings.nmt.initial), cadec_job.system.model
    for name, weight in initial.state_dict().items():
        assert torch.equal(weight, trained.base.state_dict()[name]), name
    fresh = type(trained)(*cadec_job.system.subwords, **cadec_job.settings.nmt.sizes)
    learning = {name for name, weight in fresh.named_parameters() if weight.requires_grad}
    assert {name.split(".")[0] for name in learning} == {"second", "output"}
    fresh.start_from(initial)
    assert torch.equal(fresh.output.weight, initial.output.weight)
    assert fresh.output.weight is not fresh.base.output.weight
    assert not torch.equal(trained.output.weight, initial.output.weight)
    fresh.train()
    assert fresh.second.training
    assert not any(module.training for module in fresh.base.modules())


def test_nobody_trains_the_base(cadec_model):
    """Nor would its drafts stay if a caller did, such as the tuned judge."""
    copied = copy.deepcopy(cadec_model).requires_grad_(True)
    assert copied.output.weight.requires_grad
    assert not any(weight.requires_grad for weight in copied.base.parameters())


def test_a_part_of_the_words_is_corrupted():
    ids = torch.randint(WORDS, 50, (400, 30))
    ids[:, 20], ids[:, 21:] = EOS, PAD
    torch.manual_seed(0)
    corrupted_ids = corrupted(ids, 0.2, 50)
    assert torch.equal(corrupted_ids[:, 0], ids[:, 0])
    assert torch.equal(corrupted_ids[:, 20:], ids[:, 20:])
    assert corrupted_ids.min() == PAD
    assert (corrupted_ids[:, :20] >= WORDS).all()
    # One of the 46 words drawn is the old one.
    changed = (corrupted_ids != ids)[:, 1:20].float().mean()
    assert changed == pytest.approx(0.2 * (1 - 1 / 46), abs=0.01)
    assert torch.equal(corrupted(ids, 0.0, 50), ids)


def test_samples_are_the_models_own(cadec_model):
    base, source = cadec_model.base, torch.tensor([[11, 12, EOS]]).repeat(4000, 1)
    torch.manual_seed(0)
    drawn = sample(base, source, torch.full((4000,), 2), 0.5)
    assert drawn.shape[1] <= 2
    layout = Layout(torch.ones_like(source[:1]), torch.ones(1, 1).long())
    encoding = base.encode(base.embed_source(source[:1]), layout)
    logits = base.logits(base.decode(encoding, base.embed_target(torch.tensor([[BOS]]))))[0, 0]
    logits[[PAD, BOS]] = -torch.inf
    expected = (logits / 0.5).softmax(0)
    frequency = torch.bincount(drawn[:, 0], minlength=len(expected)) / 4000
    assert (frequency - expected).abs().max() < 0.03
    ended = drawn[:, 0] == EOS
    assert (drawn[ended, 1] == PAD).all()


def test_a_coin_a_batch(cadec_model):
    batch = cadec_model.collate(
        [
            (join_context(SOURCES), join_context(TARGETS)),
            (join_context(SOURCES[2:]), join_context(TARGETS[2:])),
        ]
    )
    clean = [[*TARGETS[-1], EOS]] * 2
    always = [cadec_model.training_draft(batch, DraftOptions(1.0, 0.0)).tolist() for _ in range(5)]
    assert always == [clean] * 5
    never = [cadec_model.training_draft(batch, DraftOptions(0.0, 0.0)) for _ in range(5)]
    longest = int(1.2 * 3 + 3)
    assert all(draft.shape[0] == 2 and draft.shape[1] <= longest for draft in never)
    torch.manual_seed(1)
    drafts = [
        cadec_model.training_draft(batch, DraftOptions(0.3, 0.0)).tolist() for _ in range(400)
    ]
    assert np.mean([draft == clean for draft in drafts]) == pytest.approx(0.3, abs=0.08)


def test_what_it_cannot_read(cadec_model):
    assert cadec_model.refuses(Context(3)) is None
    assert cadec_model.refuses(Context(0, target=False)) is None
    assert "at most 3" in cadec_model.refuses(Context(4))
    assert "both sides" in cadec_model.refuses(Context(1, target=False))
    assert "following" in cadec_model.refuses(Context(1, following=1))
