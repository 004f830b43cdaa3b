"""Hugging Face models under explanation: the three laws for each family, and more."""

import json
import math
import re
import shutil
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from support.configurations import configure
from support.dispatched import count
from support.forked_commands import must_run
from support.huggingface_models import READER, build, teach
from support.pickles import Hostile
from support.systems import double
from xnmt_bench.corpora.sentence import SIDES
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.vocabulary.subwords import BOS, EOS, MARKER, PAD, UNK
from xnmt_bench.errors import XnmtError
from xnmt_bench.explain import explain
from xnmt_bench.explainers.base import decide
from xnmt_bench.metrics.robustness.changes import group_weights
from xnmt_bench.nmt import huggingface
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.blocks import Blocks
from xnmt_bench.nmt.decoding import translate
from xnmt_bench.nmt.huggingface import open_huggingface
from xnmt_bench.overrides import quoted
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.settings import read_settings
from xnmt_bench.registry import load_explainer


@pytest.fixture(scope="session")
def model(family):
    name, folder = family
    return open_huggingface(str(folder), name, **READER[name])


@pytest.fixture(scope="session")
def pairs(model, texts):
    """Some sentences of unlike lengths."""
    ids = [([*model.source_subwords.encode(x), EOS], [*model.target_subwords.encode(y), EOS])
           for x, y in list(zip(*texts, strict=True))[:60]]  # fmt: skip
    return sorted(ids, key=lambda pair: len(pair[1]))[::10]


def theirs(model, pairs, **options):
    """The output of the model's own path from ids, for the padded batch."""
    pad = model.model.config.pad_token_id
    sources = [[*model.before_source, *model.source_ids[x], *model.after_source] for x, _ in pairs]
    inputs = [[*model.before_target, *model.target_ids[y[:-1]]] for _, y in pairs]
    padded = [
        torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True,
                                        padding_value=pad)
        for rows in (sources, inputs)
    ]  # fmt: skip
    mask = torch.zeros_like(padded[0])
    for row, ids in enumerate(sources):
        mask[row, : len(ids)] = 1
    return model.model(
        input_ids=padded[0], attention_mask=mask, decoder_input_ids=padded[1], **options
    )


def test_ids_and_embeddings_are_one_function(model, pairs):
    """Law 1, against the path from ids that translates."""
    batch = Batch.collate(pairs)
    frame = len(model.before_target) - 1
    expected = theirs(model, pairs).logits[:, frame:]
    logits_BTV = model(batch)
    ids = model.target_subwords.ids
    predictable = [i for i in range(len(ids)) if i not in ids.unpredictable]
    for row, (_, y) in enumerate(pairs):
        their_logits = expected[row, : len(y)][:, ids.theirs(predictable)]
        got = logits_BTV[row, : len(y)][:, predictable]
        assert (their_logits - got).abs().max() < 1e-5 * their_logits.abs().max()
    assert (logits_BTV[..., ids.unpredictable] == -math.inf).all()
    # All probability is somewhere: no id of theirs is left out but what is never written.
    never = model.model.generation_config.bad_words_ids or []
    assert len(predictable) == expected.shape[-1] - len(never)
    assert (PAD in ids.unpredictable) == bool(never)


def test_removal_by_attention_leaves_a_word_out_of_every_layer(model, pairs):
    """Prediction difference against a pass that masks one word, and the weights of that pass."""
    model, pair = double(model), pairs[-1:]
    batch, _ = decide(model, Batch.collate(pair))
    explainer = load_explainer("prediction_difference", removal="attention")
    relevance = explainer.relevance(model, batch)
    source, inputs = model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)
    whole_BT = model.log_probability(model.states(batch), batch.labels_BT).exp()
    last = batch.target_BT.shape[1] - 1
    for side, place in (("source", 1), ("prefix", 0), ("prefix", 2)):
        changed, layout = {"source": source.clone(), "prefix": inputs.clone()}, batch.layout
        at = place if side == "source" else place + 1
        changed[side][:, at] = 0
        ids = batch.source_BS if side == "source" else batch.input_BT
        hidden = torch.arange(ids.shape[1])[None] == at
        layout = replace(layout, **{"hidden_BS" if side == "source" else "hidden_BT": hidden})
        encoding = model.encode(changed["source"], layout)
        weights = model.attention(encoding, changed["prefix"])
        side_weights = weights.cross_BLHTS if side == "source" else weights.prefix_BLHTT
        assert side_weights[..., at].abs().max() == 0 < side_weights[..., last, 0].min()
        if side == "source":
            assert model.encoder_attention(changed["source"], layout)[..., at].abs().max() == 0
        without_BT = model.log_probability(weights.states_BTD, batch.labels_BT).exp()
        shown = relevance.source_BTS if side == "source" else relevance.prefix_BTT
        lost_BT = (whole_BT - without_BT)[:, 0 if side == "source" else place + 1 :]
        shown_BT = shown[:, -lost_BT.shape[1] :, place]
        torch.testing.assert_close(shown_BT, lost_BT, rtol=0, atol=1e-10)


