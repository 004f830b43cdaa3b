"""inseq 0.6 and 0.7: their files (`tests/fixtures/inseq/make.py`), their objects, and bad ones."""

import base64
import gzip
import json
import logging
import pickle
import shutil
from dataclasses import replace

import numpy as np
import pytest
from safetensors.torch import load as load_safetensors

from support.configurations import configure
from support.paths import ROOT
from support.pickles import Hostile
from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.dumps import inseq_file
from xnmt_bench.dumps.inseq import Inseq
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.explainers.base import follow
from xnmt_bench.explanation import from_inseq, load_explanations
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.nmt.huggingface import open_huggingface
from xnmt_bench.pipeline.job import Job
from xnmt_bench.registry import load, load_explainer
from xnmt_bench.report.tracking import Tracker
from xnmt_bench.run import check_inputs, measure

FILES = ROOT / "tests" / "fixtures" / "inseq"
SYSTEM = [
    "corpus=text", f"corpus.root={FILES}", "corpus.source_language=en",
    "corpus.target_language=de", "nmt=m2m100", f"nmt.path={FILES}/m2m100",
    "nmt.reader.source_language=en", "nmt.reader.target_language=de", "device=cpu", "threads=1",
    "trainer.progress_bar=false",
]  # fmt: skip


def read(name):
    """Every sentence of a file, and every error."""
    return list(Inseq(FILES / name))


def first(name):
    return read(name)[0]


def assert_equal(sentence, other, tolerance=1e-6):
    assert sentence.source == other.source and sentence.target == other.target
    np.testing.assert_allclose(sentence.weights_TS, other.weights_TS, atol=tolerance)
    np.testing.assert_allclose(sentence.prefix_TT, other.prefix_TT, atol=tolerance)


def test_words_alone_are_read():
    sentence = first("0.7-saliency.json")
    assert sentence.source.text == "the door is clever ."
    assert sentence.target.text == "die Tür ist klug ."
    assert sentence.source.pieces[:2] == ("▁th", "e")  # without __en__
    assert sentence.target.pieces[-1] == "</s>" and sentence.target.eos and sentence.source.eos
    assert not np.triu(sentence.prefix_TT).any()
    assert (sentence.log_probability_T <= 0).all()


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        ("0.7-saliency_aggregated.json.gz", 1e-6),  # by inseq's own aggregate()
        ("0.7-saliency_merged.json.gz", 1e-6),
        ("0.7-saliency_16.json.gz", 1e-3),
        ("0.7-saliency_8.json.gz", 0.04),
        ("0.6-saliency.json", 1e-5),
        ("0.6-saliency.json.gz", 1e-5),
        ("0.6-saliency_lists.json", 1e-5),
        ("0.6-saliency_aggregated.json.gz", 1e-5),
    ],
)
def test_ways_to_save_are_one(name, tolerance):
    assert_equal(first(name), first("0.7-saliency.json"), tolerance)


def test_merged_sentences_follow_each_other():
    assert [s.number for s in read("0.7-saliency_merged.json.gz")] == [0, 1]
    assert read("0.7-saliency_merged.json.gz")[1].source.text == "everywhere the door works ."


def test_aggregated_by_a_loop():
    """Euclidean norms; then what all words of a step have together, codes among them, is 1."""
    content = json.loads((FILES / "0.7-saliency.json").read_text())
    fields = content["attributes"]["sequence_attributions"][0]["attributes"]

    def tensor(name):
        data = base64.b64decode(fields[name])
        start = 8 + int.from_bytes(data[:8], "little")
        shape = json.loads(data[8:start])["attribution"]["shape"]
        return np.frombuffer(data[start:], "<f4").reshape(shape)

    source, target = tensor("source_attributions"), tensor("target_attributions")
    sentence = first("0.7-saliency.json")
    step, word = 3, 2  # of the words; one code before each side's, and the decoder's start
    norms = [
        [np.linalg.norm(x[place, step + 1]) for place in range(len(x))] for x in (source, target)
    ]
    total = np.nansum(norms[0] + norms[1])
    assert sentence.weights_TS[step, word] == pytest.approx(norms[0][word + 1] / total, rel=1e-5)
    assert sentence.prefix_TT[step, 1] == pytest.approx(norms[1][3] / total, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("0.7-saliency.json", "saliency[vnorm]"),
        ("0.7-saliency_aggregated.json.gz", "saliency"),
        ("0.7-attention.json", "attention[mean]"),
        ("0.6-attention.json", "attention[mean]"),
        ("0.7-occlusion.json", "occlusion"),
    ],
)
def test_names(name, method):
    assert Inseq(FILES / name).method == method


