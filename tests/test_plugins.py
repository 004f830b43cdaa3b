"""Packages that add explainers, metrics, a judge, a proxy, an architecture, an analysis."""

import csv
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import fields

import pytest
import torch

from support import forked_commands
from support.forked_commands import command
from support.paths import ROOT
from support.plugin_packages import install
from support.systems import batch_of, double
from xnmt_bench.rules.table import Rules

GUIDE = ROOT / "docs" / "guide"
TINY = [
    "corpus.train=300", "corpus.valid=20", "corpus.test=20", "corpus.subwords.source_size=300",
    "corpus.subwords.target_size=400", "nmt.beam=1", "nmt.training.max_epochs=1",
    "nmt.training.batch_tokens=400", "nmt.training.warmup_steps=50", "rules.train_sentences=20",
    "rules.test_sentences=10", "rules.largest_k=1", "proxy.training.max_epochs=2",
    "trainer.progress_bar=false", "threads=1",
]  # fmt: skip


PACKAGES = (
    "plugin",
    "plugin_judge",
    "plugin_metric",
    "plugin_models",
    "plugin_path_gradient",
    "plugin_sufficiency",
)
METRICS = "metric=[fidelity,length_ratio,sufficiency]"


@pytest.fixture(scope="module")
def plugin_site(tmp_path_factory):
    """A folder that the fixtures' packages are installed into."""
    folder = tmp_path_factory.mktemp("plugins")
    packages = [
        # A build leaves files behind, so it is made from a copy.
        shutil.copytree(ROOT / "tests" / "fixtures" / name, folder / name)
        for name in PACKAGES
    ]
    install(folder / "site", *packages)
    return folder / "site"


@pytest.fixture(scope="module")
def plugin_results(plugin_site, tmp_path_factory):
    """A sweep over all of them."""
    folder = tmp_path_factory.mktemp("sweep")
    places = [f"store={folder}/store", f"results={folder}/results"]
    done = run(plugin_site, "train.py", "-m", *TINY, *places, "nmt=shallow",
               "nmt.sizes.dimension=16,32", "explainer=last_word,gradient_norm,path_gradient",
               "proxy=bag", "proxy.sizes.dimension=8", METRICS,
               "judge=[base,own,evalx,cooccurrence]", "judge.cooccurrence.smoothing=0.1",
               "metric.length_ratio.characters=true", f"hydra.sweep.dir={folder}/jobs")  # fmt: skip
    assert done.returncode == 0, done.stderr
    read = run(plugin_site, "evaluate.py", *places, METRICS,
               "analysis=[significance,best,density]", "analysis.best.loud=true",
               f"hydra.run.dir={folder}/run")  # fmt: skip
    assert read.returncode == 0, read.stderr
    return folder / "results"


def run(site, script, *changes):
    environment = {"PYTHONPATH": str(site)}
    return command(script, *changes, env=environment, cwd=site.parent)


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_metric_is_in_table_page_and_significance(plugin_results):
    ratios = rows(plugin_results / "length_ratio.csv")
    assert [r["nmt"] for r in ratios] == ["shallow"] * 2  # of two widths
    for row in ratios:
        assert float(row["ratio_low"]) <= float(row["ratio"]) <= float(row["ratio_high"])
        assert row["units"] == "20"
        assert row["signature"].startswith("LENGTH_RATIO|corpus:toy|")
    assert "Length of translations" in (plugin_results / "length_ratio.txt").read_text()
    assert (plugin_results / "length_ratio.svg").stat().st_size > 1000
    page = (plugin_results / "report.html").read_text(encoding="utf-8")
    assert '<section id="length_ratio">' in page
    assert "Significance of differences in length ratio" in page
    pairs = rows(plugin_results / "length_ratio_significance.csv")
    assert len(pairs) == 1
    assert {r["paired"] for r in pairs} == {"True"}


def test_its_number_is_that_of_the_stored_translations(plugin_results):
    """Recomputed from the translations in the store and the corpus itself."""
    from xnmt_bench.corpora.toy import ToyCorpus
    from xnmt_bench.store import Store

    references = sum(len(s.target) for s in ToyCorpus(train=500, test=20).sentences("test"))
    expected = {
        sum(map(len, (artefact.path / "test.txt").read_text().split("\n")[:-1])) / references
        for artefact in Store(plugin_results.parent / "store").all("translation")
    }
    ratios = {float(r["ratio"]) for r in rows(plugin_results / "length_ratio.csv")}
    assert sorted(ratios) == pytest.approx(sorted(expected))


def test_a_proxy_and_an_architecture_are_in_every_table(plugin_results):
    fidelity_rows = rows(plugin_results / "fidelity.csv")
    judges = {"base", "bag", "evalx_bag", "cooccurrence"}
    assert {r["instantiation"] for r in fidelity_rows} == judges | {"unigram", "nmt"}
    assert {r["explainer"] for r in fidelity_rows} == {
        "last_word",
        "gradient_norm",
        "path_gradient",
        "",
    }
    assert all(r["status"] == "ok" for r in fidelity_rows)
    # The plug-in's judge stands behind the built-in ones, under its own heading.
    assert (
        "| Base | own bag | EVAL-X bag | counts |" in (plugin_results / "fidelity.md").read_text()
    )
    compared = rows(plugin_results / "fidelity_significance.csv")
    assert {r["result"] for r in compared} == judges


