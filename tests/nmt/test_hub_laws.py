"""Laws that hold for every model of Hugging Face, translators and language models alike."""

import pytest
import torch

from support import huggingface_models, language_models
from support.model_checks import (
    assert_encodes_again,
    assert_reads_as_decode,
    assert_same_relevance,
    assert_scores_alike,
    assert_untouched,
    state_of,
)
from support.systems import double
from xnmt_bench.corpora.passage import Passage
from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import decide
from xnmt_bench.nmt.base import Reader
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.causal_lm import open_causal_lm
from xnmt_bench.nmt.huggingface import open_huggingface
from xnmt_bench.registry import load_explainer

EXPLAINERS = ("attention", "gradient_norm", "weighted_gradient", "prediction_difference")
BY_BLOCKS = ("alti", "attention_norm", "value_zeroing")
IN_CONTEXT = " in context"  # of a family: read behind the sentences before, on both sides
MODELS = [
    *huggingface_models.READER,
    *(f"{family}{IN_CONTEXT}" for family in huggingface_models.READER),
    *language_models.CONFIGS,
]


@pytest.fixture(scope="session", params=MODELS)
def model(request, tmp_path_factory, texts):
    """A small model of each family."""
    name, folder = request.param, tmp_path_factory.mktemp("model") / "model"
    if name in language_models.CONFIGS:
        language_models.build(name, folder, texts)
        return open_causal_lm(str(folder), language_models.TEMPLATE, language_models.EXAMPLES)
    family, in_context, _ = name.partition(IN_CONTEXT)
    huggingface_models.build(family, folder, texts)
    options = huggingface_models.READER[family]
    if in_context:
        huggingface_models.add_separator(folder)
        options = {**options, "separator": "<brk>"}
    return open_huggingface(str(folder), family, **options)


@pytest.fixture(scope="session")
def pairs(model, texts):
    """Some sentences of unlike lengths, behind none to two others where the model reads them."""
    sentences = list(zip(*texts, strict=True))
    passages = []
    for n, (source, target) in enumerate(sentences[:60]):
        before = sentences[n : n + n % 3] if model.reads_separators else []
        context = [[pair[side] for pair in before] for side in (0, 1)]
        passages.append(Passage(source, target, *context))
    ids = [passage.encode(*model.vocabularies) for passage in passages]
    return sorted(ids, key=lambda pair: len(pair[1]))[::-10]


def explain(model, pairs, name):
    """The labels of some pairs and their relevance; skips where a model's blocks are not read."""
    batch, _ = decide(model, Batch.collate(pairs))
    try:
        return batch.labels_BT, load_explainer(name).relevance(model, batch)
    except NotApplicable as problem:
        assert name in BY_BLOCKS
        pytest.skip(str(problem))


@pytest.mark.parametrize("name", [*EXPLAINERS, *BY_BLOCKS])
def test_a_sentence_does_not_depend_on_its_batch(model, pairs, name):
    """Law 2."""
    # A signed sum is rounded as its parts are, a share as what sums to 1: more than single words.
    if name in ("weighted_gradient", *BY_BLOCKS):
        model = double(model)
    # A probability's scale is 1.
    scale = 1.0 if name == "prediction_difference" else None
    labels_BT, together = explain(model, pairs, name)
    for row, pair in enumerate(pairs):
        labels_1T, alone = explain(model, [pair], name)
        s, t = len(pair[0]), len(pair[1])
        assert torch.equal(labels_BT[row, :t], labels_1T[0])
        if name == "weighted_gradient":  # some models have a softmax in float32 always
            sides = (alone.source_BTS, alone.prefix_BTT)
            scale = 10 * max(float(torch.nan_to_num(side).abs().max()) for side in sides)
        assert_same_relevance(together.source_BTS[row, :t, :s], alone.source_BTS[0], scale)
        assert_same_relevance(together.prefix_BTT[row, :t, :t], alone.prefix_BTT[0], scale)
        assert alone.source_BTS[..., : s - 1].abs().max() > 0


@pytest.mark.parametrize("name", [*EXPLAINERS, *BY_BLOCKS])
def test_a_model_leaves_an_explainer_as_it_entered(model, pairs, name):
    """Law 3."""
    # The first pass that asks for weights has transformers hook its own modules, for good.
    batch = Batch.collate(pairs[:1])
    source_BSD = model.embed_source(batch.source_BS)
    model.encoder_attention(source_BSD, batch.layout)
    model.attention(model.encode(source_BSD, batch.layout), model.embed_target(batch.input_BT))
    before = state_of(model)
    explain(model, pairs[:2], name)
    assert_untouched(before, model)


def test_the_cached_reader_reads_as_the_plain_one(model, pairs):
    batch = Batch.collate([(x, pairs[0][1]) for x, _ in pairs])
    encoding = model.encode(model.embed_source(batch.source_BS), batch.layout)
    plain, cached = Reader(model, encoding), model.reader(encoding)
    for step in range(3):
        ids = batch.input_BT[:, step : step + 1]
        torch.testing.assert_close(cached.read(ids), plain.read(ids), rtol=1e-3, atol=1e-4)
    rows = torch.tensor([2, 2, 0])
    for reader in (plain, cached):
        reader.select(rows)
    ids = torch.tensor([[7], [8], [9]])
    torch.testing.assert_close(cached.read(ids), plain.read(ids), rtol=1e-3, atol=1e-4)


def test_a_prefix_reads_and_forks_as_the_whole_is_decoded(model, pairs):
    assert_reads_as_decode(model, model.collate(pairs), tolerance=1e-5)


def test_a_source_is_encoded_again_from_a_place_on(model, pairs):
    assert_encodes_again(model, model.collate(pairs), tolerance=1e-5)


@torch.no_grad()
def test_a_labels_probability_needs_no_other_order(model, pairs):
    """It is read from the toolkit's own order of the vocabulary; `logits` has ours."""
    states = model.states(model.collate(pairs)).flatten(0, 1)
    labels = torch.arange(3, len(model.target_subwords))[: len(states)]
    expected = model.logits(states[: len(labels)]).log_softmax(-1)
    expected = expected.gather(-1, labels[:, None])[:, 0]
    log_p = model.log_probability(states[: len(labels)], labels)
    torch.testing.assert_close(log_p, expected, rtol=1e-5, atol=1e-5)


def test_variants_of_a_source_score_as_each_does_alone(model, pairs):
    assert_scores_alike(model, pairs)