def outputs_of_blocks(stack):
    """What each attention block of a stack puts out, noted by hooks while the model runs."""
    kept = {}

    def note(place):
        def hook(module, read, output):
            kept[place] = output[0] if isinstance(output, tuple) else output

        return hook

    def note_input(place):
        def hook(module, read):
            kept[place] = read[0]

        return hook

    if stack.config.model_type == "t5":
        for number, block in enumerate(stack.block):
            for place, part in enumerate(block.layer[:-1]):
                part.register_forward_hook(note((number, place)))
        return kept
    for number, layer in enumerate(stack.layers):
        norms = [layer.self_attn_layer_norm]
        if hasattr(layer, "encoder_attn"):
            norms.append(layer.encoder_attn_layer_norm)
        if stack.config.model_type == "marian":  # behind their blocks
            for place, norm in enumerate(norms):
                norm.register_forward_hook(note((number, place)))
        else:  # before the next block
            for place, norm in enumerate([*norms[1:], layer.final_layer_norm]):
                norm.register_forward_pre_hook(note_input((number, place)))
    return kept


def test_blocks_are_rebuilt_from_their_parts(model, pairs):
    """Residual, vectors and bias; outputs as the model's own modules have them."""
    model = double(model)
    encoder, decoder = (outputs_of_blocks(side) for side in
                        (model.model.get_encoder(), model.model.get_decoder()))  # fmt: skip
    blocks = model.attention_blocks(Batch.collate(pairs))
    assert len(encoder) == len(blocks.encoder) == 2
    assert len(decoder) == 2 * len(blocks.decoder) == 4
    places = [((n, 0), block, encoder) for n, block in enumerate(blocks.encoder)]
    places += [((n, side), block, decoder) for n, both in enumerate(blocks.decoder)
               for side, block in enumerate(both)]  # fmt: skip
    for place, block, kept in places:
        torch.testing.assert_close(block.output_BQD, kept[place], rtol=0, atol=1e-10)
        bias = 0.0 if block.out.bias is None else block.out.bias
        summed = block.input_BQD + block.vectors().sum(2) + bias
        torch.testing.assert_close(summed, block.summed_BQD, rtol=0, atol=1e-10)
        parts = [block.vectors(), block.input_BQD[:, :, None]]
        if block.out.bias is not None:
            parts.append(block.out.bias.expand_as(block.input_BQD)[:, :, None])
        output = block.normed(torch.cat(parts, dim=2)).sum(2)
        if block.norm is not None:
            output = output + block.norm.bias
        torch.testing.assert_close(output, block.output_BQD, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["alti", "value_zeroing"])
def test_shares_and_those_of_the_frame_sum_to_1(model, pairs, name, monkeypatch):
    """Over all states; what is kept are those of words, from the first on."""
    model, kept = double(model), {}
    of_words = Blocks.of_words

    def note(blocks, from_states):
        kept["states"] = from_states
        return of_words(blocks, from_states)

    monkeypatch.setattr(Blocks, "of_words", note)
    batch, _ = decide(model, Batch.collate(pairs[-1:]))
    relevance = load_explainer(name).relevance(model, batch)
    # Of the last decoder layer, which is the default.
    total = kept["states"].sum(-1)
    torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=1e-9)
    before, framed = len(model.before_source), len(model.before_target) - 1
    words, steps = len(pairs[-1][0]), len(pairs[-1][1])
    rows_TX, encoded = kept["states"][0, framed:], words + before + len(model.after_source)
    assert torch.equal(relevance.source_BTS[0], rows_TX[:, before : before + words])
    assert rows_TX.shape[1] == encoded + framed + steps
    # Word 0 is input 1, behind the frame and BOS.
    last = rows_TX[-1, encoded + framed + 1 :]
    assert torch.equal(relevance.prefix_BTT[0, -1, : steps - 1], last)


