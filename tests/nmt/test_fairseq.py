"""fairseq's systems, read without fairseq, against what fairseq itself computed of them.

The fixtures were trained and recorded by `make fairseq`.
"""

import argparse
import codecs
import shutil
import subprocess
import sys
from collections import Counter
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from support.fairseq_models import FIXTURES, LANGUAGES, open_fixture
from support.forked_commands import must_run
from support.model_checks import (
    assert_reads_as_decode,
    assert_same_relevance,
    assert_scores_alike,
    assert_untouched,
    state_of,
)
from support.pickles import Hostile
from support.systems import double
from xnmt_bench.corpora.formats.fairseq import THEIR_PAD
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.vocabulary.subwords import BOS, EOS, PAD, UNK
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.explainers.base import decide
from xnmt_bench.explainers.gradient import SharedPass
from xnmt_bench.explainers.objective import Objective
from xnmt_bench.nmt.base import Reader
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.decoding import translate
from xnmt_bench.nmt.fairseq.opening import open_fairseq
from xnmt_bench.nmt.fairseq.subwords import DictionarySubwords, open_codes, read_vocabulary
from xnmt_bench.registry import load_explainer

SYSTEMS = sorted(
    path.name for path in FIXTURES.iterdir() if (path / "outputs.safetensors").exists()
)
CLOSE = 1e-5  # of the largest value


