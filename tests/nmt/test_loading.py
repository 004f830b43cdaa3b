"""Saved systems: what comes back, and what is refused."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import xnmt_bench
from support.configurations import configure, overrides
from support.systems import batch_of
from xnmt_bench.code_hash import code_hash, code_of_plug_in
from xnmt_bench.errors import DataError, StoreError, XnmtError
from xnmt_bench.nmt import loading
from xnmt_bench.nmt.loading import build_model, system_id
from xnmt_bench.nmt.transformer import Transformer
from xnmt_bench.pipeline import training
from xnmt_bench.pipeline.job import Job
from xnmt_bench.store import META


@pytest.fixture
def copied_folder(system, tmp_path):
    """A copy that may be spoilt; without the store's own record, as a user would carry it off."""
    copy = tmp_path / "model"
    shutil.copytree(system.system.path, copy)
    (copy / META).unlink()
    return copy


def test_a_model_comes_back(system, copied_folder):
    model = xnmt_bench.load_model(copied_folder)
    batch = batch_of(system.texts.split("test"), range(4))
    assert torch.equal(model(batch), system.system.model(batch))
    assert not model.training
    assert not any(p.requires_grad for p in model.parameters())


def test_a_vocabulary_of_another_model_is_refused(copied_folder):
    shutil.copyfile(copied_folder / "source.model", copied_folder / "target.model")
    with pytest.raises(StoreError, match=r"target\.model: this vocabulary does not belong"):
        xnmt_bench.load_model(copied_folder)


def test_a_missing_vocabulary_is_named(copied_folder):
    (copied_folder / "target.model").unlink()
    with pytest.raises(StoreError, match=r"target\.model: no such file"):
        xnmt_bench.load_model(copied_folder)


def test_code_of_a_plug_ins_architecture_is_in_its_fingerprint(copied_folder, monkeypatch):
    """An author edits `forward`, and the weights stay."""

    class OfAPlugIn(Transformer):
        pass

    assert code_of_plug_in(Transformer) is None
    assert code_of_plug_in(OfAPlugIn) == code_hash(OfAPlugIn)
    usual = xnmt_bench.load_model(copied_folder).fingerprint
    monkeypatch.setattr(loading, "code_of_plug_in", lambda cls: "edited")
    assert xnmt_bench.load_model(copied_folder).fingerprint != usual == system_id(copied_folder)


def test_code_of_a_plug_ins_architecture_decides_its_training(
    transformer, workplace, unmade, monkeypatch
):
    unmade("nmt")
    changes = [*overrides("transformer", workplace)]
    fingerprints = []
    for code in (None, "written", "edited"):
        monkeypatch.setattr(training, "code_of_plug_in", lambda cls, code=code: code)
        fingerprints.append(Job(configure(*changes)).system.trained.fingerprint)
    assert fingerprints[0] == transformer.system.trained.fingerprint
    assert len({*fingerprints}) == 3


@pytest.mark.parametrize("damage", ["truncated", "other sizes", "missing"])
def test_damaged_weights_are_named(copied_folder, damage):
    weights = copied_folder / "model.safetensors"
    if damage == "truncated":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif damage == "missing":
        weights.unlink()
    else:
        description = json.loads((copied_folder / "model.json").read_text())
        description["sizes"]["dimension"] *= 2
        (copied_folder / "model.json").write_text(json.dumps(description))
    with pytest.raises(StoreError, match=r"model\.safetensors"):
        xnmt_bench.load_model(copied_folder)


def test_weights_that_are_no_numbers_are_refused(copied_folder):
    weights = load_file(copied_folder / "model.safetensors")
    first = next(iter(weights))
    weights[first] = torch.full_like(weights[first], torch.nan)
    save_file(weights, copied_folder / "model.safetensors")
    with pytest.raises(StoreError, match=r"model\.safetensors: a weight is NaN or infinite"):
        xnmt_bench.load_model(copied_folder)


@pytest.mark.parametrize("text", ["{}", "[]", "{", '{"architecture": "rnnsearch"}'])
def test_a_description_of_no_model_is_refused(copied_folder, text):
    (copied_folder / "model.json").write_text(text)
    with pytest.raises(StoreError, match=r"model\.json: not a description of an NMT model"):
        xnmt_bench.load_model(copied_folder)