def test_attention_is_the_models_own(model, pairs):
    batch = Batch.collate(pairs)
    encoding = model.encode(model.embed_source(batch.source_BS), batch.layout)
    weights = model.attention(encoding, model.embed_target(batch.input_BT))
    encoder = model.encoder_attention(model.embed_source(batch.source_BS), batch.layout)
    outputs = theirs(model, pairs, output_attentions=True)
    before, frame = len(model.before_source), len(model.before_target) - 1
    for row, (x, y) in enumerate(pairs):
        words = slice(before, before + len(x))
        expected = torch.stack(outputs.encoder_attentions)[:, row, :, words, words]
        got = encoder[row, :, :, : len(x), : len(x)]
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
        assert (encoder[row, :, :, : len(x), len(x) :] == 0).all()
        cross = torch.stack(outputs.cross_attentions)[:, row, :, frame : frame + len(y)]
        expected = cross[..., before : before + len(x)]
        got = weights.cross_BLHTS[row, :, :, : len(y)]
        torch.testing.assert_close(got[..., : len(x)], expected, rtol=1e-4, atol=1e-5)
        assert (got[..., len(x) :] == 0).all()
        expected = torch.stack(outputs.decoder_attentions)[:, row, :, frame : frame + len(y)]
        torch.testing.assert_close(
            weights.prefix_BLHTT[row, :, :, : len(y), : len(y)],
            expected[..., frame : frame + len(y)], rtol=1e-4, atol=1e-5,
        )  # fmt: skip


def test_the_search_is_the_models_own(family, model, texts):
    """Greedy decoding as `generate` does it, languages and forced first ids included."""
    name, folder = family
    sentences = texts[0][:6]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prefix = READER[name].get("prefix", "")
    translations = translate(
        model, [[*model.source_subwords.encode(text), EOS] for text in sentences], beam=1
    )
    for text, translation in zip(sentences, translations, strict=True):
        forced = {"decoder_start_token_id": int(model.before_target[0])}
        frame = len(model.before_target)
        if frame > 1:
            forced["forced_bos_token_id"] = int(model.before_target[1])
        generated = model.model.generate(
            **tokenizer(prefix + text, return_tensors="pt"), num_beams=1, do_sample=False,
            forced_eos_token_id=None, max_new_tokens=len(translation) + frame - 1,
            # What is never a word of a translation here, which a random model might choose.
            bad_words_ids=[[model.model.config.pad_token_id], [int(model.before_target[-1])]],
            **forced,
        )[0].tolist()  # fmt: skip
        assert generated[frame:] == model.target_subwords.ids.theirs(translation)


@pytest.mark.filterwarnings("error::FutureWarning")
def test_transformers_warns_of_nothing_that_it_will_remove(family, texts):
    """Opening, translating with kept keys and values, and explaining."""
    name, folder = family
    model = open_huggingface(str(folder), name, **READER[name])
    source = [*model.source_subwords.encode(texts[0][0]), EOS]
    [target] = translate(model, [source], beam=2)
    batch, _ = decide(model, Batch.collate([(source, target)]))
    assert load_explainer("prediction_difference").relevance(model, batch).source_BTS.any()


def test_what_forks_reads_the_source_as_it_was_kept(model, pairs):
    """Keys of the source are computed once for all that goes on from a prefix."""
    batch, calls = Batch.collate(pairs), []
    prefix = model.prefix(model.encode(model.embed_source(batch.source_BS), batch.layout))
    input_BTD = model.embed_target(batch.input_BT)
    keys = re.compile(r"(encoder_attn\.k_proj|EncDecAttention\.k)$")
    key_layers = [m for name, m in model.named_modules() if keys.search(name)]
    hooks = [m.register_forward_pre_hook(lambda *_: calls.append(1)) for m in key_layers]
    prefix.read(input_BTD[:, :2])
    assert len(calls) == len(key_layers) == 2  # layers
    prefix.fork(2, torch.tensor([0, 0, 1])).read(input_BTD[[0, 0, 1], 2:4])
    assert len(calls) == 2
    for hook in hooks:
        hook.remove()