@pytest.fixture(scope="module", params=SYSTEMS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def fairseq_model(name):
    return open_fixture(name)


@pytest.fixture(scope="module")
def recorded(name):
    return load_file(FIXTURES / name / "outputs.safetensors")


@pytest.fixture(scope="module")
def recorded_batch(fairseq_model, recorded):
    """The recorded batch in our numbers; fairseq pads sources on the left."""
    sides = []
    for side in ("source", "target"):
        numbering = getattr(fairseq_model, f"{side}_subwords").ids
        # Of BOS and EOS, which share a number there, EOS is the later one.
        our_id_of = {
            their_id: our_id for our_id, their_id in enumerate(numbering.theirs_V.tolist())
        }
        sides.append(
            [[our_id_of[i] for i in row[row != THEIR_PAD].tolist()] for row in recorded[side]]
        )
    return Batch.collate(list(zip(*sides, strict=True)))


def places(name, source):
    """Where fairseq has the words of a source, padded on the left; its LSTMs turn that first."""
    words = source != THEIR_PAD
    return words.flip(0) if name.startswith("lstm") else words


def test_variants_of_a_source_score_as_each_does_alone(fairseq_model, recorded_batch):
    rows = zip(recorded_batch.source_BS, recorded_batch.target_BT, strict=True)
    assert_scores_alike(
        fairseq_model, [(x[x != PAD].numpy(), y[y != PAD].numpy()) for x, y in rows]
    )


def test_a_prefix_reads_and_forks_as_the_whole_is_decoded(fairseq_model, recorded_batch):
    assert_reads_as_decode(fairseq_model, recorded_batch, tolerance=1e-5)


def close(actual, expected):
    assert actual.shape == expected.shape
    assert expected.abs().max() > 0
    assert (actual - expected).abs().max() <= CLOSE * expected.abs().max()


def test_there_are_both_families():
    assert {"transformer", "transformer_pre_norm", "lstm", "lstm_shared"} == set(SYSTEMS)


def test_logits_are_fairseqs(fairseq_model, recorded_batch, recorded):
    ids = fairseq_model.target_subwords.ids
    predictable = [i for i in range(len(ids)) if i not in ids.unpredictable]
    recorded_logits = recorded["logits"][..., ids.theirs(predictable)]
    mask = recorded_batch.target_mask_BT
    close(fairseq_model(recorded_batch)[..., predictable][mask], recorded_logits[mask])
    assert len(predictable) == recorded["logits"].shape[-1]


def test_attention_is_fairseqs(name, fairseq_model, recorded_batch, recorded):
    encoding = fairseq_model.encode(
        fairseq_model.embed_source(recorded_batch.source_BS), recorded_batch.layout
    )
    weights = fairseq_model.attention(encoding, fairseq_model.embed_target(recorded_batch.input_BT))
    last_layer = weights.cross_BLHTS[:, -1].mean(1)  # it records the last layer's mean over heads
    for row, source in enumerate(recorded["source"]):
        words = places(name, source)
        steps = recorded_batch.target_mask_BT[row]
        close(last_layer[row][steps][:, : words.sum()], recorded["attention"][row][steps][:, words])


def test_gradients_are_fairseqs(name, fairseq_model, recorded_batch, recorded):
    """Of the sum of every step's first choice; theirs enters before the scaling of embeddings."""
    labelled, _ = decide(fairseq_model, recorded_batch)
    three_steps = 3 * labelled.target_BT.numel()
    # In float64, so that only their rounding is between both.
    shared = SharedPass(double(fairseq_model), labelled, three_steps, Objective())
    parts = []
    for steps in chain.from_iterable(shared.chunks()):
        of_source, of_inputs = shared.gradient(steps)
        parts += zip(of_source, of_inputs, strict=True)
    mask = recorded_batch.target_mask_BT
    for row in range(len(mask)):
        length = int(mask[row].sum())
        scale = getattr(fairseq_model, "scale", 1.0)
        source, inputs = (
            scale * torch.stack([p[side][row] for p in parts[:length]]).sum(0) for side in (0, 1)
        )
        words = places(name, recorded["source"][row])
        for gradient, expected in (
            (source[: words.sum()], recorded["source_gradient"][row][words]),
            (inputs[:length], recorded["input_gradient"][row][:length]),
        ):
            largest = recorded["source_gradient"].abs().max()
            assert (gradient - expected).abs().max() <= CLOSE * largest


@pytest.mark.parametrize(
    "explainer", ["gradient_norm", "weighted_gradient", "prediction_difference"]
)
def test_a_sentence_does_not_depend_on_its_batch(fairseq_model, recorded_batch, explainer):
    phi, exact = load_explainer(explainer), double(fairseq_model)
    together, _ = decide(exact, recorded_batch)
    batched = phi.relevance(exact, together)
    for row in range(len(recorded_batch.target_BT)):
        s, t = (
            int(recorded_batch.source_mask_BS[row].sum()),
            int(recorded_batch.target_mask_BT[row].sum()),
        )
        single = Batch(
            recorded_batch.source_BS[row : row + 1, :s], recorded_batch.target_BT[row : row + 1, :t]
        )
        alone = phi.relevance(exact, decide(exact, single)[0])
        assert_same_relevance(batched.source_BTS[row, :t, :s], alone.source_BTS[0], 1.0)
        assert_same_relevance(batched.prefix_BTT[row, :t, :t], alone.prefix_BTT[0], 1.0)


@pytest.mark.parametrize("explainer", ["attention", "gradient_norm", "prediction_difference"])
def test_a_model_leaves_an_explainer_as_it_entered(fairseq_model, recorded_batch, explainer):
    before = state_of(fairseq_model)
    load_explainer(explainer).relevance(fairseq_model, decide(fairseq_model, recorded_batch)[0])
    assert_untouched(before, fairseq_model)


def test_the_reader_reads_as_the_plain_one(fairseq_model, recorded_batch):
    encoding = fairseq_model.encode(
        fairseq_model.embed_source(recorded_batch.source_BS), recorded_batch.layout
    )
    plain, fast = Reader(fairseq_model, encoding), fairseq_model.reader(encoding)
    rows = torch.tensor([2, 2, 0])
    for ids in recorded_batch.input_BT[:, :3].split(1, dim=1):
        torch.testing.assert_close(fast.read(ids), plain.read(ids), rtol=1e-4, atol=1e-5)
    for reader in (plain, fast):
        reader.select(rows)
    ids = torch.tensor([[7], [8], [9]])
    torch.testing.assert_close(fast.read(ids), plain.read(ids), rtol=1e-4, atol=1e-5)


def test_text_comes_back(fairseq_model):
    for sentence in list(ToyCorpus(test=30).sentences("test")):
        for side, text in ((fairseq_model.source_subwords, sentence.source),
                           (fairseq_model.target_subwords, sentence.target)):  # fmt: skip
            ids = side.encode(text)
            assert not {PAD, BOS, EOS} & set(ids)
            if UNK not in ids:
                assert side.decode([*ids, EOS]) == text
            assert side.words([*ids, EOS])[-2:] == [len(text.split()) - 1, -1]
    assert translate(
        fairseq_model, [[*fairseq_model.source_subwords.encode("the dog sleeps ."), EOS]], beam=2
    )


def test_the_test_set_was_binarised_from_the_same_text(fairseq_model, recorded):
    """The codes and dictionaries give the ids that fairseq-preprocess wrote."""
    sentences = list(ToyCorpus(train=3000, valid=60, test=60).sentences("test"))
    for number, source in zip(recorded["number"].tolist(), recorded["source"], strict=True):
        ids = fairseq_model.source_subwords.encode(sentences[number].source)
        assert (
            fairseq_model.source_subwords.ids.theirs([*ids, EOS])
            == source[source != THEIR_PAD].tolist()
        )


def test_a_hostile_checkpoint_is_refused(tmp_path):
    copy = shutil.copytree(FIXTURES / "transformer", tmp_path / "copy")
    path = copy / "checkpoint_best.pt"
    with torch.serialization.safe_globals([argparse.Namespace]):
        state = torch.load(path, weights_only=True)
    torch.save({**state, "extra_state": Hostile(tmp_path / "ran")}, path)
    with pytest.raises(XnmtError, match=r"checkpoint_best.pt: refused: it holds"):
        open_fairseq(str(path), **LANGUAGES)
    assert not (tmp_path / "ran").exists()


def changed(tmp_path, **options):
    """A copy of a checkpoint with other options."""
    copy = shutil.copytree(FIXTURES / "transformer", tmp_path / "copy")
    path = copy / "checkpoint_best.pt"
    with torch.serialization.safe_globals([argparse.Namespace]):
        state = torch.load(path, weights_only=True)
    vars(state["cfg"]["model"]).update(options)
    return path, state


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("adaptive_input", True),
        ("activation_fn", "linear"),
        ("decoder_output_dim", 16),
        ("arch", "fconv"),
        ("cross_self_attention", True),
        ("decoder_langtok", True),
        ("task", "translation_multi_simple_epoch"),
    ],
)
def test_what_is_not_supported_is_named(tmp_path, option, value):
    path, state = changed(tmp_path, **{option: value})
    torch.save(state, path)
    with pytest.raises(XnmtError, match=rf"{option}={value}.* (is|are) not supported"):
        open_fairseq(str(path), **LANGUAGES)


