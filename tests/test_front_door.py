"""The first things that a user does: load a model, explain, benchmark, ask for help."""

import csv
import json
import os
import pickle
import pydoc
import re
import subprocess
import sys
from importlib.metadata import version
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import xnmt_bench
from support.configurations import configure
from support.forked_commands import command, must_run
from support.paths import DATA, ROOT
from xnmt_bench.cli import default_system, resolve_explainers
from xnmt_bench.code_hash import code_hash
from xnmt_bench.corpora.passage import Context
from xnmt_bench.errors import ConfigError, StoreError, XnmtError
from xnmt_bench.explain import END, explain, passage_of
from xnmt_bench.explainers.attention import Attention
from xnmt_bench.explainers.base import Explainer, Relevance
from xnmt_bench.explainers.random import Random
from xnmt_bench.nmt.loading import SHIPPED, load_model, shipped_names
from xnmt_bench.nmt.opening import find_family
from xnmt_bench.pipeline.settings import read_settings
from xnmt_bench.registry import ALIASES, SIMILAR, entries, explainer_of

PAIRS = [
    ("the dog sleeps .", "der Hund schläft ."),
    ("the cat sees the dog .", "die Katze sieht den Hund ."),
    ("a child laughs .", "ein Kind lacht ."),
]


@pytest.fixture(scope="module")
def system_folder(transformer):
    return transformer.system.path


@pytest.fixture(scope="module")
def loaded_model(system_folder):
    return xnmt_bench.load(system_folder)


def test_load_says_what_it_found(system_folder, capsys):
    model = xnmt_bench.load(system_folder)
    assert capsys.readouterr().err == f"{system_folder}: a system of this project, en to de\n"
    assert model.languages == ("en", "de")
    assert xnmt_bench.load_model is xnmt_bench.load


@pytest.mark.parametrize(
    ("described", "tokenizer", "family"),
    [
        ("marian", "MarianTokenizer", "marian"),
        ("m2m_100", "M2M100Tokenizer", "m2m100"),
        ("m2m_100", "NllbTokenizer", "nllb"),
        ("mbart", "MBart50Tokenizer", "mbart"),
        ("t5", "T5Tokenizer", "t5"),
    ],
)
def test_the_family_follows_from_the_folder(tmp_path, described, tokenizer, family):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": described}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": tokenizer}))
    assert find_family(str(tmp_path)) == family


def test_a_family_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mt5"}))
    with pytest.raises(XnmtError, match="mt5"):
        find_family(str(tmp_path))


def test_a_fairseq_checkpoint_is_found_and_opened(capsys):
    path = ROOT / "tests/fixtures/fairseq/transformer/checkpoint_best.pt"
    assert find_family(str(path)) == "fairseq"
    codes = str(path.parent / "codes")
    languages = {"source_language": "en", "target_language": "de"}
    model = xnmt_bench.load(path, source_codes=codes, target_codes=codes, **languages)
    assert capsys.readouterr().err == f"{path}: a fairseq checkpoint, en to de\n"
    assert len(model.source_subwords) > 10


