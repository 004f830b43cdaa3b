"""Contrastive accuracy of small systems: exact where nothing that is read can decide."""

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from support.configurations import DISCOURSE, configure
from support.debug_page_reader import read_listings
from support.forked_commands import command, must_run
from xnmt_bench.corpora.passage import Passage
from xnmt_bench.corpora.suites.contrastive.group import to_lines
from xnmt_bench.corpora.suites.contrastive.reading import as_read
from xnmt_bench.corpora.toy.discourse import ToyDiscourse
from xnmt_bench.corpora.vocabulary.subwords import EOS, SEPARATOR
from xnmt_bench.errors import XnmtError
from xnmt_bench.measuring.bootstrap import Draws, score
from xnmt_bench.measuring.measurement import write
from xnmt_bench.metrics.contrastive import Contrastive
from xnmt_bench.metrics.contrastive.metric import _chosen
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.validation import ContrastiveAccuracy
from xnmt_bench.pipeline.job import Job
from xnmt_bench.run import configured_metrics
from xnmt_bench.schema import check

CHANCE = {"address": 1 / 2, "names": 1 / 2, "pronouns": 1 / 3, "ellipsis": 1 / 4}


def tiny(workplace, *changes):
    return [*DISCOURSE, f"store={workplace}/store", *changes]


@pytest.fixture(scope="module")
def concat_job(workplace):
    """Reads three sentences."""
    return Job(configure(*tiny(workplace, "nmt=concat")))


def accuracy(job, folder, metric=None):
    """By set and part."""
    accuracy_of = {}
    metric = metric or Contrastive()
    for planned in metric.measure(job):
        scored = score(
            metric, write("contrastive", planned.identify(), planned.make(), folder), Draws(20, 0)
        )
        if planned.keys["nmt"] != "chance":
            topic = planned.keys["corpus"].split()[-1]
            accuracy_of[topic, planned.keys["part"]] = scored.values["accuracy"]
    return accuracy_of


def test_who_reads_no_context_is_right_by_chance_to_the_digit(workplace, tmp_path):
    accuracy_of = accuracy(Job(configure(*tiny(workplace, "nmt=transformer"))), tmp_path)
    for (topic, part), value in accuracy_of.items():
        if part in ("all", "distance 1", "distance 2", "distance 3"):
            assert value == pytest.approx(CHANCE[topic], abs=1e-12), (topic, part)
    assert {part for topic, part in accuracy_of if topic == "pronouns"} > {"er", "sie", "es"}


def test_beyond_the_window_nothing_decides(concat_job, tmp_path):
    near = concat_job.changed({"nmt": {"context": {"read": 1}}})
    assert near.system.name == "concat reading 1"
    assert near.system.fingerprint == concat_job.system.fingerprint
    accuracy_of = accuracy(near, tmp_path)
    for topic, chance in CHANCE.items():
        for part in ("distance 2", "distance 3"):
            assert accuracy_of[topic, part] == pytest.approx(chance, abs=1e-12), (topic, part)
    with pytest.raises(XnmtError, match=r"nmt.context.read=3: transformer reads 0 sentences"):
        _ = Job(configure("nmt.context.read=3")).system


def passages(job):
    return [
        passage
        for contrastive_set in job.corpus.contrastive("test")
        for group in contrastive_set.groups[::11]
        for passage in group.passages()
    ]


def by_hand(model, passage):
    """The sum of the current sentence's log-probabilities, from logits of its own ids."""
    sides = []
    for subwords, before, now in (
        (model.source_subwords, passage.source_context, passage.source),
        (model.target_subwords, passage.target_context, passage.target),
    ):
        context = [i for text in before for i in (*subwords.encode(text), SEPARATOR)]
        sides.append(([*context, *subwords.encode(now), EOS], len(context)))
    (source, _), (target, start) = sides
    log_p = model(Batch.collate([(source, target)]))[0].double().log_softmax(-1)
    return float(sum(log_p[t, target[t]] for t in range(start, len(target))))


