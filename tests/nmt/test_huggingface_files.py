"""Folders of Hugging Face models: the line that names the file at fault."""

import shutil

import pytest
from transformers import AutoTokenizer

import xnmt_bench
from support.huggingface_models import READER, build
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.vocabulary.subwords import UNK
from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt.huggingface import open_huggingface


def test_a_tokenizer_with_more_ids_than_its_model(family, tmp_path):
    name, folder = family
    shutil.copytree(folder, tmp_path / "m")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = open_huggingface(str(folder), name, **READER[name])
    size = model.model.config.vocab_size
    # The first of them fill what the model was padded with.
    tokens = [f"<new{n}>" for n in range(size - len(tokenizer) + 2)]
    tokenizer.add_tokens(tokens)
    tokenizer.save_pretrained(tmp_path / "m")
    problem = f"ids up to {size + 1}, the model embeddings of ids up to {size - 1}"
    with pytest.raises(XnmtError, match=f"{problem}, and none of {tokens[-2]}, {tokens[-1]}:"):
        open_huggingface(str(tmp_path / "m"), name, **READER[name])


def test_ids_that_no_text_has_may_be_more(tmp_path):
    """T5's tokenizer has a hundred sentinels that a model trained from scratch lacks."""
    sentences = [s.source for s in ToyCorpus(train=500).sentences("train")]
    build("t5", tmp_path, (sentences, sentences))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    tokenizer.add_tokens([f"<extra_id_{n}>" for n in range(100)], special_tokens=True)
    tokenizer.save_pretrained(tmp_path)
    model = open_huggingface(str(tmp_path), "t5", prefix="")
    assert model.source_subwords.encode("<extra_id_7>") == [UNK]


def test_a_tokenizer_without_its_files(family, tmp_path):
    """Some open without them, and know no word."""
    name, folder = family
    (tmp_path / "m").mkdir()
    for file in ("config.json", "generation_config.json", "model.safetensors"):
        shutil.copy(folder / file, tmp_path / "m" / file)
    expected = {
        "marian": "source.spm, target.spm, vocab.json",
        "m2m100": "vocab.json, sentencepiece.bpe.model",
        "nllb": "tokenizer_config.json, tokenizer.json or sentencepiece.bpe.model",
        "mbart": "tokenizer.json or sentencepiece.bpe.model",
        "t5": "tokenizer.json or spiece.model",
    }
    with pytest.raises(XnmtError, match=f"m: .* are missing: {expected[name]};"):
        open_huggingface(str(tmp_path / "m"), name, **READER[name])


@pytest.mark.parametrize("part", [0, 0.5])
def test_a_damaged_file_is_named(family, tmp_path, part):
    name, folder = family
    for file in sorted(folder.iterdir()):
        shutil.copytree(folder, tmp_path / file.name)
        content = file.read_bytes()
        (tmp_path / file.name / file.name).write_bytes(content[: int(part * len(content))])
        with pytest.raises(XnmtError, match=f"not a model of {name}: {file.name}: "):
            open_huggingface(str(tmp_path / file.name), name, **READER[name])


def test_an_empty_pickle_is_named(family, tmp_path):
    name, folder = family
    shutil.copytree(folder, tmp_path / "m")
    (tmp_path / "m" / "model.safetensors").unlink()
    (tmp_path / "m" / "pytorch_model.bin").touch()
    with pytest.raises(XnmtError, match=r"pytorch_model\.bin: it is empty"):
        open_huggingface(str(tmp_path / "m"), name, **READER[name])


@pytest.mark.parametrize("path", ["/nowhere/at/all", "~/nothing", "./nothing", "a/b/c", "m.bin"])
def test_a_path_is_not_looked_for_on_the_hub(monkeypatch, path):
    monkeypatch.setattr("huggingface_hub.snapshot_download", None)
    for opened in (xnmt_bench.load, lambda path: open_huggingface(path, "marian")):
        with pytest.raises(XnmtError, match=f"^{path}: no such folder or file$"):
            opened(path)


def test_a_model_that_is_nowhere_is_asked_for_once(monkeypatch):
    """The hub's client would ask for a single file six times, over half a minute."""
    calls = []

    def refuse(path, **options):
        calls.append(path)
        raise ConnectionError("no network")

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", refuse)
    with pytest.raises(XnmtError, match=r"^nofolder: .* nor a model on the hub: no network$"):
        xnmt_bench.load("nofolder")
    assert calls == ["nofolder"]
