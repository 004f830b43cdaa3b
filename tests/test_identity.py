"""All that changes a row's units changes the row: each leaf of the configuration, each file.

A row that another one replaces is a lost result, and two tasks in one table are ranked. So every
leaf is changed alone, for every metric, with systems that are opened and that are trained here.
"""

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf

from support.configurations import configure
from support.example_rows import Tables
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.measuring.alike import origin
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.units import Units
from xnmt_bench.pipeline.job import Job
from xnmt_bench.plan import configured_metrics
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import collect
from xnmt_bench.run import measure
from xnmt_bench.schema import check

JUDGES = "base,own,evalx,kl,base_tuned,base_swapped,evalx_states"
OF_EXPLAINERS = "fidelity,quality,aer,confidence,causes,erasure,infidelity,soft,student,robustness"
IN_CONTEXT = "contrastive,antecedent,coref_attention,quality,repetition,context_use,cues"
TINY = ["nmt.sizes.dimension=16", "nmt.sizes.feed_forward=16", "nmt.sizes.layers=1",
        "nmt.sizes.heads=2", "nmt.training.max_epochs=2", "nmt.training.batch_tokens=600",
        "corpus.subwords.source_size=300", "corpus.subwords.target_size=300"]  # fmt: skip
COMMON = ["explainer=attention", "device=cpu", "threads=1", "trainer.progress_bar=false",
          "rules.train_sentences=40", "rules.test_sentences=16", "rules.largest_k=2", "proxy=fn",
          "proxy.training.max_epochs=1", "proxy.sizes.dimension=16", "proxy.sizes.hidden=16",
          "bootstrap.samples=10"]  # fmt: skip
DISCOURSE = ["corpus=toy_discourse", "corpus.train=80", "corpus.valid=10", "corpus.test=16",
             "corpus.families=3", "nmt=concat", f"metric=[{IN_CONTEXT}]"]  # fmt: skip
PRONOUNS = ["corpus=toy_coreference", "corpus.train=400", "corpus.valid=10", "corpus.test=10",
            "corpus.suite=20", "nmt=transformer", "metric=[consistency]",
            "metric.consistency.suite=corpus", "metric.consistency.links=explainer",
            "metric.consistency.relevance=true"]  # fmt: skip