def test_source_alone():
    sentence = first("0.7-saliency_source.json")
    assert sentence.prefix_TT is None
    shares = first("0.7-saliency.json").weights_TS
    assert sentence.weights_TS / sentence.weights_TS.sum(1, keepdims=True) == pytest.approx(
        shares / shares.sum(1, keepdims=True)
    )


# Objects in memory


def objects_of(value, name=""):
    """What inseq would load from a file's JSON: objects of the same classes, with tensors."""
    if isinstance(value, list):
        return [objects_of(part) for part in value]
    if not isinstance(value, dict):
        is_tensor = isinstance(value, str) and name in TENSORS
        return load_safetensors(base64.b64decode(value))["attribution"] if is_tensor else value
    fields = {key: objects_of(part, key) for key, part in value.get("attributes", value).items()}
    if "__instance_type__" not in value:
        return fields
    made = type(value["__instance_type__"][1], (), {})()
    vars(made).update(fields)
    return made


TENSORS = ("source_attributions", "target_attributions", "probability", "deltas")
OBJECTS = [
    "0.7-saliency.json",
    "0.7-saliency_aggregated.json.gz",
    "0.7-saliency_merged.json.gz",
    "0.7-saliency_16.json.gz",
    "0.7-saliency_source.json",
    "0.7-attention.json",
    "0.7-occlusion.json",
]


def output_of(path):
    """The stand-in for the output that a file was saved from."""
    data = path.read_bytes()
    return objects_of(json.loads(gzip.decompress(data) if path.suffix == ".gz" else data))


def assert_same(explanations, others):
    assert len(explanations) == len(others) > 0
    for explanation, other in zip(explanations, others, strict=True):
        for name, value in vars(explanation).items():
            expected = getattr(other, name)
            if hasattr(value, "numpy"):
                np.testing.assert_array_equal(value.numpy(), expected.numpy())
            else:
                assert value == expected


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_read_as_their_file(name):
    assert_same(from_inseq(output_of(FILES / name)), load_explanations(FILES / name))


def test_sentences_of_an_output_lack_the_name_of_the_method():
    path = FILES / "0.7-saliency_merged.json.gz"
    sentences = output_of(path).sequence_attributions
    explanations = from_inseq(sentences)
    assert {explanation.explainer for explanation in explanations} == {"relevance[vnorm]"}
    for one, other in zip(explanations, load_explanations(path), strict=True):
        np.testing.assert_array_equal(one.source_TS.numpy(), other.source_TS.numpy())
    assert_same(from_inseq(sentences[1]), explanations[1:])


def test_what_save_wrote_comes_back_from_memory(tmp_path):
    """With labels that are other words than the target's, which stand in `info` alone."""
    [explanation] = load_explanations(FILES / "0.7-saliency.json")
    explanation = replace(explanation, labels=["x"] * len(explanation.labels))
    explanation.save(tmp_path / "x.json")
    assert_same(from_inseq(output_of(tmp_path / "x.json")), [explanation])


