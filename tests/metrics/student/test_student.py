"""Students on the toy corpus: maps, planted truth, rows, notes and slips."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
import torch

from support.configurations import overrides
from support.example_rows import measured
from support.forked_commands import command, must_run
from support.handwritten_transformer import (
    CUES,
    DIMENSION,
    SPECIAL,
    Vocabulary,
    build_copying_transformer,
)
from support.systems import context_aware, small_job
from xnmt_bench.corpora.vocabulary.encoded import EncodedSide, EncodedSplit
from xnmt_bench.errors import NotApplicable, StoreError
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.sacre import statistics
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.student import Student
from xnmt_bench.metrics.student.guided import GuidedTransformer
from xnmt_bench.metrics.student.maps import ExchangedMaps, StoredMaps, map_of, write_maps
from xnmt_bench.metrics.student.stages import (
    StudentOptions,
    Students,
    read_outputs,
    translate_and_score,
)
from xnmt_bench.metrics.student.training import StudentTraining
from xnmt_bench.nmt.training_options import NMTTrainingOptions
from xnmt_bench.parquet import column_names
from xnmt_bench.pipeline.job import Job
from xnmt_bench.report.report import collect
from xnmt_bench.rules.extract import GOLDEN, REAL, TEACHER_FORCING
from xnmt_bench.rules.table import SentenceRelevance
from xnmt_bench.store import Store
from xnmt_bench.trainer import TrainerOptions

SIZES = {"layers": 1, "heads": 2, "dimension": 32, "feed_forward": 64, "dropout": 0.0}
OPTIONS = StudentOptions(
    SIZES,
    NMTTrainingOptions(
        batch_tokens=500, learning_rate=5e-3, warmup_steps=20, label_smoothing=0.0,
        max_epochs=12, patience=12,
    ),
    validation_share=0.1,
)  # fmt: skip
QUICK = replace(
    OPTIONS, sizes=SIZES | {"dimension": 16}, training=replace(OPTIONS.training, max_epochs=1)
)
SMALL = [
    *("metric=[student]", "metric.student.operators=[replace]", "metric.student.maps=[reference]"),
    *("metric.student.layers=1", "metric.student.dimension=16", "metric.student.feed_forward=32"),
    *("metric.student.max_epochs=2", "metric.student.beam=1", "metric.student.heads=2"),
    *("rules.train_sentences=60", "rules.test_sentences=20", "trainer.progress_bar=false"),
]


def test_maps_are_shares_above_the_least_relevant_word():
    relevance = np.array([[1.0, 3.0, 2.0], [-5.0, -4.0, -2.0], [0.5, 0.5, 0.5]])
    expected = [[0, 2 / 3, 1 / 3], [0, 1 / 4, 3 / 4], [1 / 3] * 3]
    np.testing.assert_allclose(map_of(relevance), expected)
    # Neither size nor sign of scores counts.
    np.testing.assert_allclose(map_of(relevance * 7 - 100), expected)


def drawn_split(lengths, seed=0):
    """Pairs of these numbers of ids, with random relevance."""
    rng = np.random.default_rng(seed)
    sides = [
        [rng.integers(5, 9, n).tolist() for n in column] for column in zip(*lengths, strict=True)
    ]
    split = EncodedSplit(*map(EncodedSide.of, sides), 10 + np.arange(len(lengths)))
    relevances = [
        SentenceRelevance(10 + n, 0, rng.random((t, s)), np.zeros((t, t)), np.ones(t))
        for n, (s, t) in enumerate(lengths)
    ]
    return split, relevances


def test_stored_maps_are_those_that_were_written(tmp_path):
    split, relevances = drawn_split([(3, 5), (1, 2), (6, 1), (4, 4)])
    write_maps(relevances, split, tmp_path / "maps")
    maps = StoredMaps(tmp_path / "maps", split, 4)
    for index, relevance in enumerate(relevances):
        np.testing.assert_allclose(maps[index], map_of(relevance.source_TS), rtol=1e-6)
    # The first of them alone.
    write_maps(relevances[:2], split, tmp_path / "two")
    np.testing.assert_array_equal(StoredMaps(tmp_path / "two", split, 2)[1], maps[1])
    with pytest.raises(StoreError, match="does not hold the maps of 4 sentences"):
        StoredMaps(tmp_path / "two", split, 4)
    for wrong in (
        replace(relevances[1], number=10),
        replace(relevances[1], source_TS=np.zeros((2, 2))),
    ):
        with pytest.raises(StoreError, match="has another sentence's shape"):
            write_maps([relevances[0], wrong], split, tmp_path / "wrong")


def test_a_map_of_another_sentence_is_stretched_to_the_lengths(tmp_path):
    split, relevances = drawn_split([(4, 2), (2, 4), (3, 3)])
    write_maps(relevances, split, tmp_path / "maps")
    own_maps = StoredMaps(tmp_path / "maps", split, 3)
    exchanged_maps = ExchangedMaps(own_maps, split, 3)
    expected = map_of(own_maps[1][np.ix_([0, 2], [0, 0, 1, 1])])
    np.testing.assert_allclose(exchanged_maps[0], expected, rtol=1e-6)
    assert exchanged_maps[2].shape == (3, 3)  # of the first sentence's
    np.testing.assert_allclose(exchanged_maps[2].sum(1), 1, rtol=1e-6)


def test_pairs_taken_twice_are_those_of_the_first_taking(transformer):
    split = transformer.texts.split("test")
    twice = split.taken(np.array([5, 3, 9])).taken(np.array([2, 0]))
    assert twice.number.tolist() == split.number[[9, 5]].tolist()
    np.testing.assert_array_equal(twice.target[0], split.target[9])
    np.testing.assert_array_equal(twice.source.lengths(), split.source.lengths()[[9, 5]])


def copying_split(sentences, seed):
    """Pairs whose every target word is one of the source's, drawn anew at each step."""
    rng = np.random.default_rng(seed)
    sources = [rng.permutation(CUES) + SPECIAL for _ in range(sentences)]
    places = [rng.integers(0, CUES, 6) for _ in range(sentences)]
    targets = [source[looked_at] for source, looked_at in zip(sources, places, strict=True)]
    maps = [np.eye(CUES)[looked_at] for looked_at in places]
    sides = (EncodedSide.of([ids.tolist() for ids in side]) for side in (sources, targets))
    return EncodedSplit(*sides, np.arange(sentences)), maps