def test_slips_of_load_name_what_to_do(tmp_path, system_folder, monkeypatch):
    with pytest.raises(XnmtError, match=r"the folder has neither model.json nor config.json"):
        xnmt_bench.load(tmp_path)
    with pytest.raises(XnmtError, match="no such folder or file"):
        xnmt_bench.load(tmp_path / "none")
    (tmp_path / "model.npz").write_bytes(b"Marian's own")
    with pytest.raises(
        XnmtError, match=r"model.npz: not a kind of file that can be read; give a f"
    ):
        xnmt_bench.load(tmp_path / "model.npz")
    checkpoint = ROOT / "tests/fixtures/fairseq/transformer/checkpoint_best.pt"
    with pytest.raises(StoreError, match="open a fairseq checkpoint with nmt=fairseq"):
        load_model(checkpoint)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(
        XnmtError, match="a model of type bert; types that can be read: m2m100, marian"
    ):
        xnmt_bench.load(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "m2m_100"}')
    with pytest.raises(XnmtError, match="give source_language and target_language"):
        xnmt_bench.load(tmp_path)
    with pytest.raises(XnmtError, match="has no option prefix"):
        xnmt_bench.load(system_folder, prefix="x")
    with pytest.raises(XnmtError, match="a fairseq model has no option 'src_lang'"):
        xnmt_bench.load(checkpoint, src_lang="de")
    with pytest.raises(XnmtError, match=r"load_explainer\('saliency'\) gives an explainer"):
        xnmt_bench.load(system_folder, "saliency")
    with pytest.raises(XnmtError, match="is no path or name"):
        xnmt_bench.load([system_folder])
    with pytest.raises(ConfigError, match="device=gpu: no such device"):
        xnmt_bench.load(system_folder, device="gpu")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # else it tries for long
    with pytest.raises(XnmtError, match="nor a model on the hub"):
        find_family("facebook/nllb-200-distilled-1.3B")
    for name in shipped_names():
        with pytest.raises(XnmtError, match=f"did you mean {name}"):
            xnmt_bench.load(f"{name}s")


def test_a_folder_of_another_family_is_told_which_choice_opens_it(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "marian"}')
    done = command("evaluate.py", "explain=a dog .", f"nmt.path={tmp_path}", cwd=tmp_path)
    assert done.returncode == 1
    assert "choose nmt=marian" in done.stderr


def test_a_choice_of_nmt_without_its_model_is_one_line(tmp_path):
    done = command("evaluate.py", "explain=a dog .", "nmt=marian", cwd=tmp_path)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("error: nmt.path: has no value yet")


def test_a_source_alone_is_translated_first(loaded_model):
    explainer = xnmt_bench.load_explainer("gradient_norm")
    [alone] = explainer(loaded_model, ["the dog sleeps ."])
    target = "".join(alone.target_tokens[:-1]).replace("▁", " ").strip()
    [forced] = explainer(loaded_model, [("the dog sleeps .", target)])
    assert alone.target_tokens == forced.target_tokens
    assert torch.equal(alone.source_TS, forced.source_TS)


def test_many_sentences_give_what_each_gives_by_itself(loaded_model):
    sources, targets = zip(*PAIRS, strict=True)
    for name in ("attention", "gradient_norm", "prediction_difference"):
        explainer = xnmt_bench.load_explainer(name)
        together = explainer(loaded_model, iter(sources), iter(targets))
        for explanation, pair in zip(together, PAIRS, strict=True):
            [single] = explainer(loaded_model, [pair])
            assert explanation.source_tokens == single.source_tokens
            assert explanation.labels == single.labels
            for part in ("probabilities", "source_TS", "prefix_TT"):
                ours, theirs = getattr(explanation, part), getattr(single, part)
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6, equal_nan=True)


def test_translations_are_those_that_are_explained(loaded_model):
    sources = [source for source, _ in PAIRS]
    translations = xnmt_bench.translate(loaded_model, (source for source in sources), beam=2)
    explained = xnmt_bench.load_explainer("attention")(loaded_model, sources, beam=2)
    texts = ["".join(e.target_tokens[:-1]).replace("▁", " ").strip() for e in explained]
    assert translations == texts
    assert xnmt_bench.translate(loaded_model, []) == []
    assert xnmt_bench.load_explainer("attention")(loaded_model, []) == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ("tatoeba_de_en", ["a"]),
            "model: 'tatoeba_de_en' is a name; open it",
        ),
        ((torch.nn.Linear(1, 1), ["a"]), "model: a Linear is no model of this package; open one w"),
        ((None, ["a"], "b"), r"give a list of targets: \['b'\]"),
        ((None, ["a"], ["b", "c"]), "2 targets for 1 sources; give one for each"),
        (
            (None, [["a"], ["b"]]),
            r"sentence 1 is \['a'\], not a source or a \(source, target\) pair",
        ),
        ((None, ["a", " "]), "sentence 2 is empty"),
        ((None, [("a", "")]), "target 1 is empty"),
        ((None, [("a", "b")], ["c"]), "sentence 1 has two targets"),
        ((None, ["a"], [None]), "target 1 is None, not a text"),
    ],
)
def test_slips_of_a_call_are_named(loaded_model, arguments, problem):
    model, *texts = arguments
    with pytest.raises(XnmtError, match=problem):
        xnmt_bench.load_explainer("attention")(model or loaded_model, *texts)