@torch.no_grad()
def test_a_score_is_the_sum_one_by_one_in_any_order(concat_job):
    every = passages(concat_job)
    expected = [by_hand(concat_job.system.model, passage) for passage in every]
    np.testing.assert_allclose(concat_job.log_probability(every), expected, rtol=1e-5, atol=1e-5)
    turned = concat_job.log_probability(every[::-1])[::-1]
    np.testing.assert_allclose(turned, expected, rtol=1e-5, atol=1e-5)
    ids = [len(concat_job.system.subwords[1].encode(passage.target)) + 1 for passage in every]
    np.testing.assert_allclose(
        concat_job.log_probability(every, normalise=True), np.array(expected) / ids, rtol=1e-5
    )


def test_no_word_of_another_passage_has_any_influence(concat_job):
    first, *following = passages(concat_job)[:20:5]
    changed = [Passage(p.source, p.target, ("a b c",) * 3, ("d e f",) * 3) for p in following]
    alone = concat_job.log_probability([first])[0]
    for behind in (following, changed):
        assert concat_job.log_probability([first, *behind])[0] == pytest.approx(alone, rel=1e-5)
    context = Passage(first.source, first.target, ("a b c",) * 3, first.target_context)
    assert concat_job.log_probability([context])[0] != pytest.approx(alone, rel=1e-5)


def test_only_what_the_system_reads_is_read(concat_job):
    many_to_one = concat_job.changed({"nmt": {"context": {"target": False, "following": 1}}})
    passage = Passage("s", "t", ("a", "b"), ("A",), ("f", "g"))
    read = passage.read(many_to_one.system.context)
    assert read == Passage("s", "t", ("a", "b"), (), ("f",))
    # Both sides read as many sentences as both have.
    assert passage.read(concat_job.system.context) == Passage("s", "t", ("b",), ("A",), ())


def test_options_that_are_not_usual_are_in_the_name(concat_job):
    metric = Contrastive(ties="first", normalise=True, lowercase=True)
    rows = list(metric.measure(concat_job))
    assert rows[0].keys["corpus"] == (
        "toy_discourse address (mean over ids, lower-cased, ties: first)"
    )


class Shouted(ToyDiscourse):
    """Its sentences are written in capitals."""

    def words(self, text, language):
        return text.upper()


def test_training_reads_the_sets_as_the_corpus_is_written(concat_job):
    corpus = Shouted(train=400, valid=30, test=30, families=5)
    [valid_set, *_] = corpus.contrastive("valid")
    read = as_read(valid_set, corpus)
    assert read.groups[0].source == valid_set.groups[0].source.upper()
    with pytest.raises(XnmtError, match="is en-ru, but the system translates en-de"):
        as_read(replace(valid_set, lang_pair="en-ru"), corpus)
    accuracy = ContrastiveAccuracy([valid_set], concat_job.system.context, 500)(
        concat_job.system.model
    )
    marked = []

    def mark(passages):
        marked.extend(passages)
        return list(passages)

    marking = ContrastiveAccuracy([valid_set], concat_job.system.context, 500, mark, "resolver")
    assert marking.fingerprint == f"{valid_set.fingerprint} resolver"
    # Marked once, however often training looks.
    assert marking(concat_job.system.model) == marking(concat_job.system.model) == accuracy
    assert len(marked) == sum(len(group.passages()) for group in valid_set.groups)
    metric = Contrastive()
    [planned, *_] = [
        p for p in metric.measure(concat_job) if p.keys["corpus"] == "toy_discourse address"
    ]
    # The test set's own, by the metric's own way.
    tested = ContrastiveAccuracy(
        concat_job.corpus.contrastive("test")[:1], concat_job.system.context, 500
    )
    units = planned.make().units
    share_right = metric.score(units, np.ones((1, len(units))))["accuracy"][0]
    assert tested(concat_job.system.model) == pytest.approx(100 * share_right)
    assert 0 <= accuracy <= 100


@pytest.mark.long
def test_training_stops_by_bleu_and_accuracy(workplace, tmp_path):
    changes = ["nmt=concat", "nmt.training.stop=[bleu,contrastive]", "nmt.training.max_epochs=3"]
    job = Job(configure(*tiny(workplace, *changes)))
    curve = job.system.curve
    assert len(curve) == 3
    assert all({"bleu", "contrastive", "valid_loss", "step"} <= epoch.keys() for epoch in curve)
    assert [epoch["step"] for epoch in curve] == sorted({epoch["step"] for epoch in curve})
    kept = max(curve, key=lambda epoch: epoch["bleu"] + epoch["contrastive"])
    assert job.system.trained.facts["valid_loss"] == pytest.approx(kept["valid_loss"])
    metric = Contrastive()
    rows = [write("contrastive", p.identify(), p.make(), tmp_path) for p in metric.measure(job)]
    [(name, figure)] = metric.figures(rows)
    assert name.startswith("training_concat")
    assert [len(ax.lines[0].get_xdata()) for ax in figure.axes] == [3, 3]


