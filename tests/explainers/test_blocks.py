"""Explainers that read what attention blocks add: against the block, and the authors' code."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from support.configurations import configure, overrides
from support.fairseq_models import open_fixture
from support.paths import DATA, ROOT
from support.systems import batch_of, double, trained
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.explain import explain
from xnmt_bench.explainers import alti, value_zeroing
from xnmt_bench.explainers.base import Relevance, decide
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.pipeline.settings import read_settings
from xnmt_bench.registry import load, load_explainer

REFERENCE = DATA / "reference" / "alti_plus.json"
FAIRSEQ = ROOT / "tests" / "fixtures" / "fairseq"
SYSTEMS = ("transformer", "transformer_pre_norm")


@pytest.fixture(scope="module", params=["native", "decoder_only", *SYSTEMS])
def model_and_pair(request, transformer, workplace):
    """A model in float64, and a labelled batch of two sentences."""
    if request.param in ("native", "decoder_only"):
        job = transformer if request.param == "native" else trained("decoder_only", workplace)
        model = double(job.system.model)
        batch = batch_of(job.texts.split("test"), range(2))
    else:
        model = double(open_fixture(request.param))
        batch = Batch.collate([([6, 9, 62, 74, 3], [22, 94, 112, 3]), ([9, 6, 3], [9, 62, 3])])
    return model, decide(model, batch)[0]


def blocks_of(model, batch):
    blocks = model.attention_blocks(batch)
    return [*blocks.encoder, *(block for layer in blocks.decoder for block in layer)]


def bias_of(block):
    """The output layer's bias, of zeros where there is none."""
    bias = block.out.bias
    return torch.zeros_like(block.input_BQD[0, 0]) if bias is None else bias


def test_vectors_residual_and_bias_are_the_blocks_output(model_and_pair):
    for block in blocks_of(*model_and_pair):
        added = block.vectors().sum(2) + bias_of(block)
        summed = block.input_BQD + added
        torch.testing.assert_close(summed, block.summed_BQD, rtol=0, atol=1e-10)
        parts = torch.cat(
            [block.vectors(), block.input_BQD[:, :, None],
             bias_of(block).expand_as(block.input_BQD)[:, :, None]], dim=2
        )  # fmt: skip
        output = block.normed(parts).sum(2)
        if block.norm is not None:
            output = output + block.norm.bias
        torch.testing.assert_close(output, block.output_BQD, rtol=0, atol=1e-10)


def test_the_blocks_are_those_of_the_pass_itself(model_and_pair):
    model, batch = model_and_pair
    blocks = model.attention_blocks(batch)
    source_BSD = model.embed_source(batch.source_BS)
    weights = model.attention(
        model.encode(source_BSD, batch.layout), model.embed_target(batch.input_BT)
    )
    encoder = model.encoder_attention(source_BSD, batch.layout)
    for layer, block in enumerate(blocks.encoder):
        torch.testing.assert_close(block.weights_BHQK, encoder[:, layer], rtol=0, atol=1e-12)
    source, inputs = batch.source_BS.shape[1], slice(-batch.target_BT.shape[1], None)
    for layer, (self_attention, *cross) in enumerate(blocks.decoder):
        own = self_attention.weights_BHQK
        if not cross:  # one sequence: the source, and behind it the inputs
            torch.testing.assert_close(own[:, :, :source, :source], encoder[:, layer])
        to_source = cross[0].weights_BHQK if cross else own[:, :, inputs, :source]
        for actual, expected in (
            (own[:, :, inputs, inputs], weights.prefix_BLHTT),
            (to_source, weights.cross_BLHTS),
        ):
            torch.testing.assert_close(actual, expected[:, layer], rtol=0, atol=1e-12)


def test_attention_norm_is_the_length_of_a_words_vector(model_and_pair):
    """Head by head, word by word; all heads, and the second alone."""
    model, batch = model_and_pair
    blocks = model.attention_blocks(batch)
    cross, start = blocks.decoder[0][-1], blocks.inputs.start or 0  # of the inputs
    together, second = (
        load_explainer("attention_norm", layer=0, heads=heads).relevance(model, batch).source_BTS
        for heads in ("all", 1)
    )
    for step in (0, 2):
        for word in range(2):
            vectors = []
            for head, values_KE in enumerate(cross.values_BHKE[0]):
                width = values_KE.shape[1]
                mapped = cross.out.weight[:, head * width : (head + 1) * width] @ values_KE[word]
                vectors.append(cross.weights_BHQK[0, head, start + step, word] * mapped)
            expected = (float(sum(vectors).norm()), float(vectors[1].norm()))
            shown = (float(together[0, step, word]), float(second[0, step, word]))
            assert shown == pytest.approx(expected)


