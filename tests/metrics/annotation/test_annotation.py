"""People's answers: coefficients by hand, simulated people, released labels, files of others."""

import csv
import re
from fractions import Fraction

import numpy as np
import pytest

from support.filled_sheets import answer_rows, key_rows, sheet_rows, write_csv
from support.forked_commands import command, must_run
from support.paths import DATA
from xnmt_bench.bundles.pool import pool
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.metrics.annotation import Annotation
from xnmt_bench.metrics.annotation.answers import read_answers
from xnmt_bench.metrics.annotation.coefficients import (
    as_set,
    cohen_kappa,
    compare_with_relevance,
    krippendorff_alpha,
    masi,
    masi_of_answers,
    pairwise_agreement,
)
from xnmt_bench.report.report import collect

SUITES = DATA / "consistency"


def array(text):
    """A person's answers, a letter each; a dot for none."""
    return np.array(["" if letter == "." else letter for letter in text], dtype=object)


def once(answers):
    return np.ones((1, len(answers[0])))


def test_kappa_by_hand():
    """Of ten items 7 have one answer; by chance (6 x 5 + 4 x 5) / 100 of them would."""
    people = [array("mmmmmmffff"), array("mmmmfffffm")]
    assert pairwise_agreement(people, once(people)) == pytest.approx(0.7)
    assert cohen_kappa(*people, once(people)) == pytest.approx((0.7 - 0.5) / (1 - 0.5))


def test_alpha_by_hand():
    """Krippendorff (2011), example B's way: the coincidences of two people without gaps."""
    pytest.importorskip("krippendorff")
    people = [array("mmmmmmffff"), array("mmmmfffffm")]
    # 20 answers, 11 m and 9 f; observed disagreement 3 of 10, expected 2 x 11 x 9 / (20 x 19).
    expected = 1 - Fraction(3, 10) / Fraction(2 * 11 * 9, 20 * 19)
    assert krippendorff_alpha(people, once(people)) == pytest.approx(float(expected))


def test_alpha_with_missing_answers_of_three_people():
    """The example of the package's own page, to six digits."""
    pytest.importorskip("krippendorff")
    people = [array(".....34121133.3"), array("1.213343......."), array("..21344.21133.4")]
    assert len({len(person) for person in people}) == 1
    assert krippendorff_alpha(people, once(people)) == pytest.approx(0.691358, abs=1e-6)


def test_a_draw_counts_an_item_as_often_as_it_was_drawn():
    people = [array("mmff"), array("mfff")]
    weights = np.array([[2, 0, 1, 1], [1, 1, 1, 1]])
    doubled = [array("mmff"), array("mmff")]
    assert pairwise_agreement(people, weights) == pytest.approx([1, 0.75])
    pytest.importorskip("krippendorff")
    alpha = krippendorff_alpha(people, weights)
    assert alpha[0] == pytest.approx(krippendorff_alpha(doubled, once(doubled))[0])
    assert cohen_kappa(*people, weights)[0] == pytest.approx(1)


def test_one_answer_alone_leaves_no_coefficient():
    people = [array("mmm"), array("mmm")]
    assert np.isnan(cohen_kappa(*people, once(people))).all()
    assert np.isnan(krippendorff_alpha(people, once(people))).all()


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [("1 2", "1 2", 0), ("-", "-", 0), ("1", "2", 1), ("-", "1", 1),
     ("1", "1 2", 1 - 2 / 3 * 1 / 2), ("1 2", "2 3", 1 - 1 / 3 * 1 / 3)],
)  # fmt: skip
def test_masi(first, second, distance):
    assert masi(as_set(first), as_set(second)) == pytest.approx(distance)
    assert masi(as_set(second), as_set(first)) == pytest.approx(distance)


def test_alpha_of_sets_by_hand():
    """Two items, two people: 1 - observed / expected distance over all pairs of four answers."""
    pytest.importorskip("krippendorff")
    people = [np.array(["1", "3"], dtype=object), np.array(["1 2", "3"], dtype=object)]
    near, far = masi_of_answers("1", "1 2"), 1.0
    observed = (near + 0) / 2
    # Ordered pairs of the four answers 1, 1 2, 3, 3: two near, eight far, two equal.
    expected = (2 * near + 8 * far) / 12
    assert krippendorff_alpha(people, once(people), masi_of_answers) == pytest.approx(
        1 - observed / expected
    )


def test_relevance_beside_chosen_words():
    """The chosen words 2 and 4 rank first and third of five."""
    agreement, precision, first, third = compare_with_relevance(
        frozenset({2, 4}), np.array([0.1, 0.9, 0.3, 0.2, -1])
    )
    assert (agreement, first, third) == (0.5, 1, 1)
    assert precision == pytest.approx((1 + 2 / 3) / 2)


def test_ties_go_to_the_leftmost():
    assert compare_with_relevance(frozenset({1}), np.zeros(4))[1] == 1
    assert compare_with_relevance(frozenset({4}), np.zeros(4))[1] == 0.25