def test_a_sentence_that_is_too_long_is_named(loaded_model, monkeypatch):
    monkeypatch.setattr(loaded_model, "longest_source", 4)
    with pytest.raises(
        XnmtError, match=r"sentence 2 has \d+ source tokens; the model reads at most"
    ):
        xnmt_bench.translate(loaded_model, ["dog", "the dog sees the cat and the child ."])


def test_names_of_other_tools_are_understood_and_said_once(capsys):
    explainer_of.cache_clear()  # as in a fresh process
    for _ in range(2):
        for name in ("saliency", "InputXGradient", "Occlusion"):
            xnmt_bench.load_explainer(name)
    assert capsys.readouterr().err.splitlines() == [
        "saliency is gradient_norm here",
        "InputXGradient is weighted_gradient here",
        "Occlusion is prediction_difference here",
    ]
    assert type(xnmt_bench.load_explainer("saliency")).__name__ == "GradientNorm"
    assert all(here in entries("explainers") for here in ALIASES.values())
    assert all(here in entries("explainers") for like in SIMILAR.values() for here in like)
    with pytest.raises(XnmtError, match=r"did you mean saliency \(gradient_norm here\)\?"):
        xnmt_bench.load_explainer("salency")
    with pytest.raises(XnmtError, match="like it are integrated_gradients and weighted_gradient"):
        xnmt_bench.load_explainer("DeepLift")
    with pytest.raises(XnmtError, match="'attention'"):
        xnmt_bench.load_explainer(["attention"])


def test_names_of_other_tools_work_on_the_command_line():
    assert resolve_explainers(["-m", "explainer=saliency,attention,occlusion", "k=1"]) == [
        "-m", "explainer=gradient_norm,attention,prediction_difference", "k=1",
    ]  # fmt: skip
    assert resolve_explainers(["explainer.phi.of=saliency"]) == ["explainer.phi.of=saliency"]


def test_completion_offers_what_users_call():
    assert sorted(dir(xnmt_bench)) == [
        "__doc__", "__version__", "benchmark", "compare", "from_inseq", "load", "load_explainer",
        "load_explanations", "load_model", "results", "translate",
    ]  # fmt: skip
    assert all(hasattr(xnmt_bench, name) for name in dir(xnmt_bench))
    assert xnmt_bench.__version__ == version("xnmt_bench")


def test_an_explainer_shows_its_options():
    assert repr(Attention(0)) == "Attention(layer=0, heads='mean')"
    assert pickle.loads(pickle.dumps(Attention(0))).options == {"layer": 0, "heads": "mean"}


class WordLength(Explainer):
    """Relevance is the length of a piece: an explainer without a package."""

    def __init__(self, sign: int = 1) -> None:
        self.sign = sign

    def relevance(self, model, batch):
        source_BS = batch.source_BS * float(self.sign)
        steps = batch.target_BT.shape[1]
        source_BTS = source_BS[:, None].expand(-1, steps, -1)
        return Relevance.of_inputs(
            batch, source_BTS, source_BTS.new_ones(*batch.target_BT.shape, steps)
        )


def test_benchmark_takes_explainers_and_classes(loaded_model):
    chosen = [Attention(layer=0), WordLength, WordLength(-1), "random"]
    table = xnmt_bench.benchmark(loaded_model, PAIRS, chosen)
    names = {name for name in table.arrow["explainer"].to_pylist() if name}
    assert names == {"attention[layer=0]", "word_length", "word_length[sign=-1]", "random"}
    assert "explainer" in repr(table) and "By Base" in repr(table)
    assert table._repr_html_().count("<table") == len(table.summaries)

    class Local(WordLength):
        pass

    with pytest.raises(XnmtError, match="Local: define the class outside of functions"):
        xnmt_bench.benchmark(loaded_model, PAIRS, [Local])


