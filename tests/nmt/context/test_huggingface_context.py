"""Models of Hugging Face that read a sentence behind those before it."""

import pytest
import torch
from transformers import AutoTokenizer

from support.configurations import configure
from support.huggingface_models import READER, add_separator, build
from support.translations import translate_behind_contexts
from xnmt_bench.corpora.passage import Context, Passage
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.vocabulary.subwords import BOS, EOS, PAD, SEPARATOR, UNK
from xnmt_bench.errors import XnmtError
from xnmt_bench.explainers.base import decide
from xnmt_bench.nmt.decoding import translate
from xnmt_bench.nmt.huggingface import open_huggingface
from xnmt_bench.nmt.passages import tie_passages
from xnmt_bench.pipeline.job import Job
from xnmt_bench.registry import load_explainer


@pytest.fixture(scope="module")
def texts():
    sentences = [*ToyCorpus(train=500).sentences("train")]
    return [s.source for s in sentences], [s.target for s in sentences]


@pytest.fixture(scope="module", params=READER)
def opened(request, tmp_path_factory, texts):
    """A small model of a family that has learnt nothing, and its tokenizer."""
    family, folder = request.param, tmp_path_factory.mktemp(request.param)
    build(family, folder, texts)
    add_separator(folder)
    model = open_huggingface(str(folder), family, separator="<brk>", **READER[family])
    return model, AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def marian(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("marian_in_context")
    build("marian", folder, texts)
    add_separator(folder)
    return folder


def passage_of(texts, count):
    """The sentence behind so many others."""
    sources, targets = texts
    return Passage(sources[count], targets[count], sources[:count], targets[:count])


def test_a_concatenation_has_the_tokenizers_own_ids(opened, texts):
    model, tokenizer = opened
    source, target = passage_of(texts, 2).encode(*model.vocabularies)
    for side, ids, subwords in (
        (0, source, model.source_subwords),
        (1, target, model.target_subwords),
    ):
        key = ("text", "text_target")[side]
        expected = tokenizer(**{key: "<brk>".join(texts[side][:3])}, add_special_tokens=False)[
            "input_ids"
        ]
        assert subwords.ids.theirs(ids) == [*expected, tokenizer.eos_token_id]


@torch.no_grad()
def test_logits_are_the_models_own(opened, texts):
    model, tokenizer = opened
    x, y = passage_of(texts, 2).encode(*model.vocabularies)
    brk = tokenizer.convert_tokens_to_ids("<brk>")
    source, target = (
        side.ids.theirs(ids) for side, ids in zip(model.vocabularies, (x, y), strict=True)
    )
    assert source.count(brk) == target.count(brk) == 2
    ids = [*model.before_source.tolist(), *source, *model.after_source.tolist()]
    inputs = [*model.before_target.tolist(), *target[:-1]]
    expected = model.model(
        input_ids=torch.tensor([ids]), decoder_input_ids=torch.tensor([inputs])
    ).logits[0, -len(y) :]
    states = model.states(model.collate([(x, y)]))[0]
    got = model.logits(states)
    theirs = model.target_subwords.ids.theirs_V
    predictable = (got > -torch.inf).all(0)
    difference = (got - expected[:, theirs])[:, predictable]
    assert difference.abs().max() < 1e-4 * expected.abs().max()
    # The start is no word that may be written, unless it is another special piece.
    start = int(model.before_target[-1])
    ours = (theirs == start).nonzero()[:, 0].tolist()
    assert all(not predictable[i] or i in (PAD, UNK, EOS) for i in ours)


@torch.no_grad()
def test_a_translation_goes_on_from_the_context(opened, texts):
    model, _ = opened
    x, y = passage_of(texts, 1).encode(*model.vocabularies)
    prefix = y[: y.index(SEPARATOR) + 1]
    [translation] = translate(model, [x], beam=1, prefixes=[prefix])
    ids = [*model.before_source.tolist(), *model.source_subwords.ids.theirs(x)]
    ids += model.after_source.tolist()
    inputs = [*model.before_target.tolist(), *model.target_subwords.ids.theirs(prefix)]
    never = [PAD, BOS, *model.target_subwords.ids.unpredictable]
    words, got = [], translation
    for _ in got:
        logits = model.model(
            input_ids=torch.tensor([ids]), decoder_input_ids=torch.tensor([inputs])
        ).logits[0, -1]
        ours = logits[model.target_subwords.ids.theirs_V]
        ours[never] = -torch.inf
        words.append(int(ours.argmax()))
        inputs.append(int(model.target_subwords.ids.theirs_V[words[-1]]))
    assert got == words


def test_translations_do_not_depend_on_the_other_contexts_of_the_batch(opened, texts):
    model, _ = opened
    for beam in (1, 2):
        together, alone = translate_behind_contexts(
            model, [passage_of(texts, count) for count in (1, 2)], beam
        )
        assert together == alone


def test_words_of_the_context_have_columns(opened, texts):
    """Prediction difference of one is what the probability loses without its embedding."""
    model, _ = opened
    batch = decide(model, model.collate([passage_of(texts, 1).encode(*model.vocabularies)]))[0]
    relevance = load_explainer("prediction_difference").relevance(model, batch)
    step = batch.target_BT.shape[1] - 2
    source_BSD, input_BTD = model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)

    @torch.no_grad()
    def probability():
        states = model.decode(model.encode(source_BSD, batch.layout), input_BTD)[0, step]
        return float(model.logits(states).softmax(-1)[batch.labels_BT[0, step]])

    whole = probability()
    source_BSD[:, 0] = 0
    assert relevance.source_BTS[0, step, 0] == pytest.approx(whole - probability(), abs=1e-5)
    source_BSD = model.embed_source(batch.source_BS)
    input_BTD[:, 1] = 0  # the first word, behind BOS
    assert relevance.prefix_BTT[0, step, 0] == pytest.approx(whole - probability(), abs=1e-5)