SMALL_METRICS = {
    "causes": {"sentences": 16, "substitutes": 2, "least": 0.001},
    "erasure": {"sentences": 5, "curves": 5, "limited": 3},
    "infidelity": {"sentences": 5, "samples": 3},
    "robustness": {"sentences": 5, "samples": 2, "depths": 2},
    "soft": {"sentences": 5, "samples": 2},
    "student": {"max_epochs": 1, "dimension": 16, "feed_forward": 16, "heads": 2, "layers": 1},
}
# Leaves that say where work runs, where results go, or what another command does.
ELSEWHERE = (
    *("device", "threads", "workers", "until", "store", "results", "pooled", "bundle", "dry_run"),
    *("repair", "explain", "rows", "cite", "figures.", "left_out", "logger.", "sheet."),
    *("trainer.devices", "trainer.nodes"),
    *("trainer.progress_bar", "hydra", "learning_rate", "_target_"),
)
# Of a single job these make another job or are refused, and files have tests of their own below.
WITH_FILES = (
    *("outputs.", "scores.", "relevance.", "metric.aer.gold", "metric.aer.hypothesis"),
    *("metric.aer.backward", "metric.aer.text", "metric.aer.reverse", "corpus.data", "nmt.path"),
    *("corpus.subwords.source_model", "corpus.subwords.target_model", "metric.quality.comet"),
    *("metric.antecedent", "metric.contrastive.data", "metric.contrastive.exchanged"),
    *("metric.contrastive.groups", "nmt.training.contrastive", "nmt.training.examples"),
    *("nmt.training.markers",),
    *("metric.consistency.data", "metric.consistency.learn_from", "metric.consistency.resolver"),
    *("metric.consistency.suite", "metric.consistency.language", "metric.contrastive.sets"),
    *("metric.context_use.data", "metric.cues.data", "metric.cues.suite"),
    *("metric.consistency.morphology", "nmt.initial", "nmt.corpus", "nmt.divide_and_rule"),
    *("corpus.training.root", "corpus.training.source_language", "metric.aer.symmetrisation"),
    *("corpus.training.target_language", "corpus.training.splits.test", "nmt.architecture"),
    *("corpus.base", "corpus.form", "proxy.name", "nmt.coreference", "explainer.phi.kind"),
)
# Another value for leaves whose value is a text.
OTHER = {
    "scenario": "real",
    "learned_from": "real",
    "k": 2,
    "prefix": "none",
    "train_sentences": 20,
    "rules.batch_tokens": 50,
    "rules.precision": "bf16",
    "corpus.training.name": "other",
    "corpus.name": "other",
    "corpus.subwords.type": "unigram",
    "corpus.subwords.source_size": 120,
    "corpus.subwords.target_size": 120,
    "corpus.subwords.sentences": 30,
    "corpus.subwords.normalization": "identity",
    "nmt.name": "renamed",
    "nmt.beam": 1,
    "nmt.context.sentences": 2,
    "nmt.context.read": 1,
    "nmt.sizes.position_shift": 8,
    "nmt.sizes.dimension": 24,
    "nmt.sizes.heads": 1,
    "nmt.training.average": 2,
    "nmt.training.max_updates": 5,
    "nmt.training.batch_sentences": 8,
    "nmt.training.stop": ["loss", "bleu"],
    "explainer.name": "renamed",
    "explainer.phi.layer": 0,
    "explainer.phi.heads": "max",
    "metric.aer.unaligned": "count",
    "metric.confidence.definition": "softalignments",
    "metric.confidence.eos": "drop",
    "metric.confidence.unit": "words",
    "metric.confidence.show": 0,
    "metric.contrastive.ties": "first",
    "metric.context_use.suite": "corpus",
    "metric.coref_attention.morphology": "german_nouns",
    "metric.consistency.links": "rule",
    "metric.erasure.shares": [0.1, 0.5],
    "metric.erasure.removals": ["zero"],
    "metric.infidelity.removals": ["zero"],
    "metric.student.operators": ["add"],
    "metric.student.maps": ["reference"],
    "metric.student.controls": ["none"],
    "metric.student.dimension": 24,
    "metric.student.heads": 1,
    "judge.base.removal": "mean",
    "judge.base_swapped.share": 0.5,
    "proxy.sizes.dimension": 24,
    "trainer.precision": "bf16-mixed",
    "trainer.validate_every": 1,
}
OTHER_FILE = {
    "corpus.training.splits.train": lambda name: "train2",
    "corpus.training.splits.valid": lambda name: "valid2",
    "corpus.text": lambda paths: [path.replace("test.", "test2.") for path in paths],
    "corpus.links": lambda path: f"{path}2",
}
# What is refused: of an opened system other languages than its own, and another context; of one
# that is trained on so little more batches than a pass has; beside causes other prefix words.
REFUSED = ("corpus.reversed", "nmt.context.", "nmt.training.batches", "prefix")
NOUNS = ["Hund dog", "Mann man", "Vogel bird", "Baum tree", "Tag day", "Brief letter"]
VERBS = ["sieht sees", "liebt loves", "kennt knows", "sucht seeks", "findet finds"]


def pairs(count, seed=0):
    """Sentence pairs that differ from each other, word for word."""
    dice, pair_of = random.Random(seed), {}
    while len(pair_of) < count:
        first, verb, second = (dice.choice(words).split() for words in (NOUNS, VERBS, NOUNS))
        adjective = dice.choice(["alten old", "neuen new", "kleinen small"]).split()
        german, english = zip(
            ("Der", "The"), first, verb, ("den", "the"), adjective, second, (".", "."), strict=True
        )
        pair_of[" ".join(german)] = " ".join(english)
    return list(pair_of.items())