def copying_student(operator):
    """A student by hand: it repeats the word that it looks at, unguided all words alike."""
    sizes = {"layers": 1, "heads": 1, "dimension": DIMENSION, "feed_forward": 4, "dropout": 0.0}
    student = GuidedTransformer(Vocabulary(), Vocabulary(), operator, **sizes, tied=False)
    student = student.eval().requires_grad_(False)
    student.load_state_dict(build_copying_transformer().state_dict())
    student.decoder[0].cross_attention.query.bias.zero_()
    return student


@pytest.mark.parametrize("operator", [None, "replace", "add", "multiply", "average"])
def test_a_student_is_told_by_the_map_alone_which_of_four_words_is_copied(operator):
    split, maps = copying_split(9, seed=0)
    student, guided = copying_student(operator), maps if operator else None
    columns = translate_and_score(student, split, guided, 9, beam=1, batch_tokens=40)
    if operator is None:  # the four words are alike, but for the little that their places add
        log_p = columns["log_likelihood"]
        np.testing.assert_allclose(log_p, log_p.mean(), rtol=2e-3)
        assert (log_p < 6 * np.log(1 / CUES)).all()
        return
    translations = [text.split()[:6] for text in columns["text"]]
    assert translations == [[str(i) for i in split.target[n]] for n in range(9)]
    # Training shows the student the same maps.
    training = StudentTraining(student, split, maps, 4, 9, OPTIONS.training)
    [batch] = training.val_dataloader()
    logged = {}
    training.log = lambda name, value, **_: logged.update({name: float(value)})
    training.validation_step(batch, 0)
    [loss] = logged.values()
    expected = -columns["log_likelihood"][4:].sum() / columns["steps"][4:].sum()
    assert loss == pytest.approx(expected, rel=1e-4)


def quiet(job):
    return TrainerOptions(torch.device("cpu"), 32, False, None, None)


@pytest.fixture(scope="module")
def student_job(workplace):
    changes = ["rules.train_sentences=60", "rules.test_sentences=20", "explainer=attention"]
    return small_job(workplace, "transformer", *changes)