def test_a_context_that_is_too_long_loses_its_farthest_sentences(marian, texts, caplog):
    model = open_huggingface(str(marian), "marian", separator="<brk>")
    passage = passage_of(texts, 40)
    [(source, target)] = tie_passages(model, [passage])
    count = source.ids.count(SEPARATOR)
    assert 0 < count < 40 and target.ids.count(SEPARATOR) == count
    assert len(source.ids) <= model.longest_source
    nearest = passage.read(Context(count + 1)).encode(*model.vocabularies)
    limits = (model.longest_source, model.longest_target)
    assert any(len(ids) > most for ids, most in zip(nearest, limits, strict=True))
    assert "farthest sentences are left out" in caplog.text


def test_a_corpus_is_read_in_context(marian, tmp_path, texts, caplog):
    changes = [
        "nmt=marian", f"nmt.path={marian}", "nmt.reader.separator='<brk>'", f"store={tmp_path}",
        "nmt.context.sentences=3", "corpus=toy_discourse", "corpus.train=30", "corpus.valid=5",
        "corpus.test=20",
    ]  # fmt: skip
    job = Job(configure(*changes))
    split = job.system.texts.split("test")
    assert max((split.source[i] == SEPARATOR).sum() for i in range(len(split))) == 3
    assert job.system.reading["context"] == "3 before on both sides"
    source = Job(configure(*changes, "nmt.context.target=false")).system.texts.split("test")
    assert all(SEPARATOR not in source.target[i] for i in range(len(source)))


def test_a_separator_that_is_no_piece_is_refused(marian):
    with pytest.raises(XnmtError, match="separator=<sep>: the vocabulary has no such piece"):
        open_huggingface(str(marian), "marian", separator="<sep>")


def test_contexts_are_as_long_as_the_model_reads(marian, tmp_path, monkeypatch):
    """Not as long as one sentence may be, which is longer in one case and shorter in the other."""
    for most, length in ((30, 29), (30, 40), (80, 40)):
        job = Job(configure(
            "nmt=marian", f"nmt.path={marian}", "nmt.reader.separator='<brk>'",
            f"store={tmp_path}", "nmt.context.sentences=3", f"corpus.max_length={length}",
            "corpus=toy_discourse", "corpus.train=30", "corpus.valid=5", "corpus.test=20",
        ))  # fmt: skip
        for side in ("source", "target"):
            monkeypatch.setattr(job.system.model, f"longest_{side}", most)
        lengths = job.system.texts.split("test").source.lengths()
        assert (lengths.max() > 40) == (most > 40) and lengths.max() <= most