def test_code_of_a_notebook_is_never_taken_for_older_code():
    first = type("Typed", (WordLength,), {"__module__": "__main__2"})
    second = type("Typed", (WordLength,), {"__module__": "__main__2"})
    assert code_hash(first) == code_hash(first) != code_hash(second)


def test_an_explanation_prints_a_line_for_each_step(loaded_model):
    [explanation] = xnmt_bench.load_explainer("prediction_difference")(loaded_model, PAIRS[:1])
    lines = str(explanation).splitlines()
    assert len(lines) == len(explanation.labels)
    for step, line in enumerate(lines):
        label, probability, words = re.fullmatch(r"(\S+) +(\d\.\d\d)  (.*)", line).groups()
        assert label.lstrip("·") in explanation.labels[step]
        assert float(probability) == pytest.approx(
            explanation.probabilities[step].item(), abs=0.006
        )
        relevance = torch.cat([explanation.source_TS[step], explanation.prefix_TT[step]])
        first = float(words.split(", ")[0].rsplit(" ", 1)[1])
        assert first == pytest.approx(relevance[~relevance.isnan()].max().item(), rel=0.01)


def test_benchmark_gives_the_numbers_of_the_command_line(loaded_model, system_folder, tmp_path):
    table = xnmt_bench.benchmark(loaded_model, PAIRS, ["gradient_norm", "random"], seed=3)
    rows = {(r["explainer"], r["instantiation"]): r for r in table.arrow.to_pylist()}
    assert {"base", "nmt"} == {judge for _, judge in rows}
    for side, language in enumerate(("en", "de")):
        lines = "".join(f"{pair[side]}\n" for pair in PAIRS)
        for split in ("train", "valid", "test"):
            (tmp_path / f"{split}.{language}").write_text(lines, encoding="utf-8")
    must_run(
        "train.py", "-m", "corpus=text", f"corpus.root={tmp_path}", "corpus.source_language=en",
        "corpus.target_language=de", f"nmt.path={system_folder}", "explainer=gradient_norm,random",
        "seed=3", "metric=[fidelity]", "judge=[base]",
        "threads=1", cwd=tmp_path,
    )  # fmt: skip
    assert command("evaluate.py", "metric=[fidelity]", cwd=tmp_path).returncode == 0
    with (tmp_path / "results/fidelity.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["instantiation"] != "base":
                continue
            benchmark_row = rows[row["explainer"], "base"]
            for name in ("ppl", "ppl_low", "ppl_high", "accuracy"):
                assert benchmark_row[name] == pytest.approx(float(row[name]), rel=1e-12), name


def test_benchmark_takes_prefix_words_as_an_argument_and_as_a_change(loaded_model, tmp_path):
    """Source words of `random` are the same; with the previous word Base predicts otherwise."""
    tables = [
        xnmt_bench.benchmark(loaded_model, PAIRS, ["random"], store=tmp_path, **options)
        for options in ({}, {"prefix": "previous"}, {"changes": {"prefix": "previous"}})
    ]
    chosen, previous, changed = (
        {r["prefix"]: r["ppl"] for r in table.arrow.to_pylist() if r["instantiation"] == "base"}
        for table in tables
    )
    assert [*chosen] == ["chosen"] and [*previous] == ["previous"] and previous == changed
    assert chosen["chosen"] != previous["previous"]
    assert ["prefix words: previous" in repr(table) for table in tables] == [False, True, True]


def test_benchmark_trains_judges_and_keeps_its_store(loaded_model, tmp_path):
    corpus = {"test": PAIRS, "train": PAIRS * 4}
    options = {"changes": {"proxy.training.max_epochs": 1}, "store": tmp_path}
    table = xnmt_bench.benchmark(
        loaded_model, corpus, {"lexicon": {}}, {"evalx": {}}, k=1, **options
    )
    assert "evalx_sa" in table.arrow["instantiation"].to_pylist()
    stored = sorted(path.name for path in (tmp_path / "store").glob("*/*"))
    again = xnmt_bench.benchmark(
        loaded_model, corpus, {"lexicon": {}}, {"evalx": {}}, k=1, **options
    )
    assert sorted(path.name for path in (tmp_path / "store").glob("*/*")) == stored
    assert again.arrow["ppl"].equals(table.arrow["ppl"])
    # Another call has rows and texts of its own.
    for pairs in (PAIRS[:2], iter(PAIRS[:1])):
        fewer = xnmt_bench.benchmark(loaded_model, pairs, ["random"], store=tmp_path)
        assert fewer.arrow["explainer"].to_pylist().count("random") == 1
        assert set(fewer.arrow["explainer"].to_pylist()) == {"random", ""}
    assert len(list((tmp_path / "text").iterdir())) == 3


def test_a_seed_of_an_explainer_is_its_own(loaded_model, tmp_path):
    explainers = {"random": {"seed": 7}}
    table = xnmt_bench.benchmark(loaded_model, PAIRS, explainers, store=tmp_path)
    seeded = xnmt_bench.benchmark(loaded_model, PAIRS, ["random"], seed=7, store=tmp_path)
    rows = (row for t in (table, seeded) for row in t.arrow.to_pylist())
    ppl = {row["explainer"]: row["ppl"] for row in rows if row["explainer"].startswith("random")}
    # The column holds the seed of the call, so that the name holds another one.
    assert ppl["random[seed=7]"] == ppl["random"]


def test_a_row_that_is_not_applicable_stands_in_the_table(loaded_model):
    table = xnmt_bench.benchmark(loaded_model, PAIRS[:2], ["gold_alignment"])
    rows = {r["explainer"]: r for r in table.arrow.to_pylist()}
    assert rows["gold_alignment"]["ppl"] is None


def test_a_whole_number_of_numpy_is_one(loaded_model):
    assert xnmt_bench.load_explainer("random", seed=np.int64(3)).seed == 3
    changes = {"bootstrap.samples": np.int64(9), "explainer.phi": {}}
    table = xnmt_bench.benchmark(
        loaded_model, PAIRS[:2], ["random"], k=np.int64(1), seed=np.int64(3), changes=changes
    )
    assert {row["seed"] for row in table.arrow.to_pylist() if row["explainer"]} == {3}


def test_a_class_that_draws_takes_the_seed_of_the_call(loaded_model):
    rows = [
        row
        for seed in (0, 1)
        for row in xnmt_bench.benchmark(loaded_model, PAIRS, [Random], seed=seed).arrow.to_pylist()
        if row["explainer"]
    ]
    assert {row["explainer"] for row in rows} == {"random"}
    assert len({row["ppl"] for row in rows}) == 2


def test_a_mapping_in_the_place_of_sentences_is_refused(loaded_model):
    with pytest.raises(XnmtError, match="give a list of sentences, such as zip"):
        xnmt_bench.translate(loaded_model, {"source": ["a"], "target": ["b"]})
    frame = type("Frame", (list,), {"columns": ["source"]})(["source"])
    with pytest.raises(XnmtError, match="give a list of sentences, such as zip"):
        xnmt_bench.load_explainer("attention")(loaded_model, frame)


def test_what_another_explainer_would_learn_decides_for_an_altered_one(loaded_model):
    table = xnmt_bench.benchmark(loaded_model, PAIRS[:2], ["noisy"])
    assert any(name.startswith("noisy") for name in table.arrow["explainer"].to_pylist())


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"removal": "zeros"}, "removal='zeros': should be 'zero', 'mean'"),
        ({"foil": -5}, "foil=-5"),
        ({"of": "log_prob"}, "of='log_prob'"),
        ({"removals": "zero"}, "removals: no such option; did you mean removal"),
    ],
)
def test_slips_in_an_explainers_options_are_named(options, problem):
    with pytest.raises(ConfigError, match=problem):
        xnmt_bench.load_explainer("prediction_difference", **options)


