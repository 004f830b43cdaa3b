"""Explainers of a decoder-only model against a pass and matrices written by hand, in float64."""

import pytest
import torch

from support.relevance_checks import assert_same
from support.systems import double_and_batch, trained
from xnmt_bench.registry import load_explainer


@pytest.fixture(scope="module")
def model_and_batch(workplace):
    """A model in float64, and a labelled batch of three sentences of unlike lengths."""
    return double_and_batch(trained("decoder_only", workplace), [3, 4, 5])


def normed(x_XD, norm):
    return x_XD / (x_XD.square().mean(-1, keepdim=True) + 2.0**-52).sqrt() * norm.weight


def attend(layer, x_XD, zeroed=None, heads=slice(None)):
    """What attention adds, and its weights; a value may be set to zero in some heads."""
    read_XD, length = normed(x_XD, layer.norms[0]), len(x_XD)
    query, key, value = (
        y.view(length, layer.heads, -1)
        for y in (layer.query(read_XD), *layer.key_value(read_XD).chunk(2, dim=-1))
    )
    half = query.shape[-1] // 2
    # Dimension e and e + E / 2 are a complex number, which turns with the position.
    angle = torch.arange(length)[:, None] / 10000 ** (torch.arange(half).double() / half)
    turn = torch.polar(torch.ones_like(angle), angle)[:, None]
    query, key = (turn * torch.complex(y[..., :half], y[..., half:]) for y in (query, key))
    energy = torch.einsum("qhe,khe->hqk", query, key.conj()).real / (2 * half) ** 0.5
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    weights_HXX = energy.masked_fill(future, -torch.inf).softmax(-1)
    if zeroed is not None:
        value = value.clone()
        value[zeroed, heads] = 0
    mixed = torch.einsum("hqk,khe->qhe", weights_HXX, value)
    return layer.out(mixed.flatten(1)), weights_HXX


def walk(model, x_XD):
    """Each layer with the states that it reads; last the states behind all of them."""
    for layer in model.decoder:
        yield layer, x_XD
        x_XD = x_XD + attend(layer, x_XD)[0]
        gate, up = layer.gate_up(normed(x_XD, layer.norms[1])).chunk(2, dim=-1)
        x_XD = x_XD + layer.down(torch.nn.functional.gelu(gate) * up)
    yield None, x_XD


def sentences(model, batch):
    """Each sentence alone: the length of its source, and its embeddings, the inputs behind."""
    for row in range(len(batch.source_BS)):
        alone = batch.take([row])
        sides = (model.embed_source(alone.source_BS), model.embed_target(alone.input_BT))
        yield sides[0].shape[1], torch.cat(sides, dim=1)[0]


def compare_sentence(relevance, row, scores_XX, length):
    """Relevance in the padded batch with scores of all positions of one sentence alone."""
    rows = scores_XX[length:]
    steps = len(rows)
    assert_same(relevance.source_BTS[row, None, :steps, :length], rows[None, :, :length])
    seen = torch.ones(steps, steps - 1, dtype=torch.bool).tril(-1)
    prefix_TT = rows[:, length + 1 :].masked_fill(~seen, torch.nan)  # BOS is no word
    assert_same(relevance.prefix_BTT[row, None, :steps, : steps - 1], prefix_TT[None])


def compare(model, batch, relevance, matrix_of):
    """Relevance in the padded batch, and a product of matrices for each sentence alone."""
    for row, (length, x_XD) in enumerate(sentences(model, batch)):
        product = torch.eye(len(x_XD)).double()
        for layer, read_XD in walk(model, x_XD):
            if layer is not None:
                product = matrix_of(layer, read_XD) @ product
        torch.testing.assert_close(product.sum(-1), torch.ones(len(product)).double())
        compare_sentence(relevance, row, product, length)


def test_the_pass_by_hand_is_the_models(model_and_batch):
    model, batch = model_and_batch
    states_BTD = model.states(batch)
    for row, (length, x_XD) in enumerate(sentences(model, batch)):
        *_, (_, behind_XD) = walk(model, x_XD)
        expected_TD = normed(behind_XD[length:], model.decoder_norm)
        torch.testing.assert_close(states_BTD[row, : len(expected_TD)], expected_TD)


@pytest.mark.parametrize("heads", ["mean", 1])
def test_rollout_is_a_product_over_the_whole_sequence(model_and_batch, heads):
    model, batch = model_and_batch

    def mixed(layer, read_XD):
        _, weights_HXX = attend(layer, read_XD)
        attention_XX = weights_HXX.mean(0) if heads == "mean" else weights_HXX[heads]
        return (attention_XX + torch.eye(len(read_XD))) / 2

    compare(model, batch, load_explainer("rollout", heads=heads).relevance(model, batch), mixed)


@pytest.mark.parametrize("heads", ["all", 1])
def test_value_zeroing_sets_values_to_zero(model_and_batch, heads):
    model, batch = model_and_batch
    chosen = slice(None) if heads == "all" else heads

    def mixed(layer, read_XD):
        turned = torch.zeros(len(read_XD), len(read_XD)).double()
        output_XD = read_XD + attend(layer, read_XD)[0]
        for place in range(len(read_XD)):
            without_XD = read_XD + attend(layer, read_XD, place, chosen)[0]
            similar = torch.nn.functional.cosine_similarity(without_XD, output_XD)
            turned[place:, place] = 1 - similar[place:]
        return (turned / turned.sum(-1, keepdim=True) + torch.eye(len(read_XD))) / 2

    relevance = load_explainer("value_zeroing", heads=heads).relevance(model, batch)
    compare(model, batch, relevance, mixed)


def vectors(layer, read_XD):
    """What each position brings to each, (X, X, D): what is lost without its value."""
    added_XD, _ = attend(layer, read_XD)
    return torch.stack([added_XD - attend(layer, read_XD, i)[0] for i in range(len(read_XD))], 1)


def test_alti_is_a_product_of_contributions(model_and_batch):
    model, batch = model_and_batch

    def mixed(layer, read_XD):
        output_XD = read_XD + attend(layer, read_XD)[0]
        shares_XX = torch.zeros(len(read_XD), len(read_XD)).double()
        for q, brought_XD in enumerate(vectors(layer, read_XD)):
            for k in range(q + 1):
                part_D = brought_XD[k] + (read_XD[q] if k == q else 0)
                lost = output_XD[q].abs().sum() - (output_XD[q] - part_D).abs().sum()
                shares_XX[q, k] = max(float(lost), 0.0)
        return shares_XX / shares_XX.sum(-1, keepdim=True)

    compare(model, batch, load_explainer("alti").relevance(model, batch), mixed)


def test_attention_norm_is_of_source_and_prefix_alike(model_and_batch):
    model, batch = model_and_batch
    relevance = load_explainer("attention_norm", layer=1).relevance(model, batch)
    for row, (length, x_XD) in enumerate(sentences(model, batch)):
        [_, (layer, read_XD), _] = walk(model, x_XD)
        compare_sentence(relevance, row, vectors(layer, read_XD).norm(dim=-1), length)