def test_text_comes_back(model, texts):
    for side, sentences in zip((model.source_subwords, model.target_subwords), texts, strict=True):
        for text in sentences[:20]:
            ids = side.encode(text)
            assert not {PAD, BOS, EOS} & set(ids)
            assert max(side.words(ids)) == len(text.split()) - 1
    assert (
        model.target_subwords.decode([*model.target_subwords.encode(texts[1][0]), EOS])
        == (texts[1][0])
    )
    assert UNK in model.source_subwords.encode("漢")
    assert EOS not in model.source_subwords.encode("an </s> in the text")


def test_the_fingerprint_knows_weights_and_languages(family, model, tmp_path):
    name, folder = family
    shutil.copytree(folder, tmp_path / "copy")
    again = open_huggingface(str(tmp_path / "copy"), name, **READER[name])
    assert again.fingerprint == model.fingerprint
    assert again.source_subwords.fingerprint == model.source_subwords.fingerprint
    if name == "m2m100":
        other = open_huggingface(str(folder), name, source_language="fr", target_language="de")
        assert other.fingerprint != model.fingerprint
    inner = again.model
    next(iter(inner.parameters())).data.add_(0.01)
    inner.save_pretrained(tmp_path / "copy")
    changed = open_huggingface(str(tmp_path / "copy"), name, **READER[name])
    assert changed.fingerprint != model.fingerprint


@pytest.fixture(scope="session")
def marian(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("marian_alone")
    build("marian", folder, texts)
    return folder


def test_marians_decoder_scales_embeddings_that_were_scaled(marian, texts):
    """The trap: fed as the encoder is, the decoder is another function; ours is the same one."""
    model = open_huggingface(str(marian), "marian")
    pairs = [(model.source_subwords.encode(texts[0][0]), model.target_subwords.encode(texts[1][0]))]
    batch = Batch.collate(pairs)
    source, inputs = model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)
    naive = model.model(inputs_embeds=source, decoder_inputs_embeds=inputs).logits
    by_ids = theirs(model, pairs).logits
    assert (naive - by_ids).abs().max() > 2
    logits = model(batch)
    possible = logits.isfinite()
    difference = logits - by_ids.index_select(-1, model.target_ids)
    assert difference[possible].abs().max() < 1e-5 * by_ids.abs().max()
    assert possible.sum() > 0.9 * possible.numel()


def test_a_model_that_is_not_a_number_is_refused(marian, tmp_path):
    shutil.copytree(marian, tmp_path / "broken")
    weights = load_file(tmp_path / "broken" / "model.safetensors")
    weights["model.decoder.layers.0.fc1.weight"][0, 0] = math.nan
    save_file(weights, tmp_path / "broken" / "model.safetensors", {"format": "pt"})
    with pytest.raises(XnmtError, match="other logits from embeddings than from ids"):
        open_huggingface(str(tmp_path / "broken"), "marian")


def test_code_of_a_model_is_not_run(tmp_path, monkeypatch):
    """Nor is the user asked whether it may be."""
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    described = {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Config"}}
    (tmp_path / "config.json").write_text(json.dumps(described))
    with pytest.raises(XnmtError, match="not a model of marian"):
        open_huggingface(str(tmp_path), "marian")
    assert not (tmp_path / "ran").exists()


def test_the_frame_of_an_older_nllb(tmp_path, texts):
    """Codes behind the sentence instead of before it; the decoder starts alike."""
    build("nllb", tmp_path, texts)
    new = open_huggingface(str(tmp_path), "nllb", **READER["nllb"])
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"legacy_behaviour": True}))
    old = open_huggingface(str(tmp_path), "nllb", **READER["nllb"])
    assert old.before_target.tolist() == new.before_target.tolist()
    assert old.after_source.tolist() == new.before_source.tolist()
    assert len(old.before_source) == 0