@pytest.fixture(scope="module")
def ran(workplace, tmp_path_factory):
    """Two systems, and a file of scores, measured and shown as a user does."""
    folder = tmp_path_factory.mktemp("contrastive")
    options = tiny(workplace, f"results={folder}/results", f"hydra.run.dir={folder}/run")
    for nmt in ("transformer", "concat"):
        must_run("train.py", *options, f"nmt={nmt}", "metric=[contrastive,quality]", cwd=folder)
    sets = Job(configure(*options)).corpus.contrastive("test")
    (folder / "mine.jsonl").write_text(to_lines(sets), encoding="utf-8")
    lines = [
        f"{float(n != g.true)}\n" for s in sets for g in s.groups for n in range(len(g.variants))
    ]
    (folder / "losses.txt").write_text("".join(lines))
    return folder, options


def shown(ran, *changes):
    folder, options = ran
    return command("evaluate.py", *options, "metric=[contrastive,quality]", *changes, cwd=folder)


def test_tables_and_analyses(ran):
    folder, _ = ran
    done = shown(ran, "analysis=[systems,significance]")
    assert done.returncode == 0, done.stderr
    results = folder / "results"
    with (results / "contrastive.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    row_of = {(r["corpus"], r["nmt"]): r for r in rows if r["part"] == "all"}
    assert len(row_of) == 4 * 3
    names = row_of["toy_discourse names", "transformer"]
    assert (float(names["accuracy"]), names["groups"], names["units"]) == (0.5, "30.0", "15")
    assert float(names["accuracy_low"]) == float(names["accuracy_high"]) == 0.5
    assert {r["remarks"] for r in rows if r["nmt"] == "chance"} == {"blind"}
    table = (results / "contrastive.md").read_text()
    assert "toy_discourse names transformer: it reads the current sentence only." in table
    assert "concat: it reads" not in table
    assert "chance (blind)" in table
    systems = (results / "systems.md").read_text()
    assert re.search(r"\| NMT \| .*accuracy % toy_discourse address.*BLEU toy_discourse", systems)
    assert (results / "contrastive_significance.csv").exists()
    assert "accuracy" in (results / "quality.md").read_text()
    _groups_can_be_read(results, folder / "mine.jsonl", row_of)


def _groups_can_be_read(results, path, row_of):
    """Each set and system is a listing, with every variant's score."""
    listings = {
        (layer["kind"], name): layer
        for layer in read_listings(results / "debug.html")
        for name in ("transformer", "concat")
        if layer["name"].startswith(name)
    }
    assert len(listings) == 4 * 2
    groups = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for (kind, name), listing in listings.items():
        row = row_of[kind.removeprefix("contrastive groups, "), name]
        right = listing["values"]["right"]
        assert right.mean() == float(row["accuracy"])
        assert listing["lists"][0]["places"] == np.flatnonzero(right == 0).tolist()
        for place, margin in enumerate(listing["values"]["margin"]):
            true, *other_scores = [score for _, score in listing["choices"][place]]
            assert margin == true - max(other_scores)
            assert right[place] == (margin > 0)
        assert set(listing["texts"]["source"]) <= {group.get("source") for group in groups}


@pytest.mark.long
def test_scores_of_others_stand_beside_them(ran):
    folder, _ = ran
    alone = "metric=[contrastive]"
    input_file = [f"scores.path={folder}/losses.txt", "scores.name=theirs", alone]
    set_option = f"metric.contrastive.sets=[{folder}/mine.jsonl]"
    assert shown(ran, *input_file, set_option, "scores.higher_is_better=false").returncode == 0
    with (folder / "results" / "contrastive.csv").open(newline="", encoding="utf-8") as file:
        rows = {(r["corpus"], r["part"]): r for r in csv.DictReader(file) if r["nmt"] == "theirs"}
    assert {row["accuracy"] for row in rows.values()} == {"1.0"}
    assert ("mine toy_discourse pronouns", "distance 3") in rows
    notes = (folder / "results" / "contrastive.md").read_text()
    assert "theirs: accuracy is below chance" not in notes
    # The same file with its sign forgotten, and scores that know nothing.
    assert shown(ran, input_file[0], alone, "scores.name=turned", set_option).returncode == 0
    (folder / "same.txt").write_text("0.5\n" * len((folder / "losses.txt").read_text().split()))
    same_scores = [f"scores.path={folder}/same.txt", "scores.name=same", alone]
    assert shown(ran, *same_scores, set_option).returncode == 0
    notes = (folder / "results" / "contrastive.md").read_text()
    assert (
        "address turned: accuracy is below chance, but 100.0 % if lower scores are better" in notes
    )
    assert "address same: in 30 groups the true variant ties with the best" in notes
    (folder / "few.txt").write_text("1\n2\n")
    done = shown(ran, f"scores.path={folder}/few.txt", set_option, alone)
    assert done.returncode == 1
    assert re.search(r"few.txt: 2 lines, but there are \d+ pairs to be scored", done.stderr)


def test_groups_are_chosen_by_their_published_numbers(tmp_path):
    """As the page and `groups.parquet` name them, where some groups alone are here."""
    contrastive_set = ToyDiscourse(families=2).contrastive("test")[0]
    part = contrastive_set.taken([3, 5, 8])
    (tmp_path / "chosen").write_text("8\n3\n")
    chosen = _chosen(part, tmp_path / "chosen")
    assert list(chosen.groups) == [contrastive_set.groups[8], contrastive_set.groups[3]]
    assert list(chosen.numbers) == [8, 3]
    (tmp_path / "chosen").write_text("1\n")
    with pytest.raises(XnmtError, match="chosen: toy_discourse address has no group 1, among 3"):
        _chosen(part, tmp_path / "chosen")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["corpus=toy"], "corpus toy has no contrastive sets; name"),
        (
            ["metric.contrastive.sets=[{folder}/ru.jsonl]"],
            "is en-ru, but the system translates en-de",
        ),
        (["metric.contrastive.sets=[{folder}/none.json]"], "none.json: no such file"),
        (["metric.contrastive.sets=[]"], "metric.contrastive.sets"),
        (["metric.contrastive.ties=last"], "metric.contrastive.ties='last'"),
        (["nmt.context.read=2"], "nmt.context.read=2: transformer reads 0 sentences"),
        (
            ["metric.contrastive.groups={folder}/many"],
            "toy_discourse address has no group 99999, among 600",
        ),
        (
            ["metric.contrastive.groups={folder}/one"],
            "metric.contrastive.groups is of one set, but several are measured: toy_discourse",
        ),
        (["metric.contrastive.groups={folder}/twice"], "twice:3: group 1 is listed twice"),
    ],
)
def test_what_cannot_be_meant_is_named(tmp_path, changes, message):
    (tmp_path / "many").write_text("0\n99999\n")
    (tmp_path / "twice").write_text("1\n2\n1\n")
    (tmp_path / "one").write_text("1\n")
    (tmp_path / "ru.jsonl").write_text('{"lang_pair": "en-ru"}\n' + GROUP)
    corpus = [] if changes == ["corpus=toy"] else ["corpus=toy_discourse"]
    options = [*corpus, "metric=[contrastive]", f"store={tmp_path}/store", *changes]
    config = configure(*(change.format(folder=tmp_path) for change in options))
    with pytest.raises(XnmtError) as error:
        check(config)
        list(configured_metrics(config)["contrastive"].measure(Job(config)))
    assert message in str(error.value)
    assert not (tmp_path / "store").exists()  # before anything is trained


GROUP = '{"source": "a", "variants": ["b", "c"]}\n'


def test_an_error_is_one_line(tmp_path):
    (tmp_path / "set.jsonl").write_text('{"lang_pair": "en-de"}\n' + GROUP + '{"source": 1}\n')
    options = ["metric=[contrastive]", f"metric.contrastive.sets=[{tmp_path}/set.jsonl]"]
    done = command("train.py", *options, f"store={tmp_path}/store", cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].endswith(
        "set.jsonl:3: source: Input should be a valid string"
    )