def test_an_output_of_marian_is_read_with_a_warning(caplog):
    with caplog.at_level(logging.WARNING):
        from_inseq(output_of(FILES / "0.7-saliency_marian.json"))
    [warning] = [r.getMessage() for r in caplog.records]
    assert warning.startswith("inseq's output: inseq scales the embeddings of Marian's decoder")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (None, "NoneType is not inseq's FeatureAttributionOutput"),
        ("x.json", r"str is not .* \(load_explanations reads a file\)"),
        ([1, 2], "int is not inseq's"),
        ({"sequence_attributions": []}, "dict is not inseq's"),
        ([output_of(FILES / "0.7-occlusion.json")], r"a list of outputs is not .*out1 \+ out2"),
    ],
)
def test_what_is_no_output_is_refused(given, problem):
    with pytest.raises(XnmtError, match=problem) as caught:
        from_inseq(given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"source_attributions": None}, "no source_attributions: models without a source"),
        ({"attr_pos_start": 5}, "scores for target tokens 6 to 14 only; needed: all words"),
        ({"source_attributions": [[1.0]]}, "source_attributions: shape"),
        ({"target": "die"}, "target: expected a list of tokens"),
    ],
)
def test_a_bad_sentence_of_an_output_is_one_line(changes, problem):
    output = output_of(FILES / "0.7-saliency.json")
    vars(output.sequence_attributions[0]).update(changes)
    with pytest.raises(DataError, match=f"^inseq's output: sentence 1: {problem}") as caught:
        from_inseq(output)
    assert "\n" not in str(caught.value)


def test_objects_of_inseq_itself(tmp_path):
    """Raw and aggregated, of a run in this process, beside the file that it saves."""
    inseq = pytest.importorskip("inseq", reason="no inseq here: pip install 'xnmt_bench[bench]'")
    codes = {"src_lang": "en", "tgt_lang": "de"}
    model = inseq.load_model(f"{FILES}/m2m100", "saliency", tokenizer_kwargs=codes)
    pairs = [["the door is clever .", "the door ."], ["die Tür ist klug .", "die Tür ."]]
    for method, scores in (("saliency", ["probability"]), ("attention", []), ("occlusion", [])):
        raw = model.attribute(
            *pairs, method=method, attribute_target=True, batch_size=1, step_scores=scores,
            show_progress=False,
        )  # fmt: skip
        for number, output in enumerate((raw, raw.aggregate())):
            path = tmp_path / f"{method}-{number}.json"
            output.save(path)
            explanations = from_inseq(output)
            assert_same(explanations, load_explanations(path))
            assert explanations[0].explainer.startswith(method)
            assert explanations[0].target_tokens[-1] == "</s>"


# Same model and sentences in both tools


@pytest.fixture(scope="module")
def m2m100():
    return open_huggingface(str(FILES / "m2m100"), "m2m100", "en", "de")


def ours(model, name, sentence, **options):
    """This project's relevance of the target's own words."""
    sides = zip(
        (model.source_subwords, model.target_subwords),
        (sentence.source, sentence.target),
        strict=True,
    )
    ids = [[*subwords.encode(tokens.text), EOS] for subwords, tokens in sides]
    batch, log_p_BT = follow(model, model.collate([tuple(ids)]), weights=True)
    relevance = load_explainer(name, **options).relevance(model, batch)
    prefix = relevance.prefix_BTT[0].nan_to_num().detach().numpy()
    return relevance.source_BTS[0].detach().numpy(), prefix, log_p_BT[0].numpy()


@pytest.mark.parametrize(
    ("name", "explainer", "options"),
    [
        ("0.7-input_x_gradient.json.gz", "weighted_gradient", {}),
        ("0.7-saliency.json", "gradient_norm", {"norm": "l2"}),
        ("0.7-attention.json", "attention", {"layer": None}),
        ("0.6-attention.json", "attention", {"layer": None}),
        ("0.7-occlusion.json", "prediction_difference", {}),
    ],
)
def test_four_methods_are_ours(m2m100, name, explainer, options):
    sentence = first(name)
    source, prefix, log_p = ours(m2m100, explainer, sentence, **options)
    weights = sentence.weights_TS
    if "occlusion" in name:  # which has no sign, and never removes EOS
        source, prefix = np.abs(source), np.abs(prefix)
        source[:, -1] = 0
    if "saliency" in name or "attention" in name:
        # They were made to sum to 1 with the codes, which do not count as words here.
        together = [
            np.abs(source).sum(1) + np.abs(prefix).sum(1),
            weights.sum(1) + sentence.prefix_TT.sum(1),
        ]
        source, prefix = source / together[0][:, None], prefix / together[0][:, None]
        weights = weights / together[1][:, None]
        np.testing.assert_allclose(sentence.prefix_TT / together[1][:, None], prefix, atol=1e-5)
    else:
        np.testing.assert_allclose(sentence.prefix_TT, prefix, atol=1e-5)
    np.testing.assert_allclose(weights, source, atol=1e-5)
    if sentence.log_probability_T is not None:
        np.testing.assert_allclose(sentence.log_probability_T, log_p, atol=1e-5)


