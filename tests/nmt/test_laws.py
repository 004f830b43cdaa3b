"""The three laws that every model under explanation obeys."""

import copy
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch

from support.configurations import CONTEXT_AWARE, STORED
from support.model_checks import (
    assert_encodes_again,
    assert_reads_as_decode,
    assert_same_relevance,
    assert_scores_alike,
    assert_untouched,
    state_of,
)
from support.systems import context_aware, double, trained
from xnmt_bench.corpora.sentence import Planted
from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import decide
from xnmt_bench.nmt.batch import Forced
from xnmt_bench.registry import entries, load_explainer


@pytest.fixture(scope="module", params=[*STORED, *CONTEXT_AWARE])
def native_system(request, workplace):
    """A job on each native system."""
    make = context_aware if request.param in CONTEXT_AWARE else trained
    return make(request.param, workplace)


def batch_of(model, split, indices):
    return model.collate([(split.source[i], split.target[i]) for i in indices])


def pairs_of(system, count=12):
    split = system.texts.split("test")
    # Lengths as different as the corpus has them, so that there is padding to get wrong.
    order = np.argsort(split.target.lengths())
    return split, [int(i) for i in order[:: max(1, len(order) // count)]][:count]


def test_ids_and_embeddings_give_the_same_logits(native_system):
    model = double(native_system.system.model)
    split, indices = pairs_of(native_system)
    batch = batch_of(model, split, indices)
    by_ids = model(batch)
    source, inputs = model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)
    by_embeddings = model.logits(model.decode(model.encode(source, batch.layout), inputs))
    torch.testing.assert_close(by_ids, by_embeddings, rtol=0, atol=0)
    # ... and the function that the embeddings enter is the one that translates.
    if native_system.system.name in STORED:  # the others have hardly been trained
        right_BT = by_ids.argmax(-1) == batch.target_BT
        assert right_BT[batch.target_mask_BT].float().mean() > 0.3


# Enough to obey the laws, and quick.
FEW = {"integrated_gradients": {"points": 2}, "shapley": {"permutations": 2},
       "lime": {"samples": 30}}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["attention", "gradient_norm", "weighted_gradient", "prediction_difference", "random",
     "code", "nearest", "uniform", "integrated_gradients", "shapley", "lime", "rollout", "alti",
     "attention_norm", "value_zeroing", "cp_lrp"],
)  # fmt: skip
def test_a_sentence_does_not_depend_on_its_batch(native_system, name):
    split, indices = pairs_of(native_system, count=3)
    model, explainer = native_system.system.model, load_explainer(name, **FEW.get(name, {}))
    together, _ = decide(model, batch_of(model, split, indices))
    try:
        relevance_together = explainer.relevance(model, together)
    except NotApplicable:
        pytest.skip(f"{name} does not cover this system")
    # A difference of probabilities is rounded as probabilities are, which are of the order of 1.
    scale = 1.0 if name in ("prediction_difference", "shapley", "lime") else None
    backwards, _ = decide(model, batch_of(model, split, indices[::-1]))
    reverse = explainer.relevance(model, backwards)
    for row, index in enumerate(indices):
        alone, log_probability = decide(model, batch_of(model, split, [index]))
        relevance = explainer.relevance(model, alone)
        s, t = alone.source_BS.shape[1], alone.target_BT.shape[1]
        assert log_probability.isfinite().all()
        assert torch.equal(together.labels_BT[row, :t], alone.labels_BT[0])
        assert_same_relevance(
            relevance_together.source_BTS[row, :t, :s], relevance.source_BTS[0], scale
        )
        assert_same_relevance(
            reverse.source_BTS[len(indices) - 1 - row, :t, :s], relevance.source_BTS[0], scale
        )
        assert relevance_together.source_BTS[row, t:].isnan().all()
        assert relevance_together.source_BTS[row, :, s:].isnan().all()
        if relevance.prefix_BTT is not None:
            assert_same_relevance(
                relevance_together.prefix_BTT[row, :t, :t], relevance.prefix_BTT[0], scale
            )


@pytest.mark.parametrize("name", sorted(entries("explainers")))
def test_a_model_leaves_an_explainer_as_it_entered(native_system, name):
    split, indices = pairs_of(native_system, 2)
    model = native_system.system.model
    before = state_of(model)
    batch, _ = decide(model, batch_of(model, split, indices))
    annotated = native_system.texts.gold("test")
    # For the explainers that name planted words, which are in no corpus of these systems.
    planted = (Planted("first", 0, 0, 1),)
    golds = (annotated[int(split.number[i])] for i in indices)
    words = tuple((split.source.current_words(i), split.target.current_words(i)) for i in indices)
    planted_golds = tuple(replace(gold, planted=planted) for gold in golds)
    batch = replace(batch, gold=planted_golds, words=words)
    explainer = load_explainer(name, **FEW.get(name, {}))
    explainer.learnt = explainer.prepare(native_system.texts.split("train"))
    # A model that an explainer does not cover leaves it untouched too.
    with suppress(NotApplicable):
        explainer.relevance(model, batch)
    assert_untouched(before, model)


@pytest.mark.parametrize("name", ["gradient_norm", "prediction_difference", "attention"])
def test_also_when_the_explainer_raised(native_system, name, monkeypatch):
    split, indices = pairs_of(native_system, 3)
    model = native_system.system.model
    batch, _ = decide(model, batch_of(model, split, indices))
    before = state_of(model)
    calls = []

    def fails(*_, **__):
        calls.append(1)
        raise RuntimeError("on purpose")

    broken = "attention" if name == "attention" else "log_probability"
    monkeypatch.setattr(model, broken, fails)
    with pytest.raises(RuntimeError, match="on purpose"):
        load_explainer(name).relevance(model, batch)
    monkeypatch.undo()
    assert calls
    assert_untouched(before, model)


def test_state_t_depends_on_inputs_up_to_t_only(native_system):
    model = double(native_system.system.model)
    split, indices = pairs_of(native_system, 4)
    batch = batch_of(model, split, indices)
    states = model.states(batch)
    for length in (1, 3, 8, 20):
        cut = replace(batch, target_BT=batch.target_BT[:, :length])
        expected = states[:, :length]
        torch.testing.assert_close(expected, model.states(cut), rtol=1e-10, atol=1e-10)


def test_attention_rows_sum_to_one(native_system):
    model = native_system.system.model
    split, indices = pairs_of(native_system)
    batch = batch_of(model, split, indices)
    encoding = model.encode(model.embed_source(batch.source_BS), batch.layout)
    weights = model.attention(encoding, model.embed_target(batch.input_BT))
    name, now = native_system.system.name, batch.current_BT
    parts = [weights.cross_BLHTS, weights.prefix_BLHTT]
    if model.joint_attention:
        parts = [torch.cat(parts, dim=-1)]
    for part in parts:
        if part is None:
            continue
        sums = part.sum(-1).movedim(3, 1)[now]  # only of the current sentence's steps
        if (name, part is parts[0]) in {("cadec", False), ("s_hier_to_2", True)}:
            # A draft, or the EOS before a document's first sentence, takes a part of the weight.
            assert (sums > 0.1).all()
            assert (sums < 1).any()
            assert (sums < 1 + 1e-5).all()
        else:
            torch.testing.assert_close(sums, torch.ones_like(sums))
    padding = ~batch.source_mask_BS[:, None, None, None].expand_as(weights.cross_BLHTS)
    assert (weights.cross_BLHTS[padding] == 0).all()


def test_attention_with_weights_decodes_as_without(native_system):
    """The explicit softmax and the fused kernel are the same function."""
    model = double(native_system.system.model)
    split, indices = pairs_of(native_system, 4)
    batch = batch_of(model, split, indices)
    encoding = model.encode(model.embed_source(batch.source_BS), batch.layout)
    inputs = model.embed_target(batch.input_BT)
    explicit = model.attention(encoding, inputs).states_BTD
    if explicit is None:
        pytest.skip("its attention gives no states")
    torch.testing.assert_close(explicit, model.decode(encoding, inputs), rtol=1e-9, atol=1e-9)


def test_a_prefix_reads_and_forks_as_the_whole_is_decoded(native_system):
    model = double(native_system.system.model)
    split, indices = pairs_of(native_system, 4)
    assert_reads_as_decode(model, batch_of(model, split, indices))


def test_a_source_is_encoded_again_from_a_place_on(native_system):
    model = double(native_system.system.model)
    split, indices = pairs_of(native_system, 4)
    assert_encodes_again(model, batch_of(model, split, indices))


def test_a_pass_is_shared_by_those_who_ask_of_the_same_ids(native_system):
    model = double(native_system.system.model)
    split, indices = pairs_of(native_system, 4)
    batch, log_p = decide(model, batch_of(model, split, indices), weights=True)
    assert Forced.of(model, batch) is batch.forced
    cut = replace(batch, target_BT=batch.target_BT[:, :-1])
    for other in (Forced.of(model, cut), Forced.of(copy.deepcopy(model), batch)):
        assert other is not batch.forced
    # With attention's weights or without them, the states are the same function.
    plain, expected = decide(model, batch_of(model, split, indices))
    there = batch.current_BT
    assert torch.equal(plain.labels_BT[there], batch.labels_BT[there])
    torch.testing.assert_close(log_p[there], expected[there], rtol=1e-9, atol=1e-9)


def test_variants_of_a_source_score_as_each_does_alone(native_system):
    split, indices = pairs_of(native_system)
    assert_scores_alike(
        native_system.system.model, [(split.source[i], split.target[i]) for i in indices]
    )
