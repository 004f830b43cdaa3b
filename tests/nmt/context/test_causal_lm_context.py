"""Language models that read a sentence behind those before it, in their prompt."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from support.huggingface_models import add_separator
from support.language_models import EXAMPLES, TEMPLATE, build
from support.translations import translate_behind_contexts
from xnmt_bench.corpora.passage import Context, Passage
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.vocabulary.subwords import BOS, PAD, SEPARATOR
from xnmt_bench.errors import XnmtError
from xnmt_bench.explainers.base import decide
from xnmt_bench.nmt.causal_lm import open_causal_lm
from xnmt_bench.nmt.context_change import compare_contexts
from xnmt_bench.nmt.decoding import translate
from xnmt_bench.registry import load_explainer

SOURCES, TARGETS = zip(
    *((s.source, s.target) for s in ToyCorpus(train=500).sentences("train")), strict=True
)
PASSAGES = [Passage(SOURCES[n], TARGETS[n], SOURCES[:n], TARGETS[:n]) for n in range(3)]


@pytest.fixture(scope="module", params=["gpt_neox", "llama", "gemma3_text"])
def opened(request, tmp_path_factory):
    """A small model of a family that has learnt nothing, and its tokenizer."""
    folder = tmp_path_factory.mktemp(request.param)
    build(request.param, folder, (SOURCES, TARGETS))
    add_separator(folder, kind=AutoModelForCausalLM)
    model = open_causal_lm(str(folder), TEMPLATE, EXAMPLES, separator="<brk>")
    return model, AutoTokenizer.from_pretrained(folder)


def prompt_of(source: str, target: str) -> str:
    """The whole text that the model reads, by hand."""
    shown = "".join(f"English: {x}\nGerman: {y}\n" for x, y in EXAMPLES)
    return f"{shown}English: {source}\nGerman: {target}\n"


@torch.no_grad()
def test_logits_are_the_models_own_of_the_joined_text(opened):
    model, tokenizer = opened
    sides = ("<brk> ".join(texts[:3]) for texts in (SOURCES, TARGETS))
    x, y = PASSAGES[2].encode(*model.vocabularies)
    assert x.count(SEPARATOR) == y.count(SEPARATOR) == 2
    theirs = model.target_subwords.ids.theirs_V
    between = [*model.between.tolist(), *model.start.tolist()]
    ids = [*model.before.tolist(), *theirs[x[:-1]].tolist(), *between, *theirs[y[:-1]].tolist()]
    # `<brk>` takes the blanks around it.
    text = tokenizer.decode(ids).removeprefix("<bos>")
    assert text.replace(" ", "") == prompt_of(*sides).replace(" ", "").rstrip("\n")
    expected = model.model(input_ids=torch.tensor([ids])).logits[0, -len(y) :]
    states = model.states(model.collate([(x, y), PASSAGES[0].encode(*model.vocabularies)]))[0]
    got = model.logits(states)
    predictable = (got > -torch.inf).all(0)
    difference = (got - expected[:, theirs])[:, predictable]
    assert difference.abs().max() < 1e-4 * expected.abs().max()
    assert not predictable[[PAD, BOS]].any()


@torch.no_grad()
def test_a_translation_goes_on_from_the_context(opened):
    model, _ = opened
    x, y = PASSAGES[1].encode(*model.vocabularies)
    prefix = y[: y.index(SEPARATOR) + 1]
    [translation] = translate(model, [x], beam=1, prefixes=[prefix])
    words = list(prefix)
    for word in translation:
        states = model.states(model.collate([(x, [*words, word])]))[0]
        assert int(model.logits(states[-1]).argmax()) == word
        words.append(word)


@torch.no_grad()
def test_words_of_the_context_have_columns(opened):
    """Prediction difference of one is what the probability loses without its embedding."""
    model, _ = opened
    batch = decide(model, model.collate([p.encode(*model.vocabularies) for p in PASSAGES]))[0]
    relevance = load_explainer("prediction_difference").relevance(model, batch)
    row, step = 2, int(batch.on_host.lengths[2, 1]) - 1
    sides = (model.embed_source(batch.source_BS), model.embed_target(batch.input_BT))

    def probability(side=0, place=None):
        changed = [x.clone() for x in sides]
        if place is not None:
            changed[side][row, place] = 0
        states = model.decode(model.encode(changed[0], batch.layout), changed[1])[row, step]
        return float(model.logits(states).softmax(-1)[batch.labels_BT[row, step]])

    for side, columns in enumerate((relevance.source_BTS, relevance.prefix_BTT)):
        # Of the context's first word; input 0 of the target is BOS.
        loss = probability() - probability(side, side)
        assert columns[row, step, 0] == pytest.approx(loss, abs=1e-5)


def test_translations_do_not_depend_on_the_other_contexts_of_the_batch(opened):
    model, _ = opened
    for beam in (1, 2):
        together, alone = translate_behind_contexts(model, PASSAGES[1:], beam)
        assert together == alone


@torch.no_grad()
def test_words_that_are_never_written_add_nothing_to_a_divergence(opened):
    model, _ = opened
    contexts = [PASSAGES[2].read(Context(count)).encode(*model.vocabularies) for count in (2, 0)]
    changes = compare_contexts(model, contexts, [(0, 1), (0, 0)])
    steps = changes.kl_KT.shape[1]
    p_TV, q_TV = (
        model.logits(model.states(model.collate([pair]))[0][-steps:]).double().softmax(-1)
        for pair in contexts
    )
    assert (p_TV == 0).any()
    expected_T = torch.where(p_TV > 0, p_TV * (p_TV / q_TV).log(), 0.0).sum(-1)
    np.testing.assert_allclose(changes.kl_KT[0], expected_T, rtol=1e-4, atol=1e-6)
    assert not changes.kl_KT[1].any()


def test_separators_that_do_not_fit_the_prompt_are_refused(opened):
    model, tokenizer = opened
    folder = model.tokenizer.name_or_path
    stop = tokenizer.convert_ids_to_tokens(int(model.their_ids[3]))
    for options, message in (
        ({"separator": "<sep>"}, "separator=<sep>: the vocabulary has no such piece"),
        ({"separator": stop}, "ends a target in the template"),
        ({"separator": "<brk>", "columns": "examples"}, "examples there, and no context"),
    ):
        with pytest.raises(XnmtError, match=message):
            open_causal_lm(folder, TEMPLATE, EXAMPLES, **options)