def test_a_block_to_which_no_state_contributes_has_shares_of_0():
    """Not NaN, which the product with other layers would spread to every step."""
    block = SimpleNamespace(output_BQD=torch.ones(1, 2, 3), normed=lambda vectors: vectors)
    away, along = torch.full((3,), -1.0), torch.full((3,), 0.5)
    vectors_BQXD = torch.stack([torch.stack([away, away]), torch.stack([along, away])])[None]
    assert alti._shares(block, vectors_BQXD).tolist() == [[[0, 0], [1, 0]]]


@pytest.mark.parametrize("chosen", ["all", 1])
def test_a_block_turns_as_it_does_without_a_value(model_and_pair, chosen):
    """One value after another set to zero, in all heads or in one."""
    for block in blocks_of(*model_and_pair):
        scores = value_zeroing.scores(block, chosen)
        for place in range(block.values_BHKE.shape[2]):
            values = block.values_BHKE.clone()
            values[:, slice(None) if chosen == "all" else chosen, place] = 0
            heads = (block.weights_BHQK @ values).transpose(1, 2).flatten(2)
            output = block.input_BQD + block.out(heads)
            output = output if block.norm is None else block.norm(output)
            dot = (output * block.output_BQD).sum(-1)
            cosine = dot / (output.norm(dim=-1) * block.output_BQD.norm(dim=-1))
            torch.testing.assert_close(scores[..., place], 1 - cosine, rtol=0, atol=1e-12)
        nothing = (block.weights_BHQK == 0).all(1)
        assert (scores[nothing] == 0).all()


@pytest.mark.parametrize(
    ("name", "options"),
    [("alti", {}), ("value_zeroing", {}), ("alti", {"layer": 0, "heads": 1}),
     ("value_zeroing", {"layer": None, "heads": 0}), ("rollout", {"heads": "max"}),
     ("rollout", {"layer": 0, "heads": 1})],
)  # fmt: skip
def test_shares_sum_to_1_and_see_no_future(model_and_pair, monkeypatch, name, options):
    model, batch = model_and_pair
    kept = {}

    def of_inputs(batch, source_BTS, input_BTT):
        kept.update(source=source_BTS, inputs=input_BTT)
        return None

    monkeypatch.setattr(Relevance, "of_inputs", of_inputs)
    load_explainer(name, **options).relevance(model, batch)
    total_BT = kept["source"].sum(-1) + kept["inputs"].sum(-1)
    here = batch.target_mask_BT
    torch.testing.assert_close(total_BT[here], torch.ones_like(total_BT[here]), rtol=0, atol=1e-9)
    assert kept["inputs"].triu(1).abs().max() == 0