def write_pairs(folder, name, lines):
    for side, ending in enumerate(("de", "en")):
        text = "".join(f"{pair[side]}\n" for pair in lines)
        (folder / f"{name}.{ending}").write_text(text, encoding="utf-8")


def write_corpus(folder):
    """Text, and gold links of its test set."""
    folder.mkdir(parents=True, exist_ok=True)
    all_pairs = pairs(92)
    for name, part in (
        ("train", all_pairs[:64]),
        ("valid", all_pairs[64:72]),
        ("test", all_pairs[72:]),
    ):
        write_pairs(folder, name, part)
    write_pairs(folder, "train2", all_pairs[:60])
    write_pairs(folder, "valid2", all_pairs[64:71])
    write_pairs(folder, "test2", [*all_pairs[73:], all_pairs[72]])
    (folder / "gold").write_text("0-0 1-1 2-2 3-3 4-4 5-5 6-6\n" * 20)
    (folder / "gold2").write_text("1-0 0-1 2-2 3-4 4-3 5-5 6-6\n" * 20)
    return folder


def with_gold(config, folder):
    """The configuration with a test set that has gold links."""
    training = OmegaConf.to_container(config.corpus, resolve=True)
    beside = {name: training.pop(name) for name in ("subwords", "max_length", "reversed")}
    config.corpus = {
        "_target_": "xnmt_bench.corpora.gold.GoldCorpus",
        "name": "gold",
        "training": training,
        "text": [f"{folder}/test.de", f"{folder}/test.en"],
        "links": f"{folder}/gold",
        "base": 0,
        "form": "pharaoh",
        "reverse": False,
        **beside,
    }
    return config


def on_text(folder, *changes):
    text = [f"corpus.root={folder}", "corpus.source_language=de", "corpus.target_language=en"]
    metrics = [f"metric=[{OF_EXPLAINERS}]", f"judge=[{JUDGES}]"]
    store = f"store={folder.parent}/store"
    config = configure("corpus=text", *text, *metrics, *COMMON, store, *changes)
    for name in OF_EXPLAINERS.split(","):
        config.metric[name] = OmegaConf.merge(config.metric[name], SMALL_METRICS.get(name, {}))
    config.judge.evalx_states.hidden = 8
    return with_gold(config, folder)


def opened(folder):
    return on_text(folder, "nmt=tatoeba_de_en")


def trained(folder):
    return on_text(folder, "nmt=transformer", *TINY)


def trained_in_context(folder):
    return configure(*DISCOURSE, *TINY, *COMMON, f"store={folder.parent}/store")


def opened_in_context(folder):
    config = trained_in_context(folder)
    return OmegaConf.merge(config, {"nmt": {"path": str(Job(config).system.path)}})


def pronouns(folder):
    return configure(*PRONOUNS, *TINY, *COMMON, f"store={folder.parent}/store")


SETUPS = (opened, trained, opened_in_context, trained_in_context, pronouns)


def run(config, results):
    """Measures every metric; returns the units and the description of each row by its name."""
    config = OmegaConf.merge(config, {"results": str(results)})
    check(config)
    job = Job(config)
    for metric in configured_metrics(config).values():
        try:
            if errors := measure(metric, job, Tables()):
                raise errors[0]
        except NotApplicable:
            continue
    return rows_of(results)


def rows_of(results):
    rows = {}
    for file in sorted(Path(results).glob("measurements/*/*.json")):
        if (units := file.with_suffix(".parquet")).exists():
            name = f"{file.parent.name}/{file.stem}"
            rows[name] = Units.load(units), json.loads(file.read_text(encoding="utf-8"))
    return rows


def alike(first, second):
    """Whether units are the same but for rounding, which depends on the batch of a sentence."""
    return (
        first.test_set == second.test_set
        and np.array_equal(first.number_U, second.number_U)
        and first.columns.keys() == second.columns.keys()
        and all(
            np.allclose(first[c].astype(float), second[c].astype(float), 1e-3, 1e-5, equal_nan=True)
            for c in first.columns
            if first[c].dtype.kind in "biuf"
        )
    )


