"""Language models taken apart: against passes of the model itself, and matrices of them."""

from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from support.language_models import CONFIGS, EXAMPLES, TEMPLATE, build
from support.model_checks import assert_same_relevance, assert_untouched, state_of
from xnmt_bench.corpora.passage import Passage
from xnmt_bench.corpora.vocabulary.subwords import BOS
from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import decide
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.causal_lm import open_causal_lm, stack_of
from xnmt_bench.nmt.huggingface_blocks import causal_layers
from xnmt_bench.registry import load_explainer

EXPLAINERS = ("rollout", "value_zeroing", "alti", "attention_norm")
OTHERS = {
    "qwen3": {"num_key_value_heads": 2, "head_dim": 12},
    "gemma": {"num_key_value_heads": 1, "head_dim": 8},
}
CLOSE = {"rtol": 0, "atol": 1e-6}  # norms and softmax are in float32 in some families


# A test below asks Granite, whose blocks cannot be taken apart where it scales them.
@pytest.fixture(scope="module", params=[*(name for name in CONFIGS if name != "granite"), *OTHERS])
def model(request, tmp_path_factory, texts):
    """A small model of each family in float64, the words of its examples in columns."""
    folder = tmp_path_factory.mktemp(request.param)
    build(request.param, folder, texts, **OTHERS.get(request.param, {}))
    opened = open_causal_lm(str(folder), TEMPLATE, EXAMPLES[:1], columns="examples")
    return deepcopy(opened).double()


@pytest.fixture(scope="module")
def pairs(model, texts):
    """Three sentences of unlike lengths."""
    sentences = list(zip(*texts, strict=True))[:40]
    ids = [Passage(x, y).encode(*model.vocabularies) for x, y in sentences]
    return sorted(ids, key=lambda pair: len(pair[1]))[::15]


@pytest.fixture(scope="module")
def batch(model, pairs):
    return decide(model, Batch.collate(pairs))[0]


def ids_of(model, source, target):
    """All ids that the model reads, and the place of each source id among them, -1 for none."""
    in_front = [*model.before.tolist(), *model.shown.tolist()]
    slots, words = model.shown_slots.tolist(), source[len(model.shown_slots) : -1]
    places = [len(model.before) + slot if slot >= 0 else -1 for slot in slots]
    places += [*range(len(in_front), len(in_front) + len(words)), -1]  # EOS is not read
    theirs = model.their_ids[[*words]].tolist(), model.their_ids[[BOS, *target[:-1]]].tolist()
    return torch.tensor([[*in_front, *theirs[0], *model.between.tolist(), *theirs[1]]]), places


class Parts:
    """What projects values in a layer, what joins its heads, and the norm behind, or the same."""

    def __init__(self, layer):
        self.layer, self.fused = layer, hasattr(layer, "attention")
        if self.fused:  # GPT-NeoX
            self.projection, self.out = layer.attention.query_key_value, layer.attention.dense
        else:
            self.projection, self.out = layer.self_attn.v_proj, layer.self_attn.o_proj
        has_norm = hasattr(layer, "pre_feedforward_layernorm")
        self.last = layer.post_attention_layernorm if has_norm else self.out

    def drop_value(self, place):
        """A hook that sets one position's value to zero, for all heads."""

        def change(_, __, output):
            output = output.clone()
            # Fused it is of each of four heads queries, keys and values.
            values = output.unflatten(-1, (4, 3, -1))[..., 2, :] if self.fused else output
            values[:, place] = 0
            return output

        return self.projection.register_forward_hook(change)


def run(model, ids, parts, *hooks):
    """What a layer reads, what its heads add, and the same behind a norm; each (X, D)."""
    kept = {}
    hooks = [
        *hooks,
        parts.layer.register_forward_pre_hook(lambda _, x: kept.update(read=x[0][0])),
        parts.out.register_forward_hook(lambda *x: kept.update(joined=x[2][0])),
        parts.last.register_forward_hook(lambda *x: kept.update(added=x[2][0])),
    ]
    model.model(input_ids=ids)
    for hook in hooks:
        hook.remove()
    return kept["read"], kept["joined"], kept["added"]