def test_a_judge_is_in_figure_and_page(plugin_results):
    assert "counts" in (plugin_results / "fidelity.svg").read_text()
    page = (plugin_results / "report.html").read_text(encoding="utf-8")
    assert "<th>counts</th>" in page
    # It tells no first choice, so its accuracy is unknown.
    judge_rows = [
        r for r in rows(plugin_results / "fidelity.csv") if r["instantiation"] == "cooccurrence"
    ]
    assert len(judge_rows) == 6
    assert all(r["status"] == "ok" and r["accuracy"] == "" for r in judge_rows)
    # It learns from the rules of training sentences, whose density is counted once.
    density = rows(plugin_results / "fidelity_density.csv")
    assert len({r["rules_id"] for r in density}) == len(density) == 6


def test_its_perplexity_is_that_of_the_counts(plugin_results):
    """Recomputed from the rules in the store."""
    from xnmt_bench.rules.table import all_rules, read_rules, shards
    from xnmt_bench.store import Store

    store = Store(plugin_results.parent / "store")
    by_fingerprint = {artefact.fingerprint: artefact for artefact in store.all("rules")}
    for row in rows(plugin_results / "fidelity.csv"):
        if row["instantiation"] != "cooccurrence":
            continue
        parts = dict(part.split(":", 1) for part in row["signature"].split("|")[1:])
        test = all_rules(by_fingerprint[parts["judged"]].path, "test", 1)
        [judged] = [a for a in store.all("judged") if a.fingerprint == parts["scores"]]
        training = by_fingerprint[judged.recipe["training_rules"]]
        counts = Counter()
        for path in shards(training.path, "train"):
            rules = read_rules(path, 1)
            counts.update(zip(rules.source_NK[:, 0].tolist(), rules.label_N.tolist(), strict=True))
        totals = Counter()
        for (word, _), count in counts.items():
            totals[word] += count
        labels = 400  # the size of the target vocabulary
        losses = [
            -math.log((counts[word, label] + 0.1) / (totals[word] + 0.1 * labels))
            for word, label in zip(
                test.source_NK[:, 0].tolist(), test.label_N.tolist(), strict=True
            )
        ]
        assert float(row["ppl"]) == pytest.approx(math.exp(sum(losses) / len(losses)))


def test_a_metric_on_explanations(plugin_results):
    """A difference of two probabilities for each explainer, with its interval."""
    sufficiency_rows = rows(plugin_results / "sufficiency.csv")
    assert len(sufficiency_rows) == 6
    assert all(abs(float(r["sufficiency"])) < 1 for r in sufficiency_rows)
    assert "sufficiency" in (plugin_results / "sufficiency.md").read_text()


@pytest.mark.long
def test_an_explainer_on_embeddings_is_complete(transformer, monkeypatch):
    """Integrated gradients of a step sum to P(label) with the words minus P(label) with zeros."""
    monkeypatch.syspath_prepend(ROOT / "tests" / "fixtures" / "plugin_path_gradient")
    from xnmt_path_gradient import PathGradient

    from xnmt_bench.corpora.vocabulary.subwords import BOS
    from xnmt_bench.explainers.base import decide

    model, split = double(transformer.system.model), transformer.texts.split("test")
    # BOS is an input as well, but no word: with an embedding of zeros it has no part.
    model.target_embedding.weight[BOS] = 0
    batch, log_p_BT = decide(model, batch_of(split, [0]))
    relevance = PathGradient(points=100).relevance(model, batch)
    zeros = [
        torch.zeros_like(model.embed_source(batch.source_BS)),
        torch.zeros_like(model.embed_target(batch.input_BT)),
    ]
    states_BTD = model.decode(model.encode(zeros[0], batch.layout), zeros[1])
    empty_BT = model.log_probability(states_BTD, batch.labels_BT).exp()
    sums_BT = relevance.source_BTS.sum(-1) + relevance.prefix_BTT.nan_to_num().sum(-1)
    torch.testing.assert_close(sums_BT, log_p_BT.exp() - empty_BT, rtol=0, atol=0.01)


def test_an_analysis_answers_for_every_metric(plugin_results):
    for metric in ("fidelity", "length_ratio"):
        text = (plugin_results / f"{metric}_best.md").read_text()
        assert "!" in text  # its option came through
    # Two widths are two families, whose names end in the first digits of their fingerprints.
    described = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in (plugin_results / "measurements" / "length_ratio").glob("*.json")
    ]
    family_of = {row["model"]: row["facts"]["lineage"]["family"] for row in described}
    ratios = {f"{r['nmt']} {family_of[r['model']][:6]}": float(r["ratio"]) for r in
              rows(plugin_results / "length_ratio.csv")}  # fmt: skip
    [best] = rows(plugin_results / "length_ratio_best.csv")
    assert len(ratios) == 2
    assert best["best"] == min(ratios, key=ratios.get)