def test_languages_that_are_not_the_checkpoints(tmp_path):
    path, state = changed(tmp_path, source_lang="en", target_lang="de")
    torch.save(state, path)
    assert open_fairseq(str(path))
    with pytest.raises(XnmtError, match="source language is en, not de"):
        open_fairseq(str(path), source_language="de", target_language="en")


def test_a_translation_is_no_longer_than_its_positions(tmp_path):
    model = open_fixture("transformer_pre_norm")
    assert model.longest_target == 100
    source = [*model.source_subwords.encode("the dog sleeps . " * 12)[:60], EOS]
    assert len(translate(model, [source])[0]) <= 100


def test_weights_that_nobody_reads_are_named(tmp_path):
    path, state = changed(tmp_path)
    state["model"]["decoder.layers.0.c_attn"] = torch.zeros(4)
    torch.save(state, path)
    with pytest.raises(
        XnmtError, match=r"these weights are not supported: decoder.layers.0.c_attn"
    ):
        open_fairseq(str(path), **LANGUAGES)
    del state["model"]["decoder.layers.0.c_attn"], state["model"]["decoder.layers.0.fc1.bias"]
    torch.save(state, path)
    with pytest.raises(XnmtError, match=r"lack decoder.layers.0.fc1.bias"):
        open_fairseq(str(path), **LANGUAGES)


def test_older_checkpoints_say_the_same_otherwise(tmp_path):
    """Before 0.10 options stood in `args`; before 2019 attention had one matrix, norms numbers."""
    path, state = changed(tmp_path)
    state["args"] = state.pop("cfg")["model"]
    state["args"].source_lang, state["args"].target_lang = "en", "de"
    weights = state["model"]
    for stem in {k.rpartition(".q_proj")[0] for k in weights if ".q_proj" in k}:
        for kind in ("weight", "bias"):
            three = [weights.pop(f"{stem}.{x}_proj.{kind}") for x in "qkv"]
            weights[f"{stem}.in_proj_{kind}"] = torch.cat(three)
    for side, names in (("encoder", ("self_attn", "final")),
                        ("decoder", ("self_attn", "encoder_attn", "final"))):  # fmt: skip
        for layer in range(2):
            for n, norm in enumerate(names):
                for kind in ("weight", "bias"):
                    stem = f"{side}.layers.{layer}"
                    weights[f"{stem}.layer_norms.{n}.{kind}"] = weights.pop(
                        f"{stem}.{norm}_layer_norm.{kind}"
                    )
    torch.save(state, path)
    old, new = open_fairseq(str(path), **LANGUAGES), open_fixture("transformer")
    batch = Batch.collate([([7, 8, EOS], [9, 10, 11, EOS])])
    assert torch.equal(old(batch), new(batch))
    assert old.fingerprint != new.fingerprint