@pytest.fixture(scope="module")
def by_hand(model, pairs):
    """Of the shortest sentence and each layer: input, output, and vectors of each position.

    Outputs without each position's value are (X, X, D), what all heads bring of it too.
    """
    ids, _ = ids_of(model, *pairs[0])
    layers = []
    for parts in map(Parts, stack_of(model.model).layers):
        read_XD, joined_XD, added_XD = run(model, ids, parts)
        changed = [run(model, ids, parts, parts.drop_value(k)) for k in range(ids.shape[1])]
        without_XXD = torch.stack([read_XD + added for _, _, added in changed], 1)
        brought_XXD = torch.stack([joined_XD - joined for _, joined, _ in changed], 1)
        if parts.last is not parts.out:  # Gemma's RMSNorm, the root mean square as it is
            square_X1 = joined_XD.square().mean(-1, keepdim=True) + parts.last.eps
            brought_XXD = brought_XXD * ((1 + parts.last.weight) / square_X1.sqrt())[:, None]
        layers.append((read_XD, read_XD + added_XD, without_XXD, brought_XXD))
    return layers


def compare(model, pairs, relevance, scores_XX):
    """Relevance of the shortest sentence, padded, with scores of all that is read for all."""
    (source, target), steps = pairs[0], len(pairs[0][1])
    _, places = ids_of(model, source, target)
    # The last column is one of zeros, for what the model does not read.
    rows_TX = nn.functional.pad(scores_XX[-steps:], (0, 1))
    torch.testing.assert_close(
        relevance.source_BTS[0, :steps, : len(source)], rows_TX[:, places], **CLOSE
    )
    got_TT, expected_TT = relevance.prefix_BTT[0, :steps, :steps], rows_TX[:, -steps:]
    seen = torch.ones(steps, steps, dtype=torch.bool).tril(-1)
    torch.testing.assert_close(got_TT[seen], expected_TT[seen], **CLOSE)


def multiply(matrices):
    product = torch.eye(len(matrices[0])).double()
    for matrix in matrices:
        product = matrix @ product
    # To each row something comes from a constant, and from all together everything.
    torch.testing.assert_close(product.sum(1), torch.ones(len(product)).double(), **CLOSE)
    return product


@torch.no_grad()
def test_rollout_is_a_product_over_prompt_source_and_target(model, pairs, batch):
    """Of the weights that the model gives from ids: paths through the template are in it."""
    ids, _ = ids_of(model, *pairs[0])
    weights = model.model(ids, output_attentions=True).attentions
    identity = torch.eye(ids.shape[1])
    product = multiply([(layer[0].double().mean(0) + identity) / 2 for layer in weights])
    compare(model, pairs, load_explainer("rollout").relevance(model, batch), product)


@torch.no_grad()
def test_value_zeroing_sets_values_to_zero(model, pairs, batch, by_hand):
    matrices = []
    for _, output_XD, without_XXD, _ in by_hand:
        turned = 1 - nn.functional.cosine_similarity(without_XXD, output_XD[:, None], dim=-1)
        shares = turned / turned.sum(1, keepdim=True)
        matrices.append((shares + torch.eye(len(shares))) / 2)
    relevance = load_explainer("value_zeroing").relevance(model, batch)
    compare(model, pairs, relevance, multiply(matrices))


@torch.no_grad()
def test_alti_is_a_product_of_contributions(model, pairs, batch, by_hand):
    matrices = []
    for read_XD, output_XD, _, brought_XXD in by_hand:
        parts_XXD = brought_XXD.clone()
        parts_XXD[range(len(read_XD)), range(len(read_XD))] += read_XD
        lost = output_XD.abs().sum(-1)[:, None] - (output_XD[:, None] - parts_XXD).abs().sum(-1)
        lost = lost.clamp(min=0)
        matrices.append(lost / lost.sum(1, keepdim=True))
    compare(model, pairs, load_explainer("alti").relevance(model, batch), multiply(matrices))