@pytest.mark.parametrize("name", ["alti", "value_zeroing"])
def test_shares_do_not_depend_on_batch_and_padding(model_and_pair, name):
    model, batch = model_and_pair
    together = load_explainer(name).relevance(model, batch)
    alone = load_explainer(name).relevance(model, batch.take([1]))
    assert together.error_BT is alone.error_BT is None
    for side in ("source_BTS", "prefix_BTT"):
        padded, part = getattr(together, side), getattr(alone, side)
        here = padded[1, : part.shape[1], : part.shape[2]]
        torch.testing.assert_close(here, part[0], rtol=1e-9, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("name", ["alti", "rollout", "value_zeroing"])
def test_a_layer_is_the_last_of_a_model_that_ends_there(model_and_pair, name):
    """A model of one decoder layer, the other layer taken out; None is the mean of both."""
    model, batch = model_and_pair
    shorter = double(model)
    del shorter.decoder[1:]
    by_layer = [
        load_explainer(name).relevance(m, replace(batch, forced=None)) for m in (shorter, model)
    ]
    first, mean = (
        load_explainer(name, layer=layer).relevance(model, replace(batch, forced=None))
        for layer in (0, None)
    )
    for side in ("source_BTS", "prefix_BTT"):
        both = [getattr(relevance, side) for relevance in by_layer]
        exact = {"rtol": 1e-12, "atol": 1e-14, "equal_nan": True}
        torch.testing.assert_close(getattr(first, side), both[0], **exact)
        torch.testing.assert_close(getattr(mean, side), sum(both) / 2, **exact)
        assert not torch.equal(both[0].nan_to_num(), both[1].nan_to_num())


@pytest.mark.parametrize("name", ["alti", "attention_norm", "rollout", "value_zeroing"])
def test_a_layer_or_head_that_is_not_there_is_one_line(model_and_pair, name):
    with pytest.raises(XnmtError, match="no layer 2; the model has 2"):
        load_explainer(name, layer=2).relevance(*model_and_pair)
    with pytest.raises(XnmtError, match=r"no head 9; the layer has \d, from 0"):
        load_explainer(name, heads=9).relevance(*model_and_pair)


@pytest.mark.shared("reference/alti_plus.json")
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("by_their_norms", [False, True], ids=["deviation", "their_deviation"])
def test_alti_equals_its_authors_code(name, by_their_norms, monkeypatch):
    """They divide by the unbiased deviation, d - 1, of a post-norm, and add eps to it."""
    model = double(open_fixture(name))
    if by_their_norms:

        def normed(block, part_BQXD):
            if block.norm is None:
                return part_BQXD
            deviation = block.summed_BQD.std(-1)[..., None, None] + block.norm.eps
            centred = part_BQXD - part_BQXD.mean(-1, keepdim=True)
            return centred / deviation * block.norm.weight

        def shares(block, vectors_BQXD):
            if block.norm is not None:  # the output too is divided so
                output = normed(block, block.summed_BQD[:, :, None])[:, :, 0] + block.norm.bias
                block = replace(block, output_BQD=output)
            return of_output(block, vectors_BQXD)

        of_output = alti._shares
        monkeypatch.setattr("xnmt_bench.nmt.blocks.AttentionBlock.normed", normed)
        monkeypatch.setattr(alti, "_shares", shares)
    tolerance = 2e-5 if by_their_norms or name == "transformer_pre_norm" else 1e-3
    for recorded in json.loads(REFERENCE.read_text())["systems"][name]["sentences"]:
        batch = Batch.collate([(recorded["source"], recorded["target"])])
        relevance = load_explainer("alti").relevance(model, batch)
        expected_TX = torch.tensor(recorded["contributions"]).double()
        s = len(recorded["source"])
        source, prefix = relevance.source_BTS[0], relevance.prefix_BTT[0]
        assert (source - expected_TX[:, :s]).abs().max() < tolerance
        visible = ~prefix[:, :-1].isnan()
        # Input 0 is BOS.
        difference = (prefix[:, :-1] - expected_TX[:, s + 1 :])[visible]
        assert difference.abs().max() < tolerance


def test_a_model_whose_blocks_cannot_be_read_is_not_applicable():
    class Recurrent:
        attention_blocks = NMTModel.attention_blocks

    for name in ("alti", "attention_norm", "value_zeroing"):
        with pytest.raises(NotApplicable, match="blocks of Recurrent cannot be read"):
            load_explainer(name).relevance(Recurrent(), None)


def test_which_of_them_weigh_prefix_words_against_source_words():
    """The shares of `alti` and `rollout` are of both sides; norms of two blocks do not compare."""
    weigh = {
        n: not load_explainer(n).attends
        for n in ("alti", "rollout", "value_zeroing", "attention_norm")
    }
    assert weigh == {"alti": True, "rollout": True, "value_zeroing": True, "attention_norm": False}
    assert not any(load_explainer(name).tells_own_side for name in weigh)


def test_what_does_not_cover_a_system_costs_the_others_nothing(
    workplace, tmp_path, monkeypatch, capsys
):
    changes = [f"store={workplace}/store", "corpus.seed=0", f"results={tmp_path}"]
    config = configure(*overrides("rnn_search"), *changes, "explain=the dog sleeps .")
    by_blocks = ("alti", "attention_norm", "value_zeroing")
    names = [*by_blocks, "attention"]
    classes = {name: load("explainers", name) for name in names}
    monkeypatch.setattr("xnmt_bench.explain.load_all", lambda kind: classes)
    explain(read_settings(config))
    shown = " ".join(capsys.readouterr().out.split())  # the terminal breaks lines
    for name in by_blocks:
        assert f"{name}: n/a: the attention blocks of RNNSearch cannot be read; this" in shown
    assert "attention: n/a" not in shown
    assert (tmp_path / "explanation.png").exists()