def measured(folder, *arguments):
    """The rows of a command, by question, between and explainer."""
    done = must_run(
        "evaluate.py", "metric=[annotation]", *arguments, f"results={folder}/results",
        "bootstrap.samples=30", cwd=folder,
    )  # fmt: skip
    with (folder / "results" / "annotation.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {(r["corpus"], r["question"], r["between"], r["explainer"]): r for r in rows}, done


def write(path, rows):
    path.write_text(write_csv(rows), encoding="utf-8")
    return path


def test_simulated_people_of_known_accuracy(tmp_path):
    """Each of two people errs in known items; every figure is counted from these."""
    rows, truth = sheet_rows(40)
    first = answer_rows(rows, truth, wrong=range(0, 4), misaligned=[39])
    second = answer_rows(rows, truth, wrong=range(2, 8), misaligned=[39])
    key = write(tmp_path / "key.csv", key_rows(rows, truth))
    paths = [write(tmp_path / f"{n}.csv", r) for n, r in enumerate((first, second))]
    row_of, _ = measured(tmp_path, f"sheet.path=[{paths[0]},{paths[1]}]", f"sheet.key={key}")
    people = row_of["made", "gender", "people", ""]
    # Both err alike in items 2 and 3, so they differ in 0, 1 and 4 to 7.
    assert float(people["agreement"]) == pytest.approx(33 / 39)
    genders = [[r["gender"] for r in person[:39]] for person in (first, second)]
    chance = sum(genders[0].count(g) * genders[1].count(g) for g in "mfn") / 39**2
    assert float(people["kappa"]) == pytest.approx((33 / 39 - chance) / (1 - chance))
    automatic = row_of["made", "gender", "automatic", ""]
    assert float(automatic["agreement"]) == pytest.approx((35 + 33) / 78)
    # The automatic answer is always yes, so that kappa would be 0 for any answers of people.
    assert row_of["made", "is_translation", "automatic", ""]["kappa"] == ""
    table_10 = row_of["made", "both questions", "automatic", ""]
    counts = ("alignment_errors", "gender_errors", "correct", "annotations")
    assert [float(table_10[name]) for name in counts] == [2, 10, 68, 80]
    # The same files again change no byte, and travel in a bundle.
    stored = {p: p.read_bytes() for p in (tmp_path / "results").rglob("*.parquet")}
    again = [f"sheet.path=[{paths[0]},{paths[1]}]", f"sheet.key={key}"]
    measured(tmp_path, *again, f"bundle={tmp_path}/a.zip")
    assert {p: p.read_bytes() for p in (tmp_path / "results").rglob("*.parquet")} == stored
    [pooled] = pool([tmp_path / "a.zip"], tmp_path / "pooled")
    assert len(pooled.rows) == len(row_of)
    here, there = (
        [(row.row, row.values) for row in collect(Annotation(), folder, Draws(20, 0))]
        for folder in (tmp_path / "results", tmp_path / "pooled")
    )
    assert here == there


def test_half_filled_sheets_are_counted(tmp_path):
    rows, truth = sheet_rows(10)
    first, second = answer_rows(rows, truth), answer_rows(rows, truth)
    for row in second[6:]:
        row["gender"] = ""
    second[9]["is_translation"] = ""
    paths = [write(tmp_path / f"{n}.csv", r) for n, r in enumerate((first, second))]
    row_of, done = measured(tmp_path, f"sheet.path=[{paths[0]},{paths[1]}]")
    assert "1.csv (4 unanswered)" in " ".join(done.stdout.split())
    people = row_of["", "gender", "people", ""]
    assert (float(people["agreement"]), float(people["annotations"])) == (1, 16)
    # Without the key nothing is beside the automatic column.
    assert {between for _, _, between, _ in row_of} == {"people"}


def test_people_of_files_of_one_name_are_told_apart(tmp_path):
    rows, truth = sheet_rows(4)
    paths = [tmp_path / name / "consistency.csv" for name in ("anna", "ben")]
    for path in paths:
        path.parent.mkdir()
        write(path, answer_rows(rows, truth))
    names = read_answers(paths, None, "sheet").people()
    assert names == ["anna/consistency.csv", "ben/consistency.csv"]
    (tmp_path / "x" / "anna").mkdir(parents=True)
    again = write(tmp_path / "x" / "anna" / "consistency.csv", answer_rows(rows, truth))
    names = read_answers([paths[0], again], None, "sheet").people()
    assert names == ["anna/consistency.csv (1)", "anna/consistency.csv (2)"]
    write(tmp_path / "ben.csv", answer_rows(rows, truth))
    names = read_answers([paths[0], tmp_path / "ben.csv"], None, "sheet").people()
    assert names == ["consistency.csv", "ben.csv"]


def change(rows, place, **cells):
    return [row | cells if n == place else row for n, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda r: change(r, 2, item="99"), r"second.csv:4: no item 99: the sheet has 10 items"),
        (lambda r: change(r, 2, item="1"), r"second.csv:4: item 1 is listed twice"),
        (lambda r: change(r, 2, gender="x"), r"second.csv:4: gender='x': should be one of m, f"),
        (lambda r: [x | {"sheet": "consistency-10-ffffffffffff"} for x in r],
         r"second.csv:2: answers sheet consistency-10-f+, but .*first.csv answers"),
        (lambda r: change(r, 3, sheet="consistency-10-ffffffffffff"), r":5: belongs to sheet"),
        (lambda r: change(r, 0, sheet="other"), r"second.csv:2: 'other' is not the name of"),
        (lambda r: [{k: v for k, v in x.items() if k != "gender"} for x in r],
         r"second.csv:1: no column 'gender'"),
        (lambda r: [], r"second.csv:1: no column 'sheet'"),
    ],
)  # fmt: skip
def test_files_that_answer_something_else(tmp_path, bad, message):
    rows, truth = sheet_rows(10)
    first = write(tmp_path / "first.csv", answer_rows(rows, truth))
    second = write(tmp_path / "second.csv", bad(answer_rows(rows, truth)))
    done = command("evaluate.py", "metric=[annotation]", f"sheet.path=[{first},{second}]",
                   f"results={tmp_path}/results", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 1
    assert re.search(message, done.stderr), done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_key_of_another_sheet_is_refused(tmp_path):
    rows, truth = sheet_rows(10)
    other_rows = [row | {"sheet": "consistency-10-ffffffffffff"} for row in rows]
    first = write(tmp_path / "first.csv", answer_rows(rows, truth))
    key = write(tmp_path / "key.csv", key_rows(other_rows, truth))
    options = ["metric=[annotation]", f"sheet.path=[{first}]", f"results={tmp_path}/results"]
    done = command("evaluate.py", *options, f"sheet.key={key}", cwd=tmp_path)
    assert done.returncode == 1
    assert "key.csv:2: is the key of sheet consistency-10-ffffffffffff" in done.stderr
    cut = write(tmp_path / "cut.csv", key_rows(rows, truth)[:7])
    done = command("evaluate.py", *options, f"sheet.key={cut}", cwd=tmp_path)
    assert "cut.csv: has only 7 of the 10 items of its sheet" in done.stderr
    labels = [*options, f"sheet.key={key}", "sheet.format=mt_gender"]
    write(key, [{k: v for k, v in row.items() if k != "mention"} for row in key_rows(rows, truth)])
    done = command("evaluate.py", *labels, cwd=tmp_path)
    assert done.returncode == 1
    assert "key.csv:1: no column 'mention'" in done.stderr
    done = command("evaluate.py", "metric=[quality]", *options[1:], cwd=tmp_path)
    assert "sheet.path: no chosen metric reads it" in done.stderr
    done = command("evaluate.py", *options)
    assert done.returncode and "agreement needs the answers of two people" in done.stderr


@pytest.mark.long
@pytest.mark.shared("consistency")
@pytest.mark.parametrize(("language", "labelled"), [("es", 95), ("ru", 89)])
def test_released_labels_enter_by_the_same_door(language, labelled, tmp_path):
    """With links of fast_align, which are the same each time; see docs/recorded/consistency.md."""
    common = [f"results={tmp_path}/results", f"store={tmp_path}/store", "bootstrap.samples=5"]
    must_run(
        "evaluate.py", "metric=[consistency]", f"metric.consistency.data={SUITES}",
        f"metric.consistency.language={language}",
        f"outputs.path={SUITES}/outputs/google.en-{language}.txt",
        f"metric.consistency.links={SUITES}/alignments/google.en-{language}.fast_align", *common,
        cwd=tmp_path,
    )  # fmt: skip
    must_run("evaluate.py", "sheet=consistency", "sheet.mention=entity", "sheet.items=null",
             *common, cwd=tmp_path)  # fmt: skip
    human = SUITES / "human" / f"google.en-{language}.csv"
    key = tmp_path / "results" / "sheets" / "consistency.key.csv"
    row_of, _ = measured(
        tmp_path, f"sheet.path=[{human}]", "sheet.format=mt_gender", f"sheet.key={key}"
    )
    [row] = row_of.values()
    assert labelled - 15 <= float(row["annotations"]) <= labelled
    assert float(row["agreement"]) > 0.85
    with key.open(encoding="utf-8-sig") as file:
        hidden = {(r["number"], r["translation"]): r for r in csv.DictReader(file)}
    with human.open(encoding="utf-8") as file:
        labels = [r for r in csv.reader(file) if r[3].strip().upper() == "Y"]
    agreed, of = 0, 0
    for number, _, text, _, gender, _ in labels:
        item = hidden.get((number, " ".join(text.split())))
        if item and gender.strip().upper() in ("M", "F"):
            of, agreed = of + 1, agreed + (item["automatic:gender"] == gender.strip().lower())
    assert (float(row["annotations"]), float(row["agreement"])) == (of, pytest.approx(agreed / of))
