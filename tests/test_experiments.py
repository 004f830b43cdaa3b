"""An experiment of the paper's from the command line: one line makes it, one line reports it."""

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from support.configurations import SIZES, SMALL
from support.debug_page_reader import read_listings
from support.forked_commands import must_run
from xnmt_bench.rules.table import relevance
from xnmt_bench.store import Store

pytestmark = pytest.mark.long
FEW = [*SMALL, *SIZES["transformer"], "corpus.seed=0", "rules.train_sentences=100",
       "rules.test_sentences=40", "proxy.training.max_epochs=1",
       "judge=[base,own]"]  # fmt: skip
EXPLAINERS = ("gradient_norm", "random")


@pytest.fixture(scope="module")
def figure1_results(transformer, workplace, tmp_path_factory):
    """The results of Figure 1 on a small scale."""
    folder = tmp_path_factory.mktemp("figure1")
    options = ["experiment=li2020/figure1", *FEW, f"store={workplace}/store",
             f"results={folder}/results", "k=1,2"]  # fmt: skip
    must_run("train.py", "-m", *options, f"explainer={','.join(EXPLAINERS)}",
             f"hydra.sweep.dir={folder}/sweep")  # fmt: skip
    read = must_run("evaluate.py", *options[:-1], "k=2", f"hydra.run.dir={folder}/run")
    assert "PPL against k" in read.stdout
    return folder / "results"


def test_numbers_table_and_figure(figure1_results):
    with (figure1_results / "fidelity_k.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {(r["explainer"], r["k"], r["result"]) for r in rows} == {
        (e, k, i) for e in EXPLAINERS for k in "12" for i in ("base", "sa")
    }
    for ending in ("svg", "png", "tex", "md", "txt"):
        assert (figure1_results / f"fidelity_k.{ending}").stat().st_size > 0


def test_the_page_is_whole_by_itself(figure1_results):
    page = (figure1_results / "report.html").read_text(encoding="utf-8")
    for outside in ("http://", "https://", 'src="/', "<link"):
        assert outside not in page
    for text in ("PPL against k", "data:image/svg+xml", "explainer:", "FIDELITY|corpus:toy",
                 "QUALITY|corpus:toy"):  # fmt: skip
        assert text in page
    sections = ("about", "verdict", "columns", "fidelity", "quality", "fidelity_k", "made")
    assert re.findall(r'<section id="(.*?)">', page) == list(sections)


def test_figure_3_lists_words_without_a_gold_link(
    figure1_results, workplace, transformer, tmp_path
):
    # Another report has another page.
    results = shutil.copytree(figure1_results, tmp_path / "results")
    must_run("evaluate.py", "experiment=li2020/figure3", *FEW, f"store={workplace}/store",
             f"results={results}", f"hydra.run.dir={tmp_path}/run")  # fmt: skip
    with (results / "fidelity_unaligned.csv").open() as file:
        rows = list(csv.DictReader(file))
    texts, target = transformer.texts, transformer.system.subwords[1]
    split, gold = texts.split("test"), texts.gold("test")
    index_of = {int(n): i for i, n in enumerate(split.number)}
    assert len(rows) >= 2 * len(EXPLAINERS)
    for row in rows:
        number, step = int(row["sentence"]), int(row["step"])
        ids = split.target[index_of[number]].tolist()
        word = target.words(ids)[step]
        assert word not in {j for _, j in gold[number].possible}
        assert row["target"] == target.pieces([ids[step]])[0].replace("▁", "")
    assert {r["explainer"] for r in rows} == set(EXPLAINERS)
    assert (results / "fidelity_facets.svg").exists()
    assert "gold link of the target word" in (results / "fidelity_facets.md").read_text()


def test_the_page_shows_the_relevance_in_the_store(figure1_results, workplace):
    paths = sorted((figure1_results / "measurements" / "fidelity").glob("*.json"))
    measurements = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    store = Store(workplace / "store")
    folders = {artefact.fingerprint: artefact.path for artefact in store.all("rules")}
    rules = {
        m["identity"]["explainer"]: folders[m["made_by"]["judged"]]
        for m in measurements
        if "browsed_relevance" in m["files"]
    }
    assert set(rules) == set(EXPLAINERS)
    [sample] = {m["files"]["sample"] for m in measurements if "sample" in m["files"]}
    path = figure1_results / "measurements" / "fidelity" / "files" / sample
    sentences = json.loads(path.read_text(encoding="utf-8"))
    listings = read_listings(figure1_results / "debug.html")
    # Those that ask the model stand in front of blind ones.
    names = [listing["name"].partition(", ")[0] for listing in listings]
    assert sorted(names) == sorted(EXPLAINERS)
    assert names[-1] == "random"
    for listing, name in zip(listings, names, strict=True):
        relevance_of = {r.number: r for r in relevance(rules[name], "test")}
        assert listing["kind"] == "decisions"
        assert listing["numbers"] == [s["number"] for s in sentences]
        for sentence, shown in zip(sentences, listing["shown"], strict=True):
            source, target = sentence["source"], sentence["target"]
            assert shown["columns"] == [*source, *target]
            assert shown["rows"] == sentence["labels"]
            assert shown["sources"] == len(source)
            if shown["rows"][-1] == "</s>":
                assert shown["row_words"][-1] == 1  # a word of its own
            stored = relevance_of[sentence["number"]]
            scores_TX = np.concatenate([stored.source_TS, stored.prefix_TT], axis=1)
            for step, scores, levels in zip(
                sentence["steps"], scores_TX, shown["levels"], strict=True
            ):
                unseen = np.flatnonzero(levels == 255).tolist()
                assert unseen == list(range(len(source) + step, len(source) + len(target)))
                coloured = levels < 255
                shares = np.maximum(scores[coloured], 0) / max(np.nanmax(scores), 1e-30)
                # A level is one of 250 steps.
                assert np.abs(levels[coloured] / 250 - shares).max() <= 1 / 250 + 1e-9


ANALYSES = "analysis=[k,significance,rank_stability,ranking,facets,unaligned,density]"


def test_results_alone_make_the_whole_report_elsewhere(figure1_results, workplace, tmp_path):
    """Tables, figures, analyses and both pages need no store and no file of the first machine."""
    written = {}
    for name in ("here", "elsewhere"):
        folder = tmp_path / name / "results"
        shutil.copytree(figure1_results / "measurements", folder / "measurements")
        store = workplace / "store" if name == "here" else tmp_path / "no store"
        must_run(
            "evaluate.py",
            ANALYSES,
            f"store={store}",
            f"results={folder}",
            f"hydra.run.dir={tmp_path}/{name}/run",
        )
        paths = [p for p in folder.iterdir() if p.suffix in (".csv", ".md", ".txt", ".tex")]
        written[name] = {path.name: path.read_text() for path in paths}
        shown = [
            (listing["name"], listing["shown"]) for listing in read_listings(folder / "debug.html")
        ]
        written[name]["debug"] = str(shown)
        assert (folder / "report.html").stat().st_size > 10_000
    assert {f"fidelity_{a}.csv" for a in ("facets", "unaligned", "density")} <= set(written["here"])
    assert written["here"] == written["elsewhere"]
    assert not (tmp_path / "no store").exists()


def test_no_measurement_holds_a_path_of_the_machine(figure1_results, workplace):
    for path in (figure1_results / "measurements").rglob("*.json"):
        text = path.read_text(encoding="utf-8")
        for folder in (workplace, figure1_results, Path.home(), Path("/tmp")):
            assert f"{folder}/" not in text, path