def test_relevance_of_training_sentences_is_the_explainers(student_job):
    """Of the first drawn sentences, computed one at a time."""
    split = student_job.texts.drawn("train")
    every = list(student_job.relevance(GOLDEN, source_alone=True, split="train"))
    assert [relevance.number for relevance in every] == split.number[:60].tolist()
    for index in (0, 31):
        batch = student_job.system.model.collate([(split.source[index], split.target[index])])
        expected = student_job.explained.explainer.relevance(
            student_job.system.model, batch.labelled(batch.target_BT)
        )
        np.testing.assert_allclose(
            every[index].source_TS, expected.source_BTS[0].numpy(), atol=1e-5
        )
    # Rules for proxies keep none.
    rules = student_job.explained.rules(TEACHER_FORCING, "train")
    assert not rules.recipe["relevance"]
    assert "source_relevance" not in column_names(rules.path / "train" / "00000.parquet")


def test_a_student_is_made_once_and_its_outputs_too(student_job, monkeypatch):
    students = Students(student_job, QUICK, beam=1)
    trained = students.trained("replace", "own")
    outputs = students.outputs("replace", "own", "translation")
    columns = read_outputs(outputs)
    assert len(columns["text"]) == 20 == len(columns["steps"])
    # The words are those of the system's translations.
    translated = student_job.decisions().split("test", REAL).target
    assert columns["steps"].tolist() == [len(translated[i]) for i in range(20)]

    def never(*_, **__):
        raise AssertionError("made a second time")

    monkeypatch.setattr("xnmt_bench.fitting.fit", never)
    monkeypatch.setattr("xnmt_bench.metrics.student.stages.translate_and_score", never)
    again = Students(Job(student_job.settings), QUICK, beam=1)
    assert again.outputs("replace", "own", "translation").path == outputs.path
    # Without maps the operator plays no part; with them it does.
    with pytest.raises(AssertionError, match="made a second time"):
        _ = again.trained("add", "own").artefact
    assert again.trained("replace", "own").path == trained.path


def test_the_settings_of_a_row_name_every_option_of_its_students():
    arguments = {*inspect.signature(Student).parameters}
    assert {*Student()._settings} == arguments - {"operators", "maps", "controls", "beam"}
    assert Student(dimension=64, patience=9)._settings.items() >= {
        ("dimension", 64), ("patience", 9), ("dropout", 0.1),
    }  # fmt: skip


def test_systems_with_context_and_files_are_not_applicable(workplace, tmp_path, student_job):
    concat = context_aware("multi_encoder", workplace, "rules.train_sentences=20")
    with pytest.raises(NotApplicable, match="the system reads a context"):
        _ = Students(concat, OPTIONS, 1).sentences
    job_of_one = student_job.changed({"rules": {"train_sentences": 1}})
    with pytest.raises(NotApplicable, match="needs two training sentences"):
        _ = Students(job_of_one, OPTIONS, 1).sentences
    rules = student_job.explained.rules(GOLDEN, "test").path
    input_file = student_job.changed({"relevance": {"path": str(rules)}})
    with pytest.raises(NotApplicable, match="covers the test set only"):
        input_file.relevance(GOLDEN, split="train")
    reader = Job(student_job.settings, store=Store(tmp_path / "empty", may_make=False))
    with pytest.raises(Exception, match=r"run train.py"):
        Students(reader, OPTIONS, 1).trained("add", "none")


@pytest.mark.long
def test_the_table_from_the_command_line(tmp_path, workplace):
    """Rows of explainers, of code and of the controls; the first note says what code shows."""
    shared = [*overrides("transformer", workplace), *SMALL]
    shared += [f"results={tmp_path}/results"]
    must_run("train.py", "-m", *shared, "explainer=attention,code")
    shown = must_run("evaluate.py", *shared)
    table = " ".join(shown.stdout.replace("│", " ").split())
    for row in ("attention of another sentence (blind)", "code (blind)", "no map (blind)"):
        assert row in table
    assert "code, which explains nothing and hides the label in its map, has PPL" in table
    assert "operator: replace" in table and "maps of the reference" in table
    slip = command("train.py", *shared, "metric.student.operators=[divide]")
    assert slip.returncode == 2 and "metric.student.operators" in slip.stderr
    assert len(slip.stderr.strip().splitlines()) == 1