def test_marian_is_read_with_a_warning(caplog, tmp_path):
    path = shutil.copy(FILES / "0.7-saliency_marian.json", tmp_path)  # a file that was not read yet
    with caplog.at_level(logging.WARNING):
        sentence = read(path)[0]
        read(path)
    [warning] = [r.getMessage() for r in caplog.records]
    assert "scales the embeddings of Marian's decoder twice" in warning
    marian = open_huggingface(str(FILES / "marian"), "marian")
    assert np.abs(sentence.log_probability_T - ours(marian, "gradient_norm", sentence)[2]).max() > 1


def test_marian_scaled_once_is_ours():
    """Of inseq's decoder embeddings, which Marian's decoder scales again where it is left as is."""
    inseq = pytest.importorskip("inseq", reason="no inseq here: pip install 'xnmt_bench[bench]'")
    from benchmarks.inseq_marian import METHODS, attribute, share

    model = open_huggingface(str(FILES / "marian"), "marian")
    peer = inseq.load_model(str(FILES / "marian"), "saliency")
    pairs = [("the door is clever .", "die Tür ist klug .")]
    for scale, same in ((peer.model.get_decoder().embed_scale, False), (1.0, True)):
        peer.model.get_decoder().embed_scale = scale
        for method, name, options, aggregator in METHODS:
            output = attribute(peer, method, pairs)
            from_peer = from_inseq(output.aggregate(**aggregator) if aggregator else output)
            from_here = load_explainer(name, **options)(model, pairs)
            assert (share(from_peer, from_here, method != "occlusion") == 1) is same


# The same system is named: every metric that asks an explainer


def rows(tmp_path, *changes, metric=None):
    """The rows of a metric, by the explainer's column and the judge."""
    metric = metric or Fidelity()
    job = Job(
        configure(
            *SYSTEM, f"store={tmp_path}/store", f"results={tmp_path}/results", "metric=[]", *changes
        )
    )
    errors = measure(metric, job, Tracker())
    if errors:
        raise errors[0]
    from xnmt_bench.report.report import collect
    from xnmt_bench.run import draws

    scored = collect(metric, tmp_path / "results", draws(job.settings))
    return {(r.row["explainer"], r.row.get("instantiation")): r for r in scored}


def from_file(name):
    return [f"relevance.path={FILES / name}", "relevance.format=inseq", "relevance.name=theirs"]


def test_fidelity_of_a_file_is_that_of_the_explainer(tmp_path):
    """Under Base, EVAL-X, and an own proxy, since the file covers the training sentences too."""
    judges = ["judge=[base,own,evalx]", "proxy.training.max_epochs=1"]
    rows(tmp_path, *judges, *from_file("0.7-input_x_gradient_train.json.gz"))
    row_of = rows(tmp_path, *judges, "explainer=weighted_gradient")
    name = "input_x_gradient of theirs"
    for judge in ("base", "sa", "evalx_sa"):
        row, other = row_of[name, judge], row_of["weighted_gradient", judge]
        assert row.row["nmt"] == "m2m100"
        assert row.values["ppl"] == pytest.approx(other.values["ppl"], rel=1e-5)