@pytest.mark.parametrize("pairs", ["the dog sleeps .", PAIRS[0]])
def test_one_text_or_pair_alone_is_refused(loaded_model, pairs):
    with pytest.raises(XnmtError, match=r"give a list of sentences: \["):
        xnmt_bench.load_explainer("attention")(loaded_model, pairs)


@pytest.mark.parametrize(
    ("arguments", "options", "problem"),
    [
        ((PAIRS, ["atention"]), {}, "did you mean attention"),
        ((PAIRS, {"attention": {}, "gradient_norm": {"off": 1}}), {}, "did you mean of"),
        ((PAIRS, ["attention", "lexicon"]), {}, "lexicon learns from training pairs"),
        ((PAIRS, ["attention"], ["evalx"]), {}, "evalx learns from training pairs"),
        ((PAIRS, ["lexicon"]), {}, "lexicon learns from training pairs"),
        (([], ["attention"]), {}, "needs pairs as 'test'"),
        (({"test": PAIRS, "train": []},), {}, "'train' has no pairs"),
        ((["the dog sleeps ."],), {}, "'test', pair 1 is 'the dog sleeps .', not a .* pair"),
        ((PAIRS, {"diluted": {"by": "frequency_code"}}), {}, "diluted learns from training pairs"),
        (({"tests": PAIRS},), {}, "needs pairs as 'test'"),
        ((PAIRS, {"attention": {"head": 1}}), {}, "did you mean heads"),
        ((PAIRS, "attention"), {}, r"should be in a list: \['attention'\]"),
        ((PAIRS, []), {}, "explainers: the list is empty"),
        ((PAIRS, ["attention"]), {"k": 0}, "k=0: should be greater"),
        ((PAIRS, ["attention"]), {"prefix": "all"}, "prefix='all': should be 'chosen', 'none' or"),
        ((PAIRS, ["attention"]), {"changes": {"proxy.size": 1}}, "proxy.size: no such option"),
    ],
)
def test_slips_of_benchmark_are_named(loaded_model, arguments, options, problem, monkeypatch):
    monkeypatch.setattr("xnmt_bench.notebook.measure", None)  # nothing is measured before
    with pytest.raises((XnmtError, ConfigError), match=problem):
        xnmt_bench.benchmark(loaded_model, *arguments, **options)