def test_a_model_of_two_functions_is_refused(marian, monkeypatch):
    monkeypatch.setattr(huggingface, "_scale", lambda stack: 1.0)
    with pytest.raises(XnmtError, match="other logits from embeddings than from ids"):
        open_huggingface(str(marian), "marian")


def test_what_cannot_be_opened_is_said(marian, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(XnmtError, match="of type marian, not t5"):
        open_huggingface(str(marian), "t5", prefix="x")
    with pytest.raises(XnmtError, match=r"^nobody/nothing: neither a folder"):
        open_huggingface("nobody/nothing", "marian")
    with pytest.raises(XnmtError, match="unknown family 'opus'"):
        open_huggingface(str(marian), "opus")
    with pytest.raises(XnmtError, match="not a model of marian"):
        open_huggingface(str(tmp_path), "marian")
    shutil.copytree(marian, tmp_path / "broken")
    weights = tmp_path / "broken" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:2000])
    with pytest.raises(XnmtError, match="broken"):
        open_huggingface(str(tmp_path / "broken"), "marian")


def test_weights_that_are_missing_are_no_random_ones(marian, tmp_path):
    shutil.copytree(marian, tmp_path / "part")
    weights = load_file(tmp_path / "part" / "model.safetensors")
    del weights["model.decoder.layers.0.fc1.weight"]
    save_file(weights, tmp_path / "part" / "model.safetensors", {"format": "pt"})
    with pytest.raises(XnmtError, match=r"weights model.decoder.layers.0.fc1.weight are missing"):
        open_huggingface(str(tmp_path / "part"), "marian")


def test_a_pickle_is_not_executed(marian, tmp_path):
    """Older models have their weights as a pickle, which may hold tensors and nothing else."""
    shutil.copytree(marian, tmp_path / "pickled")
    weights = load_file(tmp_path / "pickled" / "model.safetensors")
    (tmp_path / "pickled" / "model.safetensors").unlink()
    path = tmp_path / "pickled" / "pytorch_model.bin"
    torch.save(weights, path)
    assert open_huggingface(str(tmp_path / "pickled"), "marian")
    torch.save({**weights, "hostile": Hostile(tmp_path / "ran")}, path)
    with pytest.raises(XnmtError, match="pickled"):
        open_huggingface(str(tmp_path / "pickled"), "marian")
    assert not (tmp_path / "ran").exists()


def test_a_t5_is_told_its_task(tmp_path, texts):
    build("t5", tmp_path, texts)
    with pytest.raises(XnmtError, match=r"give nmt.reader.prefix"):
        open_huggingface(str(tmp_path), "t5")
    assert len(open_huggingface(str(tmp_path), "t5", prefix="").before_source) == 0


def test_weights_are_grouped_from_the_output_down(family, model):
    """Each in one group, but for positions that are not learnt."""
    groups = group_weights(model)
    names = [name for members in groups.values() for name in members]
    left_out = {name for name, _ in model.named_parameters()} - set(names)
    assert len(set(names)) == len(names)
    assert bool(left_out) == (family[0] == "marian")
    assert all("embed_positions" in name for name in left_out)
    layers = [name for name in groups if name[-1].isdigit()]
    sides = [name.split(".")[-2] for name in layers]
    assert sides == ["decoder"] * 2 + ["encoder"] * 2
    assert [name[-1] for name in layers] == ["1", "0"] * 2
    assert [*groups][-1] == "embeddings"
    assert [*groups][:1] == (layers[:1] if family[0] == "marian" else ["output"])


