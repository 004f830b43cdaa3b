"""Each explainer against its definition, in float64, on trained systems."""

import pytest
import torch
from captum.attr import InputXGradient, Saliency

from support.relevance_checks import assert_same, visible
from support.systems import batch_of, double_and_batch
from xnmt_bench.errors import XnmtError
from xnmt_bench.explainers.base import decide
from xnmt_bench.registry import load_explainer

SENTENCES = range(6)


@pytest.fixture(scope="module")
def system_and_batch(system):
    """A model in float64 and a labelled batch of sentences of several lengths."""
    return double_and_batch(system, SENTENCES)


def probability(model, batch, source, inputs, step):
    """P(label) of one step of each sentence, (B,), or of a slice of steps, by a full pass."""
    states = model.decode(model.encode(source, batch.layout), inputs)
    p = model.logits(states[:, step]).softmax(-1)
    return p.gather(-1, batch.labels_BT[:, step, None])[..., 0]


def test_prediction_difference_equals_brute_force(system_and_batch):
    model, batch = system_and_batch
    source_BSD, input_BTD = model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)
    (b, s), t = batch.source_BS.shape, batch.target_BT.shape[1]
    source, prefix = torch.zeros(b, t, s).double(), torch.zeros(b, t, t).double()
    every_step = slice(None)
    unablated = probability(model, batch, source_BSD, input_BTD, every_step)
    for i in range(s):
        ablated = source_BSD.clone()
        ablated[:, i] = 0
        source[..., i] = unablated - probability(model, batch, ablated, input_BTD, every_step)
    for j in range(t - 1):
        ablated = input_BTD.clone()
        ablated[:, j + 1] = 0  # input j + 1 is target word j
        prefix[..., j] = unablated - probability(model, batch, source_BSD, ablated, every_step)
    source, prefix = visible(batch, source, prefix)
    relevance = load_explainer("prediction_difference").relevance(model, batch)
    assert_same(relevance.source_BTS, source)
    assert_same(relevance.prefix_BTT, prefix)


@pytest.mark.parametrize("positions", [1, 37, 100_000])
def test_prediction_difference_does_not_depend_on_its_chunks(system_and_batch, positions):
    model, batch = system_and_batch
    chunked = load_explainer("prediction_difference", positions=positions).relevance(model, batch)
    other = load_explainer("prediction_difference").relevance(model, batch)
    assert_same(chunked.source_BTS, other.source_BTS)
    assert_same(chunked.prefix_BTT, other.prefix_BTT)


@pytest.mark.parametrize(
    ("name", "method", "options"),
    [("gradient_norm", Saliency, {"abs": True}), ("weighted_gradient", InputXGradient, {})],
)
def test_gradients_equal_naive_captum(system_and_batch, name, method, options):
    """Captum as its tutorials show it: one forward and one backward pass a step."""
    model, batch = system_and_batch
    source_BSD, input_BTD = model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)
    (b, s), t = batch.source_BS.shape, batch.target_BT.shape[1]
    source, prefix = torch.zeros(b, t, s).double(), torch.zeros(b, t, t).double()
    for step in range(t):
        naive = method(lambda x, y, step=step: probability(model, batch, x, y, step))
        x, y = naive.attribute((source_BSD.clone(), input_BTD.clone()), **options)
        source[:, step] = x.sum(-1).detach()
        prefix[:, step, : t - 1] = y.sum(-1)[:, 1:].detach()
    source, prefix = visible(batch, source, prefix)
    relevance = load_explainer(name).relevance(model, batch)
    assert_same(relevance.source_BTS, source)
    assert_same(relevance.prefix_BTT, prefix)


def test_gradients_equal_finite_differences(system_and_batch):
    """The weighted gradient is the slope along the embedding itself."""
    model, batch = system_and_batch
    source_BSD, input_BTD = model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)
    relevance = load_explainer("weighted_gradient").relevance(model, batch)
    # Small enough that no ReLU changes sides between the two ends.
    h, greatest = 1e-7, torch.nan_to_num(relevance.source_BTS).abs().max()
    for step in (0, 2, 4):
        for i in range(batch.source_BS.shape[1]):
            ends = []
            for sign in (1, -1):
                moved = source_BSD.clone()
                moved[:, i] *= 1 + sign * h
                ends.append(probability(model, batch, moved, input_BTD, step))
            slope = (ends[0] - ends[1]) / (2 * h)
            defined = ~relevance.source_BTS[:, step, i].isnan()
            error = (
                (slope - relevance.source_BTS[:, step, i])[defined].abs().max()
                if defined.any()
                else 0
            )
            assert error <= 1e-6 * greatest


def test_gradient_norm_equals_finite_differences(system_and_batch):
    """Every coordinate of one word's gradient, one by one."""
    model, batch = system_and_batch
    source_BSD, input_BTD = model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)
    relevance = load_explainer("gradient_norm").relevance(model, batch)
    step, word, h = 3, 1, 1e-7
    norm = torch.zeros(len(source_BSD)).double()
    for d in range(source_BSD.shape[-1]):
        ends = []
        for sign in (1, -1):
            moved = source_BSD.clone()
            moved[:, word, d] += sign * h
            ends.append(probability(model, batch, moved, input_BTD, step))
        norm += ((ends[0] - ends[1]) / (2 * h)).abs()
    defined = ~relevance.source_BTS[:, step, word].isnan()
    torch.testing.assert_close(
        relevance.source_BTS[defined, step, word], norm[defined], rtol=1e-5, atol=1e-9
    )


def test_random_is_reproducible_and_other_with_another_seed(system_and_batch):
    model, batch = system_and_batch
    first, two, other = (
        load_explainer("random", seed=seed).relevance(model, batch) for seed in (0, 0, 1)
    )
    assert_same(first.source_BTS, two.source_BTS)
    assert torch.nan_to_num(first.source_BTS - other.source_BTS).abs().max() > 0.1


def test_prefix_attention_looks_at_words_not_at_inputs(transformer):
    """The weight on input j + 1 is the relevance of word j; BOS is not a word."""
    model = transformer.system.model
    batch, _ = decide(model, batch_of(transformer.texts.split("test"), SENTENCES))
    relevance = load_explainer("attention").relevance(model, batch)
    encoding = model.encode(model.embed_source(batch.source_BS), batch.layout)
    weights = model.attention(encoding, model.embed_target(batch.input_BT))
    mean = weights.prefix_BLHTT[:, -1].mean(1)
    torch.testing.assert_close(relevance.prefix_BTT[0, 4, :4], mean[0, 4, 1:5])


def test_attention_of_one_head(transformer):
    """The mean over heads is the mean of single heads; of a step, each sums to 1."""
    model = transformer.system.model
    batch, _ = decide(model, batch_of(transformer.texts.split("test"), SENTENCES))
    ones = [
        load_explainer("attention", heads=head).relevance(model, batch).source_BTS
        for head in range(4)
    ]
    mean = load_explainer("attention").relevance(model, batch).source_BTS
    torch.testing.assert_close(torch.stack(ones).mean(0), mean, equal_nan=True)
    assert not torch.allclose(ones[0], ones[1], equal_nan=True)
    with pytest.raises(XnmtError, match="no head 4; the layer has 4"):
        load_explainer("attention", heads=4).relevance(model, batch)
    with pytest.raises(XnmtError, match="no layer 7"):
        load_explainer("attention", layer=7).relevance(model, batch)