def replaced(before, after):
    """The rows of two runs that have one name and other units."""
    return [
        f"{name.split('/')[0]} {row['identity']}"
        for name, (units, row) in after.items()
        if name in before and not alike(before[name][0], units)
    ]


def mixed(config, results):
    """Cells of tables that hold two rows of one system and seed, which would be averaged."""
    cells = []
    for metric in configured_metrics(config).values():
        if not (Path(results) / "measurements" / metric.name).exists():
            continue
        for panel in panels(metric, collect(metric, Path(results), Draws(10, 0))):
            for pivot, by_name in panel.rows.items():
                for name, rows in by_name.items():
                    # A row that is n/a has no number that a mean could take in.
                    measured = [s for s in rows if s.measurement.ok]
                    members = [(origin(s.measurement), s.row.get("seed")) for s in measured]
                    if len(set(members)) < len(members):
                        cells.append(f"{metric.name}: {panel.condition} {pivot} {name}")
    return cells


def leaves(node, where=""):
    if isinstance(node, dict):
        for key, value in node.items():
            yield from leaves(value, f"{where}.{key}" if where else str(key))
    else:
        yield where, node


def other_value(name, value):
    """Another value of a leaf; None where there is none by rule."""
    if name in OTHER_FILE:
        return OTHER_FILE[name](value)
    if name in OTHER:
        return OTHER[name] if OTHER[name] != value else None
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value / 2 if value else 0.25
    return 4 if value is None and name.endswith(".sentences") else None


def walked(config):
    """The leaves of a configuration that are changed, each with another value."""
    for name, value in leaves(OmegaConf.to_container(config, resolve=True)):
        if not (name.startswith((*ELSEWHERE, *WITH_FILES)) or name.endswith("_target_")):
            yield name, other_value(name, value)


def changed(config, name, value):
    copy = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
    OmegaConf.update(copy, name, value, merge=False, force_add=True)
    return copy


@pytest.fixture(scope="module")
def base(request, tmp_path_factory):
    """A setup's configuration and its rows."""
    folder = write_corpus(tmp_path_factory.mktemp("walk") / "text")
    config = request.param(folder)
    return config, run(config, folder.parent / "base"), folder


def faults_of(base, changes):
    """What goes wrong when a job that differs in some way is run into the same results folder."""
    config, before, folder = base
    faults = []
    for name, other in changes:
        results = folder.parent / "other"
        shutil.rmtree(results, ignore_errors=True)
        shutil.copytree(folder.parent / "base", results)
        alone = folder.parent / "alone"
        shutil.rmtree(alone, ignore_errors=True)
        try:
            after = run(other, alone)
        except XnmtError as error:
            if not name.startswith(REFUSED):
                faults.append(f"{name}: {error}")
            continue
        faults += [f"{name}: replaced {row}" for row in replaced(before, after)]
        shutil.copytree(alone, results, dirs_exist_ok=True)
        faults += [f"{name}: one cell for two: {cell}" for cell in mixed(config, results)]
    return faults


@pytest.mark.long
@pytest.mark.timeout(3600)  # a walk of 140 jobs, most of which train judges
@pytest.mark.parametrize("base", SETUPS, indirect=True, ids=lambda setup: setup.__name__)
def test_a_leaf_that_changes_units_changes_their_row(base):
    config, before, _ = base
    measured = {name.partition("/")[0] for name in before}
    assert measured == set(config.metric), "a metric without a row shows nothing"
    leaves_changed = list(walked(config))
    unlisted = [name for name, value in leaves_changed if value is None]
    assert not unlisted, "leaves without another value here: add one to OTHER"
    changes = ((name, changed(config, name, value)) for name, value in leaves_changed)
    assert faults_of(base, changes) == []


