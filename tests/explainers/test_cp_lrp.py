"""Conservative propagation: its sum is the logit, and its gradient holds what it says it holds."""

import pytest
import torch
from torch import nn

from support.fairseq_models import open_fixture
from support.systems import batch_of, double, double_and_batch
from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import decide
from xnmt_bench.explainers.cp_lrp import held_constant
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.transformer import MultiHeadAttention, Transformer
from xnmt_bench.registry import load_explainer


@pytest.fixture(scope="module")
def explained(transformer):
    """A Transformer in float64, and one labelled sentence."""
    model, batch = double_and_batch(transformer, [0])
    return model, batch


def without_biases(model):
    for module in model.modules():
        if getattr(module, "bias", None) is not None:
            module.bias.zero_()
    return model


@pytest.fixture(params=["trained", "pre-norm", "fairseq"])
def unbiased(request, transformer):
    """A Transformer in float64 whose biases are zero, and a batch of one labelled sentence."""
    if request.param == "fairseq":
        model = double(open_fixture("transformer"))
        batch = Batch.collate([([6, 9, 62, 74, 3], [22, 94, 112, 3])])
    else:
        model = transformer.system.model
        if request.param == "pre-norm":
            torch.manual_seed(0)
            model = Transformer(*model.vocabularies, dimension=16, feed_forward=32, pre_norm=True)
        batch = batch_of(transformer.texts.split("test"), [1])
    model = without_biases(double(model))
    return model, decide(model, batch)[0]


def test_without_biases_words_and_positions_sum_to_the_logit(unbiased):
    model, batch = unbiased
    inputs = [model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)]
    segments = batch.layout.source_BS, batch.layout.input_BT
    positions = [
        model.place(x, segment, target=target) - x
        for x, segment, target in zip(inputs, segments, (False, True), strict=True)
    ]
    leaves = [x.detach().requires_grad_() for x in inputs]
    relevance = load_explainer("cp_lrp").relevance(model, batch)
    with held_constant(model):
        logits = model.logits(model.decode(model.encode(leaves[0], batch.layout), leaves[1]))
        for step, label in enumerate(batch.labels_BT[0].tolist()):
            gradients = torch.autograd.grad(logits[0, step, label], leaves, retain_graph=True)
            total = sum(
                (gradient * (leaf + position)).sum().item()
                for leaf, gradient, position in zip(leaves, gradients, positions, strict=True)
            )
            assert total == pytest.approx(logits[0, step, label].item(), abs=1e-9)
            words = (gradients[0] * leaves[0]).sum(-1)[0].detach()
            torch.testing.assert_close(relevance.source_BTS[0, step], words, rtol=0, atol=1e-9)


def test_states_are_the_models_own(explained):
    model, batch = explained
    before = model(batch)
    with held_constant(model):
        torch.testing.assert_close(model(batch), before, rtol=0, atol=1e-12)
    assert not any(m._forward_hooks for m in model.modules())


def test_a_norm_that_is_held_gives_the_models_digits():
    """In float32, where a sum in another order rounds."""
    torch.manual_seed(0)
    norm = nn.LayerNorm(64)
    states = torch.randn(50, 64, requires_grad=True)
    with held_constant(norm):
        held = norm(states)
    assert torch.equal(held, norm(states))


def test_the_gradient_is_that_of_constant_weights_and_deviations(explained, monkeypatch):
    """Against layers whose attention and norms are written out with constants of a first pass."""
    model, batch = explained
    relevance = load_explainer("cp_lrp").relevance(model, batch)

    def attend(self, query_BTD, keys_values, mask, weights):
        heads = (self.heads, -1)
        q, k, v = (x.unflatten(-1, heads).transpose(1, 2)
                   for x in (self.query(query_BTD), *keys_values.chunk(2, dim=-1)))  # fmt: skip
        energy = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        shares = energy.masked_fill(~mask, -torch.inf).softmax(-1).detach()
        return self.out((shares @ v).transpose(1, 2).flatten(2))

    def norm(self, x):
        deviation = (x.var(-1, unbiased=False, keepdim=True) + self.eps).sqrt().detach()
        return (x - x.mean(-1, keepdim=True)) / deviation * self.weight + self.bias

    monkeypatch.setattr(MultiHeadAttention, "forward", attend)
    monkeypatch.setattr(nn.LayerNorm, "forward", norm)
    inputs = model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)
    leaves = [x.detach().requires_grad_() for x in inputs]
    logits = model.logits(model.decode(model.encode(leaves[0], batch.layout), leaves[1]))
    for step, label in enumerate(batch.labels_BT[0].tolist()):
        source, prefix = torch.autograd.grad(logits[0, step, label], leaves, retain_graph=True)
        expected = (source * leaves[0]).sum(-1)[0].detach()
        torch.testing.assert_close(relevance.source_BTS[0, step], expected, rtol=0, atol=1e-9)
        earlier = (prefix * leaves[1]).sum(-1)[0, 1 : step + 1].detach()  # without BOS
        torch.testing.assert_close(relevance.prefix_BTT[0, step, :step], earlier, rtol=0, atol=1e-9)


def test_what_it_does_not_cover(explained):
    model, batch = explained
    model.decoder[0].feed_forward[1] = nn.GELU()
    with pytest.raises(NotApplicable, match="ReLU"):
        load_explainer("cp_lrp").relevance(model, batch)
    model.decoder[0].feed_forward[1] = nn.ReLU()