def test_a_metric_of_a_file_opens_no_model(plugin_site, tmp_path):
    (tmp_path / "mine.txt").write_text("ein Wort\n" * 60)
    done = run(plugin_site, "evaluate.py", "corpus.test=60", f"outputs.path={tmp_path}/mine.txt",
               "outputs.name=mine", "metric=[length_ratio]", f"store={tmp_path}/store",
               f"results={tmp_path}/results", f"hydra.run.dir={tmp_path}/run")  # fmt: skip
    assert done.returncode == 0, done.stderr
    [row] = rows(tmp_path / "results" / "length_ratio.csv")
    assert (row["nmt"], row["model"]) == ("mine", "")
    from xnmt_bench.corpora.toy import ToyCorpus

    words = sum(len(s.target.split()) for s in ToyCorpus(test=60).sentences("test"))
    assert float(row["ratio"]) == pytest.approx(120 / words)
    assert not (tmp_path / "store").exists()


def test_a_mistyped_option_or_name_is_one_line(plugin_site, tmp_path):
    where = [f"hydra.run.dir={tmp_path}/run", f"results={tmp_path}/results"]
    done = run(plugin_site, "train.py", *where, "metric=[lenght_ratio]")
    assert done.returncode == 2
    assert done.stderr.strip() == "error: no metric 'lenght_ratio'; did you mean length_ratio?"
    done = run(
        plugin_site, "train.py", *where, "metric=[length_ratio]", "metric.length_ratio.word=true"
    )
    assert done.returncode == 2
    expected = "error: no option in metric.length_ratio 'word'; there are characters"
    assert done.stderr.strip() == expected


def test_what_nobody_names_is_not_imported(plugin_site, tmp_path):
    """A plug-in that is broken spoils nothing but itself."""
    broken = tmp_path / "site"
    shutil.copytree(plugin_site, broken)
    (broken / "xnmt_length_ratio.py").write_text("raise ImportError('no such library')\n")
    environment = {**os.environ, "PYTHONPATH": str(broken)}

    def help_with(*arguments):
        return subprocess.run(
            [sys.executable, str(ROOT / "train.py"), *arguments, "--help"],
            env=environment, capture_output=True, text=True, cwd=tmp_path,
        )  # fmt: skip

    assert help_with().returncode == 0
    done = help_with("metric=[length_ratio]")
    assert done.returncode == 2
    assert "no such library" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("plugins", "plugin_judge/xnmt_cooccurrence.py"),
        ("plugins", "plugin_path_gradient/xnmt_path_gradient.py"),
        ("writing_metrics", "plugin_metric/xnmt_length_ratio.py"),
        ("writing_metrics", "plugin_sufficiency/xnmt_sufficiency.py"),
    ],
)
def test_the_docs_show_each_package_as_it_is_run_here(name, module):
    page = (GUIDE / f"{name}.md").read_text(encoding="utf-8")
    code = (ROOT / "tests" / "fixtures" / module).read_text(encoding="utf-8")
    assert f"```python\n{code}```" in page


def test_the_first_class_of_the_docs_works_without_a_package(tmp_path):
    """From a file in Python, and by its name on the command line."""
    page = (GUIDE / "plugins.md").read_text(encoding="utf-8")
    code, _, _ = page.partition("```python\n")[2].partition("```")
    script = tmp_path / "my_module.py"
    script.write_text(code, encoding="utf-8")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = forked_commands.run(script, [], tmp_path, environment)
    assert done.returncode == 0, done.stderr
    assert "nearest_first" in done.stdout
    # The class and nothing below it, which is run where the file is imported.
    script.write_text(code.partition("\nmodel = ")[0], encoding="utf-8")
    changes = ["explainer=nearest", "explainer.phi._target_=my_module.NearestFirst"]
    changes += ["explainer.name=mine", "explain=Der Hund", f"results={tmp_path}/results"]
    done = command("evaluate.py", *changes, env={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mine" in done.stdout


def test_the_docs_list_the_fields_of_rules():
    page = (GUIDE / "plugins.md").read_text(encoding="utf-8")
    table = page.partition("| field | shape |")[2].partition("\n\n")[0]
    assert re.findall(r"`(\w+)`", table) == [field.name for field in fields(Rules)]


@pytest.mark.parametrize(
    "module",
    [
        "plugin_judge/xnmt_cooccurrence.py",
        "plugin_path_gradient/xnmt_path_gradient.py",
        "plugin_sufficiency/xnmt_sufficiency.py",
    ],
)
def test_a_judge_an_explainer_and_a_metric_on_explanations_take_thirty_lines(module):
    code = (ROOT / "tests" / "fixtures" / module).read_text(encoding="utf-8")
    assert len(code.splitlines()) <= 30