@pytest.mark.parametrize("pairs", [[("a",)], [("a", 1)], [3]])
def test_what_is_no_pair_of_texts_is_refused(system, pairs):
    with pytest.raises(XnmtError, match=r"sentence 1 is .*, not a source or a \(source"):
        xnmt_bench.load_explainer("random")(system.system.model, pairs)


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(StoreError, match="no NMT model is here"):
        xnmt_bench.load_model(tmp_path)


def test_an_altered_artefact_is_refused(system, tmp_path):
    copy = tmp_path / "model"
    shutil.copytree(system.system.path, copy)
    (copy / "model.json").write_text((copy / "model.json").read_text() + " ")
    with pytest.raises(StoreError, match="truncated or altered"):
        xnmt_bench.load_model(copy)


def test_unknown_architectures_and_sizes_are_named(transformer):
    source, target = transformer.system.subwords
    with pytest.raises(XnmtError, match=r"no NMT architecture 'gru'.*rnn_search.*transformer"):
        build_model("gru", {}, source, target)
    with pytest.raises(XnmtError, match="layer_count"):
        build_model("transformer", {"layer_count": 3}, source, target)


def test_given_subwords_are_used(transformer, tmp_path):
    from support.configurations import SMALL, configure
    from xnmt_bench.pipeline.job import Job

    source, _ = transformer.system.subwords
    changes = [f"corpus.subwords.source_model={source.path}", f"store={tmp_path}"]
    subwords = Job(configure(*SMALL, *changes)).system.subwords
    assert subwords[0].path == source.path
    assert subwords[1].path.is_relative_to(tmp_path)
    missing = Job(configure(*SMALL, f"corpus.subwords.source_model={tmp_path}/nothing"))
    with pytest.raises(DataError, match="no such SentencePiece model"):
        missing.system.subwords  # noqa: B018


def test_a_trained_system_is_used_without_training(system, tmp_path):
    """`nmt.path` brings its vocabulary along, and nothing is trained."""
    from support.configurations import configure, overrides
    from xnmt_bench.pipeline.job import Job

    changes = [*overrides(system.settings.nmt.name), f"nmt.path={system.system.path}"]
    again = Job(configure(*changes, f"store={tmp_path}/store"))
    assert again.system.fingerprint == system.system.fingerprint
    assert len(again.texts.split("test")) == len(system.texts.split("test"))
    assert not (tmp_path / "store" / "nmt").exists()


def test_sizes_that_change_no_weight_change_the_system(transformer, tmp_path):
    """Half the heads are another system, whose numbers must not be taken from the store."""
    copy = tmp_path / "copy"
    shutil.copytree(transformer.system.path, copy)
    (copy / "meta.json").unlink()
    loaded = xnmt_bench.load_model(copy)
    assert loaded.fingerprint == transformer.system.fingerprint
    description = json.loads((copy / "model.json").read_text())
    description["sizes"]["heads"] //= 2
    (copy / "model.json").write_text(json.dumps(description))
    assert xnmt_bench.load_model(copy).fingerprint != loaded.fingerprint


def test_five_lines_from_python(system):
    """The README's example."""
    model = xnmt_bench.load_model(str(system.system.path))
    explainer = xnmt_bench.load_explainer("prediction_difference")
    pairs = [
        ("the old dog sleeps .", "der alte Hund schläft ."),
        ("a cat sings .", "eine Katze singt ."),
    ]
    for explanation, (source, target) in zip(explainer(model, pairs), pairs, strict=True):
        steps = len(explanation.target_tokens)
        assert explanation.source_tokens == [
            *model.source_subwords.pieces(model.source_subwords.encode(source)),
            "</s>",
        ]
        assert explanation.target_tokens[-1] == "</s>"
        assert "".join(explanation.target_tokens[:-1]).replace("▁", " ").strip() == target
        assert explanation.source_TS.shape == (steps, len(explanation.source_tokens))
        assert explanation.prefix_TT.shape == (steps, steps)
        assert len(explanation.labels) == len(explanation.probabilities) == steps
        visible = ~explanation.prefix_TT.isnan()
        assert torch.equal(visible, torch.ones(steps, steps).tril(-1).bool())


def test_an_unknown_explainer_is_answered_with_the_nearest():
    with pytest.raises(XnmtError, match="did you mean gradient_norm"):
        xnmt_bench.load_explainer("gradient_nrom")
    with pytest.raises(XnmtError, match="sed"):
        xnmt_bench.load_explainer("random", sed=1)