def test_two_files_of_one_name_are_two_rows(tmp_path):
    """They may explain otherwise. References are of no file, and one row each."""
    file, again = FILES / "0.7-input_x_gradient.json.gz", tmp_path / "again.json.gz"
    again.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()) + b"\n"))
    options = ["relevance.format=inseq", "relevance.name=theirs", "judge=[base]"]
    for path in (file, again, file):
        row_of = rows(tmp_path, *options, f"relevance.path={path}")
    names = {name for name, judge in row_of if judge == "base"}
    assert len(names) == 1  # in the CSV; tables show which is which
    measured = (tmp_path / "results" / "measurements" / "fidelity").glob("*.json")
    described = [json.loads(path.read_text()) for path in measured]
    contents = [d["content"].get("relevance") for d in described]
    assert contents.count(None) == 2  # nmt and unigram
    assert len(contents) == 4 and len(set(contents)) == 3


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("erasure", {"shares": (0.5,), "removals": ("zero",), "limited": 0}),
        ("infidelity", {}),
        ("soft", {}),
    ],
)
def test_metrics_of_relevance_read_it(tmp_path, name, options):
    metric = load("metrics", name)(**options)
    rows(tmp_path, *from_file("0.7-input_x_gradient.json.gz"), metric=metric)
    row_of = rows(tmp_path, "explainer=weighted_gradient", metric=metric)
    values = {explainer: row.values for (explainer, _), row in row_of.items()}
    column = metric.columns[0].name
    expected = values["input_x_gradient of theirs"][column]
    assert expected == pytest.approx(values["weighted_gradient"][column], rel=1e-4)


def test_a_file_of_source_words_alone_has_no_fidelity(tmp_path):
    row_of = rows(
        tmp_path, *from_file("0.7-saliency_source.json"), "rules.test_sentences=1", "judge=[base]"
    )
    assert row_of["saliency[vnorm] of theirs", "base"].measurement.status == "n/a"


def test_what_the_file_lacks_is_named(tmp_path):
    with pytest.raises(
        XnmtError, match=r"no sentence '▁th e ▁do or ▁l.*' among the 1 of the file$"
    ):
        rows(tmp_path, *from_file("0.7-saliency.json"), "judge=[base]")


def test_other_tokens_are_named(tmp_path):
    def cut_elsewhere(sentence):  # ▁th e
        sentence["source"][1]["attributes"]["token"] = "▁t"
        sentence["source"][2]["attributes"]["token"] = "he"

    path = changed(tmp_path, cut_elsewhere)
    file = [f"relevance.path={path}", "relevance.format=inseq", "rules.test_sentences=1"]
    with pytest.raises(XnmtError, match="sentence 1 has this text in other tokens"):
        rows(tmp_path, *file, "judge=[base]")


def test_metrics_without_an_explainer_refuse_it(tmp_path):
    from xnmt_bench.metrics.quality import Quality

    job = Job(configure(*SYSTEM, f"store={tmp_path}", *from_file("0.7-saliency.json")))
    with pytest.raises(XnmtError, match="the metric quality does not read a file of"):
        check_inputs([Quality()], job)


# Tokens that do not count as words


@pytest.mark.parametrize(
    "code",
    ["__cmn_Hant__", "de_DE", "deu_Latn", "tyv_Cyrl2", ">>deu<<", "▁>>deu<<", "<2de>", "<pad>"],
)
def test_a_language_code_is_no_word(tmp_path, code):
    def other_code(sentence):
        sentence["source"][0]["attributes"]["token"] = code  # was __en__
        sentence["target"][1]["attributes"]["token"] = code  # was __de__

    [sentence] = Inseq(changed(tmp_path, other_code))
    assert_equal(sentence, first("0.7-saliency.json"))


def saved(tmp_path, source, target, steps, **info):
    """A file of one sentence whose weights are all 1, with the steps of the last target tokens."""
    prefix = np.ones((len(target), steps))
    prefix[np.arange(len(target))[:, None] >= len(target) - steps + np.arange(steps)] = np.nan
    fields = {
        "source": source,
        "target": target,
        "source_attributions": np.ones((len(source), steps)),
        "target_attributions": prefix,
        "attr_pos_start": len(target) - steps,
        "attr_pos_end": len(target),
    }
    path = tmp_path / "saved.json"
    inseq_file.write_file(path, {"attribution_method": "saliency", **info}, [fields], "Granular")
    return next(iter(Inseq(path)))


def test_the_end_of_an_empty_translation_is_its_one_step(tmp_path):
    """Behind the decoder's start and a code; padding behind it is none."""
    target = ["</s>", "deu_Latn", "</s>", "<pad>"]
    sentence = saved(tmp_path, ["eng_Latn", "▁The", "</s>"], target, 3)
    assert sentence.target.pieces == ("</s>",) and sentence.target.text == ""
    assert sentence.source.pieces == ("▁The", "</s>")
    assert sentence.weights_TS.shape == (1, 2)