def of_metrics(config, *metrics, judges=("base",), explainer=None, **main):
    """The configuration with some metrics and judges alone."""
    copy = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
    copy.metric = {name: copy.metric[name] for name in metrics}
    copy.judge = {name: copy.judge[name] for name in judges}
    if explainer:
        copy.explainer = configure(f"explainer={explainer}").explainer
    return OmegaConf.merge(copy, main)


# What differed and was one row: the other job, whose rows must stand in blocks of their own.
OTHER_TASKS = {
    "gold of alignment": (dict(metrics=["aer"]), "corpus.links"),
    "gold of an explainer": (
        dict(metrics=["fidelity"], explainer="gold_alignment"),
        "corpus.links",
    ),
    "beam of labels": (dict(metrics=["fidelity"], scenario="real"), "nmt.beam"),
    "beam of lessons": (
        dict(metrics=["fidelity"], judges=["evalx"], learned_from="real"),
        "nmt.beam",
    ),
    "beam of translations": (dict(metrics=["confidence"]), "nmt.beam"),
    "text of a lexicon": (
        dict(metrics=["aer"], explainer="lexicon"),
        "corpus.training.splits.train",
    ),
    "text of a judge": (
        dict(metrics=["fidelity"], judges=["evalx"]),
        "corpus.training.splits.train",
    ),
    "draw of sentences": (dict(metrics=["fidelity"], judges=["evalx"]), "rules.seed"),
    "draw of a student": (dict(metrics=["student"]), "rules.seed"),
    "prefix words": (dict(metrics=["fidelity"], judges=["base", "own", "evalx"]), "prefix"),
    "special words": (dict(metrics=["fidelity"]), "rules.admit_special"),
    "precision of a judge": (dict(metrics=["fidelity"], judges=["evalx"]), "trainer.precision"),
}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return opened(write_corpus(tmp_path_factory.mktemp("tasks") / "text"))


@pytest.mark.parametrize("task", OTHER_TASKS)
def test_unlike_tasks_are_rows_in_blocks_of_their_own(config, task, tmp_path):
    options, leaf = OTHER_TASKS[task]
    options = dict(options)
    config = of_metrics(config, *options.pop("metrics"), **options)
    other = changed(config, leaf, other_value(leaf, OmegaConf.select(config, leaf)))
    before, after = run(config, tmp_path / "one"), run(other, tmp_path / "two")
    assert before and before.keys() != after.keys()
    assert replaced(before, after) == []
    results = tmp_path / "both"
    for folder in ("one", "two"):
        shutil.copytree(tmp_path / folder, results, dirs_exist_ok=True)
    assert mixed(config, results) == []
    of_first, of_second = ({n for n in rows if n not in other_rows} for rows, other_rows in
                           ((before, after), (after, before)))  # fmt: skip
    for metric in configured_metrics(config).values():
        for panel in panels(metric, collect(metric, results, Draws(10, 0))):
            names = {f"{metric.name}/{s.measurement.path.stem}" for s in panel.scored()}
            assert not (names & of_first and names & of_second)


def test_a_file_is_another_one_as_it_is_read_otherwise(tmp_path):
    """Scores with their sign turned, a dump beside other references, another format."""
    scores, reference = tmp_path / "scores", tmp_path / "reference"
    scores.write_text("-1.0\n-2.0\n")
    common = [f"scores.path={scores}", "scores.name=s"]
    signs = [
        Job(configure(*common, f"scores.higher_is_better={way}")).input_file("scores").fingerprint
        for way in ("true", "false")
    ]
    assert signs[0] != signs[1]
    dump = tmp_path / "dump"
    dump.write_text("")
    prints = set()
    for text in ("one\n", "two\n"):
        reference.write_text(text)
        options = [f"relevance.path={dump}", "relevance.format=marian", "relevance.name=d"]
        job = Job(configure(*options, f"relevance.reference={reference}"))
        prints.add(job.input_file("relevance").fingerprint)
    options.append("relevance.target_language=en")
    prints.add(Job(configure(*options)).input_file("relevance").fingerprint)
    assert len(prints) == 3
