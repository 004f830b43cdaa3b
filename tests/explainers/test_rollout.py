"""Rollout against a walk through the layers, word by word."""

import pytest

from xnmt_bench.errors import NotApplicable
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.registry import load_explainer


def walk(model, batch):
    """What of each source word and each input is in each step: a dictionary a state."""
    encoder = model.encoder_attention(model.embed_source(batch.source_BS), batch.layout)[0]
    encoding = model.encode(model.embed_source(batch.source_BS), batch.layout)
    weights = model.attention(encoding, model.embed_target(batch.input_BT))
    s, t = batch.source_BS.shape[1], batch.target_BT.shape[1]

    def mix(parts):
        """A weighted sum of dictionaries."""
        total = {}
        for weight, part in parts:
            for key, share in part.items():
                total[key] = total.get(key, 0.0) + float(weight) * share
        return total

    source = [{("source", i): 1.0} for i in range(s)]
    for layer in encoder:
        mean_SS = layer.mean(0)
        source = [
            mix([(0.5, source[i]), *((0.5 * mean_SS[i, j], source[j]) for j in range(s))])
            for i in range(s)
        ]
    states = [{("input", j): 1.0} for j in range(t)]
    for layer in range(weights.cross_BLHTS.shape[1]):
        own_TT, cross_TS = (
            x[0, layer].mean(0) for x in (weights.prefix_BLHTT, weights.cross_BLHTS)
        )
        states = [
            mix([(0.5, states[i]), *((0.5 * own_TT[i, j], states[j]) for j in range(t))])
            for i in range(t)
        ]
        states = [
            mix([(0.5, states[i]), *((0.5 * cross_TS[i, j], source[j]) for j in range(s))])
            for i in range(t)
        ]
    return states


def test_rollout_equals_a_walk_and_its_rows_sum_to_1(transformer_and_batch):
    model, batch = transformer_and_batch
    relevance = load_explainer("rollout").relevance(model, batch)
    for row in range(2):
        alone = batch.take([row])
        for step, shares in enumerate(walk(model, alone)):
            assert sum(shares.values()) == pytest.approx(1)
            for (side, place), share in shares.items():
                if side == "source":
                    actual = relevance.source_BTS[row, step, place]
                elif place > 0:  # input 0 is BOS
                    actual = relevance.prefix_BTT[row, step, place - 1]
                    if place - 1 >= step:  # not seen, and nothing came from there
                        assert share == 0 and actual.isnan()
                        continue
                else:
                    continue
                assert float(actual) == pytest.approx(share, abs=1e-12)


def test_a_model_without_a_stack_of_attention_is_not_applicable(transformer_and_batch):
    class Recurrent:
        one_stack = False
        attention_layers = NMTModel.attention_layers

    with pytest.raises(NotApplicable, match="whose layers are one stack of attention"):
        load_explainer("rollout").relevance(Recurrent(), transformer_and_batch[1])
