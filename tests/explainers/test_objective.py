"""What is explained, and what replaces a word: each option against its definition, in float64."""

import pytest
import torch

from support.relevance_checks import assert_same, visible
from xnmt_bench.corpora.vocabulary.subwords import UNK, WORDS
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.explainers.objective import Objective
from xnmt_bench.registry import load_explainer

NUMBERS = {
    "probability": lambda logits: logits.softmax(-1),
    "log_probability": lambda logits: logits.log_softmax(-1),
    "logit": lambda logits: logits,
}
CHOICES = [
    {"of": "log_probability"},
    {"of": "logit"},
    {"foil": "second"},
    {"of": "logit", "foil": "second"},
    {"of": "logit", "foil": "gold"},
]


def values(model, batch, source, inputs, of="probability", foil=None):
    """The number of each step, (B, T), by a full pass; the second choice is found by sorting."""
    states = model.decode(model.encode(source, batch.layout), inputs)
    number_BTV = NUMBERS[of](model.logits(states))
    result = number_BTV.gather(-1, batch.labels_BT[..., None])[..., 0]
    if foil is None:
        return result
    foil_BT = batch.target_BT if foil == "gold" else second_choice(model, batch)
    return result - number_BTV.gather(-1, foil_BT[..., None])[..., 0]


def second_choice(model, batch):
    """The likeliest word but the label, of each step of the unchanged sentences, (B, T)."""
    states = model.decode(
        model.encode(model.embed_source(batch.source_BS), batch.layout),
        model.embed_target(batch.input_BT),
    )
    first_BT, second_BT = model.logits(states).argsort(-1, descending=True)[..., :2].unbind(-1)
    # The label may be no first choice, in the padding of a shorter sentence.
    return torch.where(first_BT == batch.labels_BT, second_BT, first_BT)


@pytest.mark.parametrize("options", CHOICES, ids=str)
def test_gradients_are_of_the_chosen_number(transformer_and_batch, options):
    model, batch = transformer_and_batch
    relevance = load_explainer("weighted_gradient", **options).relevance(model, batch)
    source, prefix = (torch.zeros_like(x) for x in (relevance.source_BTS, relevance.prefix_BTT))
    for step in range(source.shape[1]):
        embedded = (model.embed_source(batch.source_BS), model.embed_target(batch.input_BT))
        leaves = [x.clone().requires_grad_() for x in embedded]
        total = values(model, batch, *leaves, **options)[:, step].sum()
        of_source, of_inputs = torch.autograd.grad(total, leaves)
        source[:, step] = (of_source * leaves[0]).sum(-1).detach()
        prefix[:, step, :-1] = (of_inputs * leaves[1]).sum(-1).detach()[:, 1:]
    source, prefix = visible(batch, source, prefix)
    assert_same(relevance.source_BTS, source)
    assert_same(relevance.prefix_BTT, prefix)


def test_the_l2_norm(transformer_and_batch):
    model, batch = transformer_and_batch
    relevance = load_explainer("gradient_norm", norm="l2").relevance(model, batch)
    step = 2
    source = model.embed_source(batch.source_BS).clone().requires_grad_()
    total = values(model, batch, source, model.embed_target(batch.input_BT))[:, step].sum()
    [of_source] = torch.autograd.grad(total, [source])
    expected = of_source.square().sum(-1).sqrt()
    visible = ~relevance.source_BTS[:, step].isnan()
    torch.testing.assert_close(
        relevance.source_BTS[:, step][visible], expected[visible], rtol=1e-9, atol=0
    )


@pytest.mark.parametrize(
    "options", [*CHOICES, {"removal": "mean"}, {"removal": "unk", "of": "logit"}], ids=str
)
def test_prediction_difference_is_of_the_chosen_number_and_removal(transformer_and_batch, options):
    model, batch = transformer_and_batch
    options = dict(options)
    relevance = load_explainer("prediction_difference", **options).relevance(model, batch)
    removal = options.pop("removal", "zero")
    source_BSD, input_BTD = model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)

    def replaced(embedded, place, embed, size):
        ids = torch.arange(WORDS, size) if removal == "mean" else torch.tensor([UNK])
        new = embedded.clone()
        new[:, place] = embed(ids[None])[0].mean(0) if removal != "zero" else 0
        return new

    sizes = [len(v) for v in model.vocabularies]
    (b, s), t = batch.source_BS.shape, batch.target_BT.shape[1]
    source, prefix = torch.zeros(b, t, s).double(), torch.zeros(b, t, t).double()
    unchanged = values(model, batch, source_BSD, input_BTD, **options)
    for i in range(s):
        changed = replaced(source_BSD, i, model.embed_source, sizes[0])
        source[..., i] = unchanged - values(model, batch, changed, input_BTD, **options)
    for j in range(t - 1):
        changed = replaced(input_BTD, j + 1, model.embed_target, sizes[1])
        prefix[..., j] = unchanged - values(model, batch, source_BSD, changed, **options)
    source, prefix = visible(batch, source, prefix)
    assert_same(relevance.source_BTS, source)
    assert_same(relevance.prefix_BTT, prefix)


@pytest.mark.parametrize(
    "name",
    ["gradient_norm", "weighted_gradient", "prediction_difference", "integrated_gradients",
     "shapley", "lime"],
)  # fmt: skip
def test_log_probabilities_with_a_foil_are_those_of_logits(transformer_and_batch, name):
    explainer = load_explainer(name, of="log_probability", foil="second")
    with pytest.raises(NotApplicable, match="needs of=logit"):
        explainer.relevance(*transformer_and_batch)


def test_a_foil_may_be_one_word_in_every_step(transformer_and_batch):
    model, batch = transformer_and_batch
    word = int(batch.labels_BT[0, 0]) + 1
    difference = load_explainer("prediction_difference", foil=word).relevance(model, batch)
    label, foil = (
        load_explainer("prediction_difference").relevance(model, batch.labelled(labels_BT))
        for labels_BT in (batch.labels_BT, torch.full_like(batch.labels_BT, word))
    )
    for side in ("source_BTS", "prefix_BTT"):
        expected = getattr(label, side) - getattr(foil, side)
        torch.testing.assert_close(getattr(difference, side), expected, equal_nan=True)
    with pytest.raises(XnmtError, match="has ids below"):
        load_explainer("gradient_norm", foil=10**6).relevance(model, batch)


def test_a_step_whose_label_is_the_foil_is_not_explained(transformer):
    """In the explanation of two texts that do not translate each other."""
    model, sentences = transformer.system.model, transformer.corpus.sentences("test")
    pair = (next(sentences).source, next(sentences).target)
    [explanation] = load_explainer("gradient_norm", foil="gold")(model, [pair])
    differs = [
        label != word
        for label, word in zip(explanation.labels, explanation.target_tokens, strict=True)
    ]
    assert any(differs) and not all(differs)
    absent_T = explanation.source_TS.isnan().all(1)
    assert absent_T.tolist() == [not d for d in differs]
    assert not explanation.source_TS[~absent_T].isnan().any()
    lines = str(explanation).splitlines()
    assert [line.endswith("  not explained") for line in lines] == absent_T.tolist()


def test_the_foil_is_the_most_probable_word_but_the_label(transformer_and_batch):
    model, batch = transformer_and_batch
    words_BTC = Objective(foil="second").words(model, batch)
    logits_BTV = model(batch)
    top_BT2 = logits_BTV.topk(2).indices
    current = batch.current_BT
    assert torch.equal(words_BTC[current], top_BT2[current])