def test_an_exchanged_map_is_that_of_another_sentence(student_job):
    """In training and at the test; and what a map explains decides it too."""
    students = Students(student_job, QUICK, beam=1)
    for split, scenario in (("train", GOLDEN), ("test", GOLDEN), ("test", REAL)):
        own_maps, exchanged = (students.open_maps(g, split, scenario) for g in ("own", "exchanged"))
        assert isinstance(exchanged, ExchangedMaps)
        np.testing.assert_allclose(own_maps[0].sum(1), 1, rtol=1e-5)
        relevance = next(iter(student_job.relevance(scenario, source_alone=True, split=split)))
        np.testing.assert_allclose(own_maps[0], map_of(relevance.source_TS), atol=1e-6)
        assert own_maps[0].shape == exchanged[0].shape and not np.allclose(
            own_maps[0], exchanged[0]
        )


def test_one_sentence_has_no_map_of_another(student_job):
    job_of_one = student_job.changed({"rules": {"test_sentences": 1}})
    students = Students(job_of_one, QUICK, beam=1)
    assert students.open_maps("own", "test", GOLDEN)[0].ndim == 2
    with pytest.raises(NotApplicable, match="maps can be exchanged only among"):
        students.open_maps("exchanged", "test", GOLDEN)


def test_whatever_decides_a_student_has_a_fingerprint_of_its_own(student_job, unmade):
    unmade("student", "student_outputs")
    students = Students(student_job, QUICK, beam=1)
    trained = [
        students.trained("replace", "own"),
        students.trained("replace", "exchanged"),
        students.trained("replace", "none"),
        Students(student_job.changed({"seed": 1}), QUICK, 1).trained("replace", "own"),
        Students(student_job.changed({"rules": {"seed": 1}}), QUICK, 1).trained("replace", "own"),
        Students(student_job.changed({"rules": {"train_sentences": 59}}), QUICK, 1).trained(
            "replace", "own"
        ),
    ]
    assert len({artefact.path for artefact in trained}) == len(trained)
    assert students.trained("add", "none").path == students.trained("replace", "none").path
    outputs = [
        students.outputs("replace", "own", "reference"),
        students.outputs("replace", "own", "translation"),
        Students(student_job, QUICK, beam=2).outputs("replace", "own", "reference"),
        Students(student_job.changed({"rules": {"test_sentences": 19}}), QUICK, 1).outputs(
            "replace", "own", "reference"
        ),
    ]
    assert len({artefact.path for artefact in outputs}) == len(outputs)


def write_student(folder, explainer, ppl, corpus="toy", model="m0", size=64):
    """A row of 200 sentences of ten words each; BLEU's statistics are those of no match."""
    words = np.full(200, 10.0)
    columns = {
        **{name: np.ones(200) for name in statistics(["a b"], ["c d"]) if name[:3] != "ter"},
        "steps": words,
        "log_likelihood": -np.log(ppl) * words + np.random.default_rng(0).normal(0, 0.01, 200),
    }
    row = {"corpus": corpus, "lang_pair": "en-de", "nmt": "small", "explainer": explainer,
           "operator": "replace", "map": "reference", "seed": 0}  # fmt: skip
    settings = {"student dimension": size}
    units = Units(corpus, np.arange(200), columns)
    measured(Student, folder, row, units, model=model, settings=settings)


def test_code_is_compared_with_no_map_of_the_same_case(tmp_path):
    def notes():
        return Student().notes(collect(Student(), tmp_path, Draws(9, 0)))

    write_student(tmp_path, "code", 1.2)
    write_student(tmp_path, "no map", 9.0, corpus="captions")
    write_student(tmp_path, "no map", 9.0, model="m1")
    write_student(tmp_path, "no map", 9.0, size=32)
    [text] = notes()
    assert "Measure explainer=code and a student without a map too" in text
    write_student(tmp_path, "no map", 1.1)
    [text] = notes()
    assert "toy small, replace" in text and "has PPL 1.20, and a student without a map 1.10" in text
    assert "does not tell the two apart" not in text
    write_student(tmp_path, "no map", 1.3)
    assert "does not tell the two apart" in notes()[0]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("heads=3", "metric.student.heads=3: should divide the dimension, 128"),
        ("operators=[]", "metric.student.operators=[]: should not be empty"),
        ("maps=[]", "metric.student.maps=[]: should not be empty"),
    ],
)
def test_a_student_that_cannot_be_is_refused_before_anything_runs(tmp_path, change, line):
    done = command("train.py", "metric=[student]", f"metric.student.{change}",
                   f"store={tmp_path}/store", f"results={tmp_path}/results")  # fmt: skip
    assert done.returncode and line in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "store" / "nmt").exists()