def test_the_task_of_t5_is_no_word(tmp_path):
    source = ["▁translate", "▁English", "▁to", "▁German", ":", "▁Dog", "▁to", "▁cat", ":", "</s>"]
    target = ["<pad>", "▁Hund", "</s>"]
    t5 = saved(tmp_path, source, target, 2, model_class="T5ForConditionalGeneration")
    assert t5.source.pieces == ("▁Dog", "▁to", "▁cat", ":", "</s>")
    assert saved(tmp_path, source, target, 2).source.pieces == tuple(source)


# What is wrong


def changed(tmp_path, change, name="0.7-saliency.json"):
    """A file in which a function has changed the fields of the first sentence."""
    content = json.loads((FILES / name).read_text())
    sequence = content["attributes"]["sequence_attributions"][0]["attributes"]
    change(sequence)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(content, ensure_ascii=False))
    return path


def safetensors(array, dtype="F32", shape=None, name="attribution"):
    data = np.asarray(array, "<f4").tobytes()
    entry = {
        "dtype": dtype,
        "shape": shape or list(np.shape(array)),
        "data_offsets": [0, len(data)],
    }
    header = json.dumps({name: entry}).encode()
    return base64.b64encode(len(header).to_bytes(8, "little") + header + data).decode()


def with_nan(shape=(9, 13)):
    array = np.ones(shape)
    array[2, 3] = np.nan
    return array


def packed(array, shape, claimed="float32"):
    data = base64.b64encode(gzip.compress(array.astype("<f4").tobytes())).decode()
    return {"__ndarray__": f"b64.gz:{data}", "dtype": claimed, "shape": shape}


def sizes():
    fields = json.loads((FILES / "0.7-saliency.json").read_text())["attributes"]
    fields = fields["sequence_attributions"][0]["attributes"]
    return len(fields["source"]), len(fields["target"]), fields["attr_pos_end"] - 1