@pytest.mark.parametrize(
    ("arguments", "shipped"),
    [
        (["explain=Der Hund ."], True),
        (["explain=Der Hund .", "results=x", "device=cpu"], True),
        (["explain=Der Hund .", "nmt=marian"], False),
        (["explain=Der Hund .", "nmt.path=x"], False),
        (["explain=Der Hund .", "corpus=multi30k"], False),
        (["explain=Der Hund .", "+experiment=demo"], False),
        (["explain=Der Hund .", "store=x"], False),
        (["metric=[aer]"], False),
        (["explain=null"], False),
        (["explain=Der Hund .", "nmt.beam=8"], True),
    ],
)
def test_the_shipped_system_explains_where_no_other_is_chosen(arguments, shipped):
    assert default_system(arguments) == (["nmt=tatoeba_de_en"] if shipped else [])


@pytest.mark.parametrize("script", ["train.py", "evaluate.py"])
def test_help_begins_with_what_one_does_first(script):
    done = subprocess.run(
        [sys.executable, ROOT / script, "--help"], capture_output=True, text=True, check=True
    )
    text = done.stdout
    order = [text.index(part) for part in ("What one does first", "Groups, with", "Options (")]
    assert order == sorted(order)
    for group in ("corpus=toy  sentence pairs", "judge=[base, own, evalx]  predictors"):
        assert group in text
    assert "k: 1 # words a side in a rule" in text and "hydra:" not in text


def test_help_of_the_package_shows_signatures():
    text = pydoc.plain(pydoc.render_doc(xnmt_bench))
    for name in ("benchmark(model:", "load(path:", "load_explainer(name:"):
        assert name in text