def test_codes_behind_a_byte_order_mark_cut_alike(tmp_path):
    """Their first line names the version, which decides how a word's end is written."""
    codes = FIXTURES / "transformer" / "codes"
    (tmp_path / "marked").write_bytes(codecs.BOM_UTF8 + codes.read_bytes())
    sentences = [s.source for s in ToyCorpus(train=20).sentences("train")]
    marked, plain = (open_codes(str(path), None, ()) for path in (tmp_path / "marked", codes))
    assert [*map(marked, sentences)] == [*map(plain, sentences)]


def test_dictionaries_and_codes_are_checked(tmp_path):
    copy = shutil.copytree(FIXTURES / "transformer", tmp_path / "copy")
    path, dictionary = str(copy / "checkpoint_best.pt"), copy / "dict.en.txt"
    content = dictionary.read_text()
    dictionary.write_text(content + "more 1\n")
    with pytest.raises(XnmtError, match=r"embeddings in encoder.embed_tokens.weight, but"):
        open_fairseq(path, **LANGUAGES)
    dictionary.write_text(content.replace("\n", "\nbroken\n", 1))
    with pytest.raises(DataError, match=r"dict.en.txt:2: expected a word and its count"):
        open_fairseq(path, **LANGUAGES)
    dictionary.write_text(content)
    with pytest.raises(DataError, match="gone: no such BPE codes"):
        open_fairseq(path, **LANGUAGES, source_codes="gone")
    (copy / "fast").write_text("t h 100\nth e 90\n")
    with pytest.raises(DataError, match="fast: not BPE codes of subword-nmt"):
        open_fairseq(path, **LANGUAGES, source_codes=str(copy / "fast"))
    dictionary.unlink()
    with pytest.raises(DataError, match=r"dict.en.txt: no such file"):
        open_fairseq(path, **LANGUAGES)
    with pytest.raises(XnmtError, match="no such fairseq checkpoint"):
        open_fairseq(str(tmp_path / "gone.pt"))
    (copy / "checkpoint_best.pt").write_bytes(b"nothing of the kind")
    with pytest.raises(XnmtError, match=r"checkpoint_best.pt: "):
        open_fairseq(path, **LANGUAGES)


@pytest.fixture
def cut(tmp_path):
    """The codes of a fixture, its English text, and the subwords of that text with their counts."""
    codes = FIXTURES / "transformer" / "codes"
    text = "".join(f"{s.source}\n" for s in ToyCorpus(train=300).sentences("train"))
    cut_text = _apply_bpe(codes, text)
    counts = Counter(cut_text.split())
    vocabulary = tmp_path / "vocabulary.en"
    vocabulary.write_text("".join(f"{piece} {count}\n" for piece, count in counts.items()))
    return codes, text, vocabulary, cut_text


def _apply_bpe(codes, text, *options):
    """Return a text as the command `subword-nmt` cuts it."""
    command = [Path(sys.executable).parent / "subword-nmt", "apply-bpe", "-c", codes, *options]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def test_subwords_are_cut_as_subword_nmt_cuts_them_by_a_vocabulary(cut):
    codes, text, vocabulary, cut_text = cut
    for options, allowed, glossaries in (
        (["--vocabulary", vocabulary, "--vocabulary-threshold", "40"], 40, []),
        (["--vocabulary", vocabulary, "--glossaries", "the", "d.g"], None, ["the", "d.g"]),
    ):
        subwords = read_vocabulary(str(vocabulary), allowed)
        segment = open_codes(str(codes), subwords, glossaries)
        expected = _apply_bpe(codes, text, *options)
        assert [segment(line) for line in text.splitlines()] == [
            line.split() for line in expected.splitlines()
        ]
        assert expected != cut_text


