"""Languages of models that know many, against what their own tokenizers write."""

import json

import pytest
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from support.huggingface_models import READER, build
from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt.huggingface import open_huggingface

# Codes that the models of `huggingface_models.build` lack.
NEW = {"m2m100": ("__tyv__", "tyv"), "nllb": ("tyv_Cyrl",) * 2, "mbart": ("tyv_XX",) * 2}
ADDED = {
    "in place of the special tokens": lambda tokenizer, token: tokenizer.add_special_tokens(
        {"additional_special_tokens": [token]}
    ),
    "as a special token": lambda tokenizer, token: tokenizer.add_tokens(
        [token], special_tokens=True
    ),
    "as a token": lambda tokenizer, token: tokenizer.add_tokens([token]),
}


@pytest.fixture(scope="module", params=sorted(NEW))
def many_languages(request, tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp(request.param)
    build(request.param, folder, texts)
    return request.param, folder


@pytest.mark.parametrize("recipe", ADDED)
def test_a_language_that_was_added(many_languages, tmp_path, recipe):
    """It is in the tokenizer's vocabulary however it came there; old languages stay."""
    family, folder = many_languages
    token, code = NEW[family]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    ADDED[recipe](tokenizer, token)
    new_id = tokenizer.convert_tokens_to_ids(token)
    model.resize_token_embeddings(max(model.config.vocab_size, new_id + 1), mean_resizing=False)
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path)
    reader = READER[family]
    there = open_huggingface(str(tmp_path), family, reader["source_language"], code)
    back = open_huggingface(str(tmp_path), family, code, reader["target_language"])
    assert there.languages[1] == back.languages[0] == code
    assert there.before_target[-1] == new_id
    assert new_id in [*back.before_source, *back.after_source]
    assert there.before_target[-1] != back.before_target[-1]


def test_a_language_that_the_model_does_not_know(tmp_path, texts):
    build("mbart", tmp_path, texts)
    with pytest.raises(XnmtError, match=r"give nmt.reader.source_language"):
        open_huggingface(str(tmp_path), "mbart", target_language="de")
    with pytest.raises(
        XnmtError, match=r"nmt.reader.target_language=xx: the model has no such language"
    ):
        open_huggingface(str(tmp_path), "mbart", "en", "xx")


@pytest.fixture(scope="module")
def many_targets(tmp_path_factory, texts):
    """A Marian whose vocabulary has two codes of targets."""
    folder = tmp_path_factory.mktemp("many_targets")
    build("marian", folder, texts)
    vocabulary = json.loads((folder / "vocab.json").read_text())
    for code in (">>fra<<", ">>ita_Latn<<"):
        vocabulary[code] = len(vocabulary)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    model.resize_token_embeddings(len(vocabulary), mean_resizing=False)
    model.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"prefix": ">>fra<< "}, ">>fra<<"),
        ({"prefix": ">>fra<<"}, ">>fra<<"),
        ({"target_language": "fra"}, ">>fra<<"),
        ({"target_language": "ita"}, ">>ita_Latn<<"),
        ({"target_language": ">>fra<<"}, ">>fra<<"),
        ({"prefix": ">>fra<<", "target_language": "fra"}, ">>fra<<"),
        # As a corpus says it, in a code of its own.
        ({"prefix": ">>fra<<", "target_language": "fr"}, ">>fra<<"),
    ],
)
def test_a_marian_for_many_targets_reads_the_code_and_then_the_sentence(
    many_targets, options, code
):
    """As its tokenizer reads a sentence behind the code, also where the text has it already."""
    model = open_huggingface(many_targets, "marian", **options)
    expected = AutoTokenizer.from_pretrained(many_targets)(f"{code} the dog sleeps").input_ids
    for text in ("the dog sleeps", f"{code} the dog sleeps"):
        ids = model.source_subwords.encode(text)
        assert model.before_source.tolist() + model.source_ids[ids].tolist() == expected[:-1]
        tied = model.source_subwords.tie(text)
        assert tied.ids == ids
        assert sorted({*tied.words}) == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "none is no such language: .* one of fra, ita_Latn"),
        ({"target_language": "de"}, "de is no such language: .* one of fra, ita_Latn"),
        ({"prefix": ">>frx<< "}, ">>frx<< is no such language: .* one of fra, ita_Latn"),
        ({"prefix": "fra"}, "one of fra, ita_Latn"),
        ({"prefix": ">>fra<<", "target_language": "ita"}, "these name two languages"),
    ],
)
def test_a_marian_for_many_targets_without_one_is_refused(many_targets, options, problem):
    with pytest.raises(XnmtError, match=problem):
        open_huggingface(many_targets, "marian", **options)


def test_a_source_with_the_code_of_another_language_is_refused(many_targets):
    for options in ({"target_language": "fra"}, {"prefix": ""}):
        model = open_huggingface(many_targets, "marian", **options)
        with pytest.raises(XnmtError, match="begins with >>ita_Latn<<"):
            model.source_subwords.encode(">>ita_Latn<< the dog sleeps")


@pytest.mark.parametrize("family", ["marian", "t5"])
def test_a_prefix_of_unknown_pieces_is_refused(tmp_path, texts, family):
    build(family, tmp_path, texts)
    with pytest.raises(XnmtError, match=r"nmt.reader.prefix='Ω: ': .* does not know .*Ω"):
        open_huggingface(str(tmp_path), family, prefix="Ω: ")
