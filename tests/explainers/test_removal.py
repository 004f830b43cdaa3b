"""Removal by attention: no layer attends to a word, and its embedding is zero."""

from dataclasses import replace

import pytest
import torch

from support.systems import batch_of, double_and_batch, trained
from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import decide
from xnmt_bench.nmt.switched import SwitchedOff
from xnmt_bench.registry import load_explainer

EXACT = {"rtol": 0, "atol": 1e-12}


@pytest.fixture(scope="module")
def transformer_and_sentence(transformer):
    """A model in float64 and one labelled sentence."""
    return double_and_batch(transformer, [3])


def probability(model, batch, source_BSD, input_BTD):
    """P of each label, (T,), of a sentence of these embeddings, which may lack words."""
    alone = batch.take([0])
    layout = replace(
        alone.layout,
        source_BS=torch.ones(1, source_BSD.shape[1]).long(),
        input_BT=torch.ones(1, input_BTD.shape[1]).long(),
    )
    states = model.decode(model.encode(source_BSD, layout), input_BTD)
    return model.logits(states[0]).softmax(-1)


def without(x_BXD, place):
    return torch.cat([x_BXD[:, :place], x_BXD[:, place + 1 :]], dim=1)


def test_where_positions_count_nothing_a_removed_word_is_not_there(
    transformer_and_sentence, monkeypatch
):
    """The sentence without the word gives the same, but where the word's own input is read."""
    model, batch = transformer_and_sentence
    monkeypatch.setattr(type(model), "place", lambda self, x, *_, **__: x)
    source, inputs = model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)
    explainer = load_explainer("prediction_difference", removal="attention")
    relevance = explainer.relevance(model, replace(batch, forced=None))
    labels_T = batch.labels_BT[0]
    steps = torch.arange(len(labels_T))
    whole_T = probability(model, batch, source, inputs)[steps, labels_T]
    words = source.shape[1] - 1  # but EOS
    for place in range(words):
        shorter_TV = probability(model, batch, without(source, place), inputs)
        expected_T = whole_T - shorter_TV[steps, labels_T]
        torch.testing.assert_close(relevance.source_BTS[0, :, place], expected_T, **EXACT)
    for word in range(len(labels_T) - 2):
        # Word j is input j + 1; steps from j + 2 on stand one place earlier without it.
        shorter_TV = probability(model, batch, source, without(inputs, word + 1))
        later = steps[word + 2 :]
        expected_T = whole_T[later] - shorter_TV[later - 1, labels_T[later]]
        shown_T = relevance.prefix_BTT[0, later, word]
        torch.testing.assert_close(shown_T, expected_T, **EXACT)
    assert relevance.source_BTS[0, :, :words].abs().max() > 0.1


def test_no_layer_attends_to_a_removed_word_and_its_embedding_is_zero(transformer_and_sentence):
    model, batch = transformer_and_sentence
    switched, row = SwitchedOff(model, batch, "attention"), torch.tensor([0])
    keep_RS, keep_RT = torch.ones_like(batch.source_BS), torch.ones_like(batch.input_BT)
    # The request includes BOS and EOS, which stay.
    keep_RS[0, [1, -1]], keep_RT[0, [0, 2]] = 0, 0
    encoding = switched.reading(switched.encoding(row, keep_RS), row, keep_RT)
    inputs = switched.inputs(row, keep_RT)
    assert inputs[0, 2].abs().max() == 0
    weights = model.attention(encoding, inputs)
    encoder = model.encoder_attention(model.embed_source(batch.source_BS), encoding.layout)
    for weights_BLHQX, hidden, kept in (
        (encoder, 1, -1), (weights.cross_BLHTS, 1, -1), (weights.prefix_BLHTT, 2, 0),
    ):  # fmt: skip
        assert weights_BLHQX[..., hidden].abs().max() == 0
        assert weights_BLHQX[..., 2:, kept].min() > 0
        torch.testing.assert_close(
            weights_BLHQX.sum(-1), torch.ones_like(weights_BLHQX[..., 0]), **EXACT
        )


@pytest.mark.parametrize(
    ("name", "options"),
    [("prediction_difference", {}), ("shapley", {"permutations": 2}), ("lime", {"samples": 30})],
)
def test_batches_and_chunks_change_nothing(transformer, name, options):
    model, batch = double_and_batch(transformer, range(3))
    explainer = load_explainer(name, removal="attention", **options)
    in_batch = explainer.relevance(model, batch)
    narrow = load_explainer(name, removal="attention", positions=9, **options)
    other = load_explainer(name, removal="zero", **options).relevance(model, batch)
    for row in range(3):
        part = narrow.relevance(model, batch.take([row]))
        for side in ("source_BTS", "prefix_BTT"):
            alone, together = getattr(part, side)[0], getattr(in_batch, side)[row]
            together = together[: alone.shape[0], : alone.shape[1]]
            torch.testing.assert_close(together, alone, rtol=0, atol=1e-10, equal_nan=True)
    assert not torch.allclose(in_batch.source_BTS, other.source_BTS, equal_nan=True)


def test_shapley_still_sums_to_what_all_words_add(transformer_and_sentence):
    """Without any word EOS and BOS are left to attend to."""
    model, batch = transformer_and_sentence
    relevance = load_explainer("shapley", removal="attention", permutations=3)
    relevance = relevance.relevance(model, batch)
    switched, row = SwitchedOff(model, batch, "attention"), torch.tensor([0])
    source_RS, input_RT = torch.zeros_like(batch.source_BS), torch.zeros_like(batch.input_BT)
    input_RT[:, 0] = 1
    encoding = switched.reading(switched.encoding(row, source_RS), row, input_RT)
    nothing = model.decode(encoding, switched.inputs(row, input_RT))
    all_words = model.states(batch)
    p_all, p_nothing = (
        model.log_probability(states, batch.labels_BT)[0].exp() for states in (all_words, nothing)
    )
    total_T = relevance.source_BTS[0].sum(-1) + relevance.prefix_BTT[0].nansum(-1)
    torch.testing.assert_close(total_T, p_all - p_nothing, **EXACT)


def test_a_recurrent_system_is_not_applicable(workplace):
    system = trained("rnn_search", workplace)
    model = system.system.model
    batch, _ = decide(model, batch_of(system.texts.split("test"), [0]))
    for name in ("prediction_difference", "shapley", "lime"):
        with pytest.raises(NotApplicable, match="cannot leave words out of its attention"):
            load_explainer(name, removal="attention").relevance(model, batch)