def test_subwords_are_cut_as_sentencepiece_cuts_them_by_a_vocabulary(tmp_path):
    """Against what `spm_encode --vocabulary --vocabulary_threshold=40` of SentencePiece wrote."""
    pytest.importorskip("google.protobuf", reason="SentencePiece's vocabularies need protobuf")
    (tmp_path / "vocabulary").write_text("ph\t50\n▁has\t40\ned\t30\n")
    codes = str(FIXTURES / "lstm_shared" / "sentencepiece.model")
    segment = open_codes(codes, read_vocabulary(str(tmp_path / "vocabulary"), 40))
    cut = "▁ j o s e ph ▁has ▁ t r a v e l l e d ▁ ."
    assert segment("joseph has travelled .") == cut.split()


def test_unknown_subwords_that_another_cut_avoids(tmp_path):
    """Counted by hand: `lower` is one subword that the dictionary lacks, and its halves are not."""
    (tmp_path / "codes").write_text("#version: 0.2\ne r</w>\nl o\nlo w\nlow er</w>\n")
    (tmp_path / "dict.txt").write_text("low@@ 9\ner 9\nx 9\n")
    subwords = DictionarySubwords(tmp_path / "dict.txt", str(tmp_path / "codes"))
    texts = ["lower x lower", "lower q"]
    assert [subwords.encode(text).count(UNK) for text in texts] == [2, 2]
    assert subwords.count_avoidable(texts) == 3
    by_dictionary = DictionarySubwords(
        tmp_path / "dict.txt", str(tmp_path / "codes"), str(tmp_path / "dict.txt")
    )
    assert [by_dictionary.encode(text).count(UNK) for text in texts] == [0, 1]
    assert by_dictionary.count_avoidable(texts) == 0
    assert by_dictionary.fingerprint != subwords.fingerprint


def test_a_vocabulary_that_cannot_be_used_is_named(cut, tmp_path):
    codes, _, vocabulary, _ = cut
    (tmp_path / "broken").write_text("low@@ 9\ner\n")
    for options, problem in (
        ({"source_vocabulary": str(tmp_path / "gone")}, "gone: no such file"),
        (
            {"source_vocabulary": str(tmp_path / "broken")},
            "broken:2: expected a subword and its count",
        ),
        (
            {"source_vocabulary": str(vocabulary), "vocabulary_threshold": 10**9},
            "no subword is counted 1000000000 times",
        ),
        ({"vocabulary_threshold": 50}, "give nmt.reader.source_vocabulary"),
        ({"source_vocabulary": str(vocabulary), "source_codes": None}, "give the codes too"),
        ({"glossaries": ["("]}, r"nmt.reader.glossaries=\(: not regular expressions"),
    ):
        with pytest.raises(XnmtError, match=problem):
            open_fixture("transformer", **{"source_codes": str(codes)} | options)


def test_an_lstm_has_no_prefix_attention():
    model = open_fixture("lstm")
    batch, _ = decide(model, Batch.collate([([7, 8, EOS], [9, 10, 11, EOS])]))
    assert load_explainer("attention").relevance(model, batch).prefix_BTT is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transformer", "lstm"])
def test_the_whole_pipeline(name, tmp_path):
    """A system of fairseq's and its binarised test set as they lie; training text beside them."""
    shared = ["nmt=fairseq", f"nmt.path={FIXTURES}/{name}/checkpoint_best.pt",
              f"nmt.reader.source_codes={FIXTURES}/{name}/codes",
              f"nmt.reader.target_codes={FIXTURES}/{name}/codes",
              f"store={tmp_path}/store", "threads=1", f"results={tmp_path}/results"]  # fmt: skip
    must_run(
        "train.py", "-m", *shared, "explainer=prediction_difference,random",
        "rules.train_sentences=300", "rules.test_sentences=60", "proxy.training.max_epochs=4",
        "trainer.progress_bar=false", cwd=tmp_path,
    )  # fmt: skip
    must_run("evaluate.py", *shared, cwd=tmp_path)
    lines = (tmp_path / "results" / "fidelity.csv").read_text().splitlines()
    columns = lines[0].split(",")
    rows = [dict(zip(columns, line.split(","), strict=False)) for line in lines[1:]]
    ppl = {(r["explainer"], r["instantiation"]): float(r["ppl"]) for r in rows}
    assert ppl["prediction_difference", "base"] < ppl["random", "base"]
    assert np.isfinite(list(ppl.values())).all()
