"""F1 on GAP of the resolver that comes with the package, and its training."""

import gzip
import re
import tarfile
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.resolver import gap, train
from benchmarks.resolver.data import LITBANK, Chained, GapRow, passages, read_gap, read_litbank
from support.paths import DATA
from xnmt_bench.errors import DataError
from xnmt_bench.resolvers.learnt.model import WEIGHTS, Model, Trees

FOLDER = DATA / "coreference_training"
HEADER = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL"


def test_trees_are_scikit_learns():
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(1)
    features = rng.normal(size=(300, 4)).astype(np.float32)
    labels = features[:, 0] * features[:, 1] > 0
    trees = train.fit(([features], [labels]), ([], []))
    booster = ensemble.GradientBoostingClassifier(random_state=train.SEED, **train.TREES)
    booster.fit(features, labels)
    assert trees(features) == pytest.approx(booster.decision_function(features))


def row(labels, feminine):
    return GapRow("", (0, 0), ((0, 0), (0, 0)), labels, feminine)


def test_f1_by_hand():
    """Of A and B together: 2 right, 4 true, 3 answered: 2 * 2 / 7."""
    rows = [row((True, False), True), row((False, True), True), row((True, False), False),
            row((False, True), False)]  # fmt: skip
    answers = [(True, False), (True, False), (False, False), (False, True)]
    f1 = gap.score(rows, answers)
    assert f1.overall == pytest.approx(400 / 7)
    assert f1.feminine == pytest.approx(50)
    assert f1.masculine == pytest.approx(200 / 3)
    assert f1.bias == pytest.approx(0.75)
    assert gap.score(rows, [(False, False)] * 4).overall == 0


def card_rows():
    text = WEIGHTS.with_name("README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| (.+?) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", text, re.M)
    return {name: list(map(float, values)) for name, *values in lines}


def check_table(table, expected):
    assert {name for name, _ in table} == set(expected)
    for name, f1 in table:
        values = [f1.overall, f1.feminine, f1.masculine, f1.bias]
        rounded = [round(value, 2 if n == 3 else 1) for n, value in enumerate(values)]
        assert rounded == expected[name]
    learnt, *baselines = (f1.overall for name, f1 in table if not name.startswith("learnt,"))
    assert learnt > max(baselines) + 15  # also above those that are given the two names


# As in the card, of the first 250 rows.
FIRST_ROWS = {
    "learnt": [67.0, 67.6, 66.7, 1.01],
    "nearest candidate": [39.1, 39.1, 39.0, 1.0],
    "random candidate": [24.6, 29.2, 22.2, 1.31],
    "learnt, given the two names": [66.1, 68.2, 65.0, 1.05],
    "the nearer of the two names": [50.7, 47.9, 52.3, 0.92],
    "one of the two names at random": [49.1, 49.5, 48.8, 1.01],
}


@pytest.mark.shared("coreference_training")
@pytest.mark.long
def test_f1_on_the_first_rows_of_gaps_test_set():
    rows = read_gap(FOLDER / "gap-test.tsv.gz")
    assert len(rows) == 2000
    check_table(gap.make_table(rows[:250], Model.load()), FIRST_ROWS)


@pytest.mark.slow
@pytest.mark.shared("coreference_training")
def test_the_card_says_what_the_weights_give_on_gaps_test_set():
    rows = read_gap(FOLDER / "gap-test.tsv.gz")
    check_table(gap.make_table(rows, Model.load()), card_rows())


def test_the_nearer_name_by_hand():
    """`Anna` is 5 characters before the pronoun, `Bea` 4 behind it; equal ones go to the first."""
    row = GapRow("", (20, 22), ((11, 15), (26, 29)), (True, False), True)
    assert gap.answer_nearer_name(row) == (False, True)
    assert gap.answer_nearer_name(replace(row, names=((12, 16), (26, 29)))) == (True, False)


@pytest.mark.shared("coreference_training")
def test_published_sizes_of_the_data():
    assert len(read_gap(FOLDER / "gap-validation.tsv.gz")) == 454
    documents = read_litbank(FOLDER / LITBANK)
    assert len(documents) == 100
    assert all(0 <= s < e <= len(d.text) for d in documents for (s, e), _, _ in d.mentions)