@pytest.mark.long
def test_the_whole_pipeline_on_a_trained_marian(tmp_path):
    """What a user does: a model of theirs, a corpus, two commands, a table."""
    pairs = [(s.source, s.target) for s in ToyCorpus(train=2000).sentences("train")]
    build("marian", tmp_path / "mine", tuple(map(list, zip(*pairs, strict=True))), 64, wild=False)
    teach(tmp_path / "mine", pairs, steps=120)
    shared = ["nmt=marian", f"nmt.path={tmp_path}/mine", f"store={tmp_path}/store", "threads=1",
              "corpus.train=2000", "corpus.test=60", f"results={tmp_path}/results"]  # fmt: skip
    must_run(
        "train.py", "-m", *shared, "explainer=prediction_difference,attention,random",
        "rules.train_sentences=200", "proxy.training.max_epochs=5",
        "proxy.sizes.dimension=64",
        "trainer.progress_bar=false", cwd=tmp_path,
    )  # fmt: skip
    must_run("evaluate.py", *shared, cwd=tmp_path)
    lines = (tmp_path / "results" / "fidelity.csv").read_text().splitlines()
    columns = lines[0].split(",")
    rows = [dict(zip(columns, line.split(","), strict=False)) for line in lines[1:]]
    assert all(r["status"] == "ok" and float(r["ppl"]) > 1 for r in rows)
    explainers = {r["explainer"] for r in rows if r["instantiation"] == "sa" and r["hit_at_k"]}
    assert explainers == {"prediction_difference", "attention", "random"}
    explained = must_run("evaluate.py", *shared, "explain=the dog sleeps .", cwd=tmp_path)
    assert "prediction difference" in explained.stdout
    assert "alti" in explained.stdout
    assert explained.stdout.count("n/a") == explained.stdout.count("cp_lrp: n/a") == 1


def test_a_model_without_separators_reads_no_context(marian, tmp_path):
    from xnmt_bench.pipeline.job import Job

    changes = ["nmt=marian", f"nmt.path={marian}", f"store={tmp_path}", "nmt.context.sentences=2"]
    with pytest.raises(XnmtError, match="has no separator of sentences"):
        Job(configure(*changes)).system.model  # noqa: B018


def test_the_corpus_tells_the_languages(tmp_path, texts):
    """Also when it is reversed."""
    from xnmt_bench.pipeline.job import Job

    build("mbart", tmp_path / "mine", texts)
    described = json.loads((tmp_path / "mine" / "tokenizer_config.json").read_text())
    assert described["src_lang"] == "en_XX"
    changes = ["nmt=mbart", f"nmt.path={tmp_path}/mine", f"store={tmp_path}", "corpus.train=50"]
    codes, tokenizer = [], AutoTokenizer.from_pretrained(tmp_path / "mine")
    for turned in ("false", "true"):
        model = Job(configure(*changes, f"corpus.reversed={turned}")).system.model
        codes.append([tokenizer.convert_ids_to_tokens(int(model.after_source[0])),
                      tokenizer.convert_ids_to_tokens(int(model.before_target[0]))])  # fmt: skip
    languages = (ToyCorpus().source_language, ToyCorpus().target_language)
    first = [next(c for c in codes[0] + codes[1] if c.startswith(f"{x}_")) for x in languages]
    assert codes == [first, first[::-1]]


def test_a_sentence_of_no_corpus_has_its_languages_named(tmp_path, texts, capsys, caplog):
    """The toy corpus is the default: German would be read as its English."""
    build("mbart", tmp_path / "mine", texts)
    model = ["nmt=mbart", f"nmt.path={tmp_path}/mine", f"store={tmp_path}", f"results={tmp_path}"]
    german = [*model, "explain=der Hund schläft .", "explain_target=the dog sleeps ."]
    with pytest.raises(XnmtError) as error:
        explain(read_settings(configure(*map(quoted, german))))
    line = "this model reads many languages: give nmt.reader.source_language"
    assert str(error.value).splitlines()[-1] == line
    named = ["nmt.reader.source_language=de", "nmt.reader.target_language=en"]
    with caplog.at_level("INFO"):
        explain(read_settings(configure(*map(quoted, german), *named)))
    assert f"mbart reads de_DE and writes en_XX: {tmp_path}/mine" in caplog.messages
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "source (de_DE): der Hund schläft ."
    assert second == "target (en_XX): the dog sleeps ."


def test_what_is_longer_than_a_models_positions_is_named(family, model):
    """Families without a table compute positions for any length."""
    long = [5] * 140  # of 128 positions
    has_table = family[0] in ("marian", "mbart")
    for side, pair in (("source", ([*long, EOS], [5, EOS])), ("target", ([5, EOS], [*long, EOS]))):
        refused = pytest.raises(XnmtError, match=rf"a {side} of 14\d subwords; .* 128 at most")
        with refused if has_table else nullcontext():
            model(Batch.collate([pair]))