S, T, N = sizes()
PICKLE = base64.b64encode(pickle.dumps(Hostile("/x"))).decode()
NAN = safetensors(with_nan((S, N)))
EXTRA = {"token": "too", "id": 1}
SENTENCES = {
    "lists": (lambda s: s.update(source_attributions=[[1, 2], [3]]), "ragged lists"),
    "texts": (lambda s: s.update(source_attributions=[["1", "2"]]), "expected lists of numbers"),
    "number": (lambda s: s.update(source_attributions=3), "expected a tensor, not int"),
    "no base64": (lambda s: s.update(source_attributions="!!!"), "source_attributions: no base64"),
    "pickle": (
        lambda s: s.update(source_attributions=PICKLE),
        "is it a pickle?",
    ),
    "another tensor": (
        lambda s: s.update(source_attributions=safetensors(np.ones((S, N)), name="weights")),
        "expected safetensors with one tensor 'attribution'",
    ),
    "another type": (
        lambda s: s.update(source_attributions=safetensors(np.ones((S, N)), "I64")),
        "expected safetensors with one tensor 'attribution' of floats",
    ),
    "truncated": (
        lambda s: s.update(source_attributions=s["source_attributions"][:-400]),
        "bytes, but its shape",
    ),
    "a huge shape": (
        lambda s: s.update(source_attributions=safetensors([1.0], shape=[10**9, 10**9])),
        "is too large",
    ),
    "a negative shape": (
        lambda s: s.update(source_attributions=safetensors([1.0], shape=[-1, 2])),
        "is not a shape",
    ),
    "a bomb": (
        lambda s: s.update(source_attributions=packed(np.zeros(10**6), [S, N])),
        f"bytes, but its shape {[S, N]} needs",
    ),
    "damaged gzip": (
        lambda s: s.update(source_attributions={
            "__ndarray__": "b64.gz:AAAA", "dtype": "float32", "shape": [S, N]
        }),
        "damaged gzip",
    ),
    "objects": (
        lambda s: s.update(source_attributions=packed(np.zeros(4), [4], "object")),
        "an array of 'object'",
    ),
    "nan in the source": (
        lambda s: s.update(source_attributions=NAN, target_attributions=None),
        "a weight is nan",
    ),
    "nan in the prefix": (
        lambda s: s.update(target_attributions=safetensors(with_nan((T, N)))),
        "NaN for a word that its step sees",
    ),
    "ahead": (
        lambda s: s.update(target_attributions=safetensors(np.ones((T, N)))),
        "cannot see yet",
    ),
    "a token too many": (lambda s: s["source"].append(EXTRA), f"there are {S + 1} tokens"),
    "no tokens": (lambda s: s.update(source="the door"), "source: expected a list of tokens"),
    "half a token": (lambda s: s["target"][2].update(attributes={"id": 3}), "target: token 3"),
    "steps": (lambda s: s.update(attr_pos_start=5), "needed: all words from target token 3"),
    "steps at the end": (lambda s: s.update(attr_pos_end=6), "needed: all words"),
    "no steps": (lambda s: s.update(attr_pos_start=9, attr_pos_end=2), "attr_pos_start 9 to"),
    "steps as text": (lambda s: s.update(attr_pos_start="1"), "should be whole numbers"),
    "negative steps": (lambda s: s.update(attr_pos_start=-3), "attr_pos_start -3"),
    "probabilities": (
        lambda s: s.update(step_scores={"probability": safetensors(np.ones(3))}),
        "probability: shape (3,)",
    ),
    "no probabilities": (
        lambda s: s.update(step_scores={"probability": safetensors(np.full(N, 7.0))}),
        "a value is not between 0 and 1",
    ),
    "zeros": (
        lambda s: s.update(
            source_attributions=safetensors(np.zeros((S, N))), target_attributions=None
        ),
        "every weight is 0",
    ),
    "a decoder alone": (lambda s: s.update(source_attributions=None), "models without a source"),
    "other dimensions": (
        lambda s: s.update(source_attributions=safetensors(np.ones((S, N)))),
        "source scores have further axes (), target scores",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SENTENCES)
def test_a_bad_sentence_is_one_line(tmp_path, case):
    change, problem = SENTENCES[case]
    [error] = list(Inseq(changed(tmp_path, change)))
    assert isinstance(error, DataError)
    assert problem in str(error) and "\n" not in str(error) and len(str(error)) < 400
    assert str(error).startswith(str(tmp_path / "bad.json"))


BAD_FILES = {
    "empty": (b"", "not JSON"),
    "no json": (b"PK\x03\x04abc", "not JSON"),
    "pickle": (pickle.dumps(Hostile("/x"), 4), "not UTF-8"),
    "another json": (b'{"a": 1}', "no 'sequence_attributions'"),
    "a list": (b"[1, 2]", "no 'sequence_attributions'"),
    "truncated": ((FILES / "0.7-saliency.json").read_bytes()[:5000], "not JSON"),
    "truncated gzip": ((FILES / "0.7-saliency_16.json.gz").read_bytes()[:2000], "damaged gzip"),
    "deep": (b"[" * 100_000, "nested too deeply"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_one_line(tmp_path, case):
    data, problem = BAD_FILES[case]
    (tmp_path / "bad.json").write_bytes(data)
    with pytest.raises(DataError, match=problem) as caught:
        list(Inseq(tmp_path / "bad.json"))
    assert "\n" not in str(caught.value)


def test_a_large_file_is_refused_before_memory_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr(inseq_file, "LARGEST", 1000)
    (tmp_path / "big.json").write_bytes(gzip.compress(b" " * 5000))
    with pytest.raises(DataError, match="more than 1,000 bytes when unpacked"):
        list(Inseq(tmp_path / "big.json"))


def test_a_good_sentence_behind_a_bad_one_is_read(tmp_path):
    content = json.loads(gzip.decompress((FILES / "0.7-saliency_merged.json.gz").read_bytes()))
    content["attributes"]["sequence_attributions"][0]["attributes"]["source"] = None
    (tmp_path / "half.json").write_text(json.dumps(content))
    bad, good = Inseq(tmp_path / "half.json")
    assert isinstance(bad, DataError) and good.number == 1