def test_passages_hold_the_mentions_that_are_whole_in_them():
    document = Chained("d", "A b\nc d\ne f\n", (((0, 1), 0, ""), ((4, 5), 0, ""), ((6, 9), 1, "")))
    first, second = passages(document, (1, 2))
    assert (first.text, first.mentions) == ("A b\n", (((0, 1), 0, ""),))
    assert (second.text, second.mentions) == ("c d\ne f\n", (((0, 1), 0, ""), ((2, 5), 1, "")))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1\tShe ate\tShe\t0\tA\t9\tTRUE\tB\t0\tFALSE\tu", ":2: no row of GAP: 'A' is not at"),
        (
            "1\tShe ate\tShe\tx\tA\t9\tTRUE\tB\t0\tFALSE\tu",
            ":2: no row of GAP: 'x' is not a whole number from 0",
        ),
        ("1\tShe ate\tShe\t0\ta\t4\tyes\te\t6\tFALSE\tu", ":2: no row of GAP: 'YES'"),
        ("1\tShe ate", ":2: 2 fields, but the header has 11"),
    ],
)
def test_what_is_no_row_of_gap(line, message, tmp_path):
    path = tmp_path / "gap-test.tsv"
    path.write_text(f"{HEADER}\n{line}\n")
    with pytest.raises(DataError, match=message):
        read_gap(path)


def test_files_that_are_others(tmp_path):
    path = tmp_path / "gap-test.tsv"
    path.write_text("ID\tText\n")
    with pytest.raises(DataError, match=":1: no column 'Pronoun'"):
        read_gap(path)
    with pytest.raises(DataError, match="no such file"):
        read_litbank(tmp_path / LITBANK)
    (tmp_path / LITBANK).write_text("no archive")
    with pytest.raises(DataError, match="no archive of LitBank"):
        read_litbank(tmp_path / LITBANK)
    (tmp_path / "a.txt").write_text("He ate .\n")
    (tmp_path / "a.ann").write_text("T1\tHe-0 0 2\tHe\nT2\tHe-0 zero 2\n")
    with tarfile.open(tmp_path / LITBANK, "w:gz") as archive:
        for name in ("a.txt", "a.ann"):
            archive.add(tmp_path / name, arcname=f"coref/brat/{name}")
    with pytest.raises(DataError, match=r"a.ann:2: no annotation of brat"):
        read_litbank(tmp_path / LITBANK)


def made_data(folder, rows=60):
    """Data in the form of GAP and LitBank: the pronoun stands for the name of its gender."""
    rng = np.random.default_rng(0)
    names = {"he": ["John", "Tom", "Henry"], "she": ["Anna", "Mary", "Julia"]}
    for split, size in (("development", rows), ("validation", 20)):
        lines = [HEADER]
        for n in range(size):
            first, second = rng.choice(names["he"]), rng.choice(names["she"])
            pronoun = ("he", "she")[n % 2]
            text = f"{first} met {second} when {pronoun} was ill."
            cells = [f"{split}-{n}", text, pronoun, text.index(f" {pronoun} ") + 1, first, 0,
                     n % 2 == 0, second, text.index(second), n % 2 == 1, "u"]  # fmt: skip
            lines.append("\t".join(str(c).upper() if c in (True, False) and isinstance(c, bool)
                                   else str(c) for c in cells))  # fmt: skip
        with gzip.open(folder / f"gap-{split}.tsv.gz", "wt") as file:
            file.write("\n".join(lines) + "\n")
    with tarfile.open(folder / LITBANK, "w:gz") as archive:
        for n in range(20):
            text = "The man slept . John ate . He was ill . \n"
            (folder / f"{n}.txt").write_text(text * 3)
            (folder / f"{n}.ann").write_text(
                "T0\tNOM_PER 0 7\tThe man\nT1\tman-0 0 7\tThe man\nT2\tJohn-1 16 20\tJohn\n"
                "T3\tJohn-1 27 29\tHe\nR1\tcop Arg1:T1 Arg2:T9\n"
            )
            for end in ("txt", "ann"):
                archive.add(folder / f"{n}.{end}", arcname=f"coref/brat/{n}.{end}")
    return folder


def test_a_missing_file_ends_the_commands_in_one_line(tmp_path, capsys):
    for command, name in ((gap, "gap-test.tsv.gz"), (train, "gap-development.tsv.gz")):
        assert command.main([str(tmp_path)]) == 1
        assert capsys.readouterr().err == f"{tmp_path / name}: no such file\n"


def test_bias_without_masculine_f1_is_nan():
    assert np.isnan(gap.F1(50.0, 80.0, 0.0).bias)


def test_learning_again_gives_the_same_bytes(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setitem(train.TREES, "n_estimators", 20)
    monkeypatch.setitem(train.TREES, "min_samples_leaf", 2)
    folder = made_data(tmp_path)
    for name in ("first", "second"):
        assert train.main([str(folder), str(tmp_path / name)]) == 0
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    model = Model.load(tmp_path / "first")
    [row, *_] = read_gap(folder / "gap-validation.tsv.gz")
    assert len(gap.answer_by_model(model)(row)) == 2
    assert isinstance(model.trees, Trees)