def test_rules_positions_are_of_the_sentence(model, pairs):
    """Relevance is over the sentence's own ids; the frame has no column."""
    batch, _ = decide(model, Batch.collate(pairs))
    relevance = load_explainer("prediction_difference").relevance(model, batch)
    assert relevance.source_BTS.shape == (*batch.target_BT.shape, batch.source_BS.shape[1])
    assert np.isfinite(relevance.source_BTS[0, 0, : len(pairs[0][0])]).all()


# Training further ---------------------------------------------------------------------------


def test_a_marian_is_fine_tuned_with_markers(workplace, tmp_path):
    """It is saved as `save_pretrained` does, and `transformers` alone gives the same logits."""
    sentences = list(ToyCorpus(train=200).sentences("train"))
    build("marian", tmp_path / "m", tuple([getattr(s, side) for s in sentences] for side in SIDES))
    changes = [
        "nmt=marian", "corpus.train=200", "corpus.valid=10", "corpus.test=10", "nmt.beam=1",
        "nmt.coreference.resolver=gold", "trainer.progress_bar=false", "device=cpu",
        f"store={tmp_path}/store",
    ]  # fmt: skip
    tuned = [
        f"nmt.initial={tmp_path}/m", "nmt.training.examples=gender",
        "nmt.training.markers=inline", "nmt.training.max_updates=4",
        "nmt.training.batch_sentences=8",
    ]  # fmt: skip
    job = Job(configure(*changes, *tuned))
    assert job.system.name == "marian on gender with predicted markers"
    assert all(part.training for part in job.system.training.build().modules())  # with dropout
    folder, model = job.system.path, job.system.model
    source, target = model.vocabularies
    marked, plain = "the <ENT1> dog </ENT1> <ENT2> likes </ENT2> it .", "the dog likes it ."
    pieces = source.pieces(source.encode(marked))
    assert [p for p in pieces if "ENT" not in p] == source.pieces(source.encode(plain))
    assert pieces.count("<ENT1>") == 1 and "▁" not in pieces
    words = source.words(source.encode(marked))
    assert [w for w in words if w >= 0] == source.words(source.encode(plain))
    assert source.decode(source.encode(marked)) == source.decode(source.encode(plain))

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    alone = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    texts = tokenizer(marked, text_target="der Hund", return_tensors="pt")
    start = torch.tensor([[alone.config.decoder_start_token_id]])
    inputs = torch.cat([start, texts.labels[:, :-1]], dim=1)
    with torch.no_grad():
        their_logits = alone(input_ids=texts.input_ids, decoder_input_ids=inputs).logits
    pair = ([*source.encode(marked), EOS], [*target.encode("der Hund"), EOS])
    our_logits = model(Batch.collate([pair]))
    possible = our_logits.isfinite()
    torch.testing.assert_close(
        our_logits[possible], their_logits[..., model.target_ids][possible], rtol=0, atol=1e-5
    )
    # A marker is never written, here and there.
    assert not possible[..., sorted(target.markers)].any()
    written = alone.generate(texts.input_ids, max_new_tokens=20)
    assert not MARKER.search(tokenizer.decode(written[0]))
    again = Job(configure(*changes, f"nmt.path={folder}"))
    assert again.outputs().texts == job.outputs().texts


def test_families_that_are_not_trained_here(tmp_path):
    changes = ["nmt=m2m100", "nmt.path=null", f"nmt.initial={tmp_path}", f"store={tmp_path}"]
    job = Job(configure(*changes, "device=cpu"))
    with pytest.raises(
        XnmtError, match="marian is the only Hugging Face family that can be trained here"
    ):
        _ = job.system.trained.artefact


def test_steps_walk_back_together_through_every_layer(model, pairs):
    batch = decide(model, model.collate(pairs))[0]
    counted = count(lambda: load_explainer("gradient_norm").relevance(model, batch))
    # torch walks back through these from one step after another.
    assert not counted.operations.keys() & {"_softmax_backward_data", "native_layer_norm_backward"}