@torch.no_grad()
def test_attention_norm_is_the_length_of_what_a_position_brings(model, pairs, batch, by_hand):
    *_, brought_XXD = by_hand[1]
    relevance = load_explainer("attention_norm").relevance(model, batch)
    compare(model, pairs, relevance, brought_XXD.norm(dim=-1))


@torch.no_grad()
def test_vectors_and_residual_are_what_a_block_gives(model, batch):
    """Heads one by one too; in a batch with padding."""
    for (block,) in model.attention_blocks(batch).decoder:
        together = block.vectors()
        heads = sum(block.vectors(head) for head in range(4))
        torch.testing.assert_close(heads, together, **CLOSE)
        bias = 0 if block.out.bias is None else block.out.bias
        summed = block.input_BQD + together.sum(2) + bias
        torch.testing.assert_close(summed, block.output_BQD, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", EXPLAINERS)
def test_a_sentence_does_not_depend_on_its_batch(model, pairs, batch, name):
    """Law 2."""
    explainer = load_explainer(name)
    together = explainer.relevance(model, batch)
    for row, pair in enumerate(pairs):
        alone, _ = decide(model, Batch.collate([pair]))
        relevance = explainer.relevance(model, alone)
        s, t = len(pair[0]), len(pair[1])
        assert_same_relevance(together.source_BTS[row, :t, :s], relevance.source_BTS[0])
        assert_same_relevance(together.prefix_BTT[row, :t, :t], relevance.prefix_BTT[0])


@pytest.mark.parametrize("name", EXPLAINERS)
def test_a_model_leaves_an_explainer_as_it_entered(model, batch, name):
    """Law 3."""
    # The first pass that asks for weights has transformers hook its own modules, for good.
    model.model(torch.tensor([[1, 2]]), output_attentions=True)
    before = state_of(model)
    load_explainer(name).relevance(model, batch)
    assert_untouched(before, model)


def open_small(family, folder, texts, **changes):
    build(family, folder, texts, **changes)
    opened = open_causal_lm(str(folder), TEMPLATE, EXAMPLES)
    pair = Passage("the dog sleeps .", "der Hund schläft .").encode(*opened.vocabularies)
    return opened, decide(opened, Batch.collate([pair]))[0]


def test_a_layer_that_is_not_the_sum_of_its_parts_is_not_applicable(tmp_path, texts):
    """Granite multiplies what a block adds; rollout needs weights alone. No hook is left."""
    model, batch = open_small("granite", tmp_path, texts, residual_multiplier=0.5)
    load_explainer("rollout").relevance(model, batch)
    before = state_of(model)
    for name in EXPLAINERS[1:]:
        with pytest.raises(NotApplicable, match="do not sum to what the layer gives"):
            load_explainer(name).relevance(model, batch)
    assert_untouched(before, model)
    assert load_explainer("value_zeroing").relevance(
        *open_small("granite", tmp_path / "plain", texts, residual_multiplier=1.0)
    )


def test_layers_of_other_parts_are_not_applicable():
    stack = SimpleNamespace(layers=[nn.Linear(1, 1)])
    with pytest.raises(NotApplicable, match="the model cannot be taken apart: 'Linear' object has"):
        causal_layers(stack)


def test_blocks_in_bfloat16(tmp_path, texts):
    """Sums of parts are compared as precisely as the layer rounds."""
    model, batch = open_small("gemma2", tmp_path, texts)
    exact = load_explainer("alti").relevance(model, batch).source_BTS
    rounded = load_explainer("alti").relevance(deepcopy(model).bfloat16(), batch).source_BTS
    torch.testing.assert_close(rounded.float(), exact, rtol=0, atol=0.05, equal_nan=True)