@pytest.mark.skipif(not (SHIPPED / "tatoeba_de_en").is_dir(), reason="no system is shipped")
class TestShippedSystem:
    """The German-English system that comes with the package."""

    def test_it_explains_without_a_choice_and_says_so(self, tmp_path):
        done = must_run("evaluate.py", "explain=Der Hund schläft .", cwd=tmp_path)
        assert "system: tatoeba_de_en, which comes with xnmt_bench" in done.stdout
        assert "target (en): The dog" in done.stdout

    def test_the_explainer_of_the_command_line_is_shown_alone_and_as_configured(self, tmp_path):
        def shown(*changes):
            done = must_run(
                "evaluate.py", "explain=Der Hund schläft .", *changes, f"results={tmp_path}",
                cwd=tmp_path,
            )  # fmt: skip
            return done.stdout[done.stdout.index("target (en)") :]

        first, second = (
            shown("explainer=attention", f"explainer.phi.layer={layer}") for layer in (0, 1)
        )
        assert "\nattention\n" in first and "gradient norm\n" not in first
        assert first != second
        foil = shown("explainer=prediction_difference", "explain_foil=The cat is asleep .")
        assert "\nprediction difference\n" in foil and "\nattention\n" not in foil
        assert "dog not cat" in foil

    def test_an_explainer_that_cannot_be_made_stops_no_other(self, tmp_path, monkeypatch, capsys):
        def load(name, **options):
            if name == "attention":
                raise ConfigError(["explainer 'attention': size: is required"])
            return xnmt_bench.load_explainer(name, **options)

        monkeypatch.setattr("xnmt_bench.explain.load_explainer", load)
        sentence = ["nmt=tatoeba_de_en", "explain='Der Hund schläft .'", f"results={tmp_path}"]
        explain(read_settings(configure(*sentence, "device=cpu")))
        shown = capsys.readouterr().out
        assert "attention: n/a: explainer 'attention': size: is required" in shown
        assert "\ngradient norm\n" in shown

    def test_it_says_why_this_word_and_not_that(self, tmp_path):
        shared = ["explain=Der Hund schläft .", "explain_target=The dog is sleeping ."]
        done = must_run("evaluate.py", *shared, "explain_foil=The cat is asleep .", cwd=tmp_path)
        # The first word in which both differ, and no other step.
        assert done.stdout.count("dog not ca") == 7  # as many explainers have a foil
        assert "asleep" not in done.stdout
        assert "rollout: n/a: it cannot explain one word against another" in done.stdout

    @pytest.mark.parametrize(
        ("target", "foil", "problem"),
        [
            ("The dog", "The dog", "equals the target"),
            ("The dog", "The dog猫", "the vocabulary lacks the first word that differs"),
            ("Cats sleep .", "The dog", "the system itself chooses '▁The' there"),
        ],
    )
    def test_a_foil_that_is_none_is_named(self, tmp_path, target, foil, problem):
        options = ["explain=Der Hund schläft .", f"explain_target={target}", f"explain_foil={foil}"]
        done = command("evaluate.py", *options, cwd=tmp_path)
        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        assert line.startswith("error: explain_foil: ") and problem in line

    def test_a_corpus_of_other_languages_is_refused(self, tmp_path):
        done = command("train.py", "nmt=tatoeba_de_en", "corpus=toy", cwd=tmp_path)
        assert done.returncode == 1
        assert "tatoeba_de_en translates de to en, but the corpus toy is en to de" in done.stderr

    def test_its_files_are_small_and_half_precise(self):
        from safetensors.torch import load_file

        files = list((SHIPPED / "tatoeba_de_en").iterdir())
        assert sum(file.stat().st_size for file in files) < 8e6
        weights = load_file(SHIPPED / "tatoeba_de_en" / "model.safetensors")
        assert {weight.dtype for weight in weights.values()} == {torch.float16}

    @pytest.mark.long
    def test_scores_do_not_depend_on_the_processors_instructions(self, tmp_path):
        code = (
            "import sys, torch, xnmt_bench\n"
            "m = xnmt_bench.load('tatoeba_de_en')\n"
            "pair = [('Der Hund schläft.', 'The dog is sleeping.')]\n"
            "names = ['attention', 'gradient_norm', 'weighted_gradient', 'prediction_difference']\n"
            "for path, threads in zip(sys.argv[1::2], map(int, sys.argv[2::2])):\n"
            "    torch.set_num_threads(threads)\n"
            "    torch.save("
            "[xnmt_bench.load_explainer(n)(m, pair)[0].source_TS for n in names], path)\n"
        )
        settings = [
            ({}, (1, 2)),
            ({"ATEN_CPU_CAPABILITY": "default"}, (1,)),
            ({"ATEN_CPU_CAPABILITY": "avx2"}, (1,)),
            ({"ONEDNN_MAX_CPU_ISA": "SSE41"}, (1,)),
        ]
        saved = []
        for number, (environment, threads) in enumerate(settings):
            paths = [tmp_path / f"{number}-{count}.pt" for count in threads]
            arguments = [str(x) for pair in zip(paths, threads, strict=True) for x in pair]
            # A processor's instructions are chosen when torch is imported.
            subprocess.run(
                [sys.executable, "-c", code, *arguments],
                env={**os.environ, **environment}, check=True, cwd=ROOT,
            )  # fmt: skip
            saved += [torch.load(path, weights_only=True) for path in paths]
        assert len(saved) == 5
        for other in saved[1:]:
            for first_TS, other_TS in zip(saved[0], other, strict=True):
                assert (first_TS - other_TS).abs().max() <= 1e-4 * first_TS.abs().max()

    @pytest.mark.slow
    @pytest.mark.shared("deen/sentences.tsv.gz")
    def test_the_cards_bleu_comes_again_from_the_files(self, tmp_path):
        path = DATA / "deen" / "sentences.tsv.gz"
        done = must_run(
            "train.py", "corpus=tatoeba", f"corpus.path={path}", "nmt=tatoeba_de_en",
            "metric=[quality]", "threads=1", cwd=tmp_path,
        )  # fmt: skip
        card = (SHIPPED / "tatoeba_de_en" / "README.md").read_text(encoding="utf-8")
        stated = float(re.search(r"BLEU (\d+\.\d+)", card)[1])
        assert float(re.search(r"BLEU (\d+\.\d+)", done.stdout)[1]) == pytest.approx(
            stated, abs=0.3
        )

    def test_its_corpus_is_quickly_benchmarked(self, tmp_path):
        pairs = [("Der Hund schläft.", "The dog is sleeping."), ("Wo ist er?", "Where is he?")]
        for side, language in enumerate(("de", "en")):
            lines = "".join(f"{pair[side]}\n" for pair in pairs * 10)
            for split in ("train", "valid", "test"):
                (tmp_path / f"{split}.{language}").write_text(lines, encoding="utf-8")
        done = must_run(
            "train.py", "experiment=quick", "nmt=tatoeba_de_en", "corpus=text",
            f"corpus.root={tmp_path}", "corpus.source_language=de", "corpus.target_language=en",
            "explainer=gradient_norm", "proxy.training.max_epochs=1", "threads=1", cwd=tmp_path,
        )  # fmt: skip
        assert "left out to be quick: judge own (judge=[base,own,evalx])" in done.stdout
        shown = command("evaluate.py", "metric=[fidelity]", cwd=tmp_path)
        printed = re.sub(r"\s+", " ", shown.stdout)
        assert "Left out to be quick: judge own (judge=[base,own,evalx])" in printed


def test_explain_reads_as_many_sentences_before_as_configured():
    settings = SimpleNamespace(
        explain=END.join(["a", "b", "c"]), explain_target=END.join("ABC"), explain_foil=""
    )
    system = SimpleNamespace(markers=SimpleNamespace(mark=str), read_sentences=None)
    assert passage_of(system, settings).source_context == ["a", "b"]
    system.read_sentences, system.context = 1, Context(1)
    passage = passage_of(system, settings)
    assert (*passage.source_context,) == ("b",) and (*passage.target_context,) == ("B",)
