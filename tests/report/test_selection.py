"""`rows=` chooses what a report shows, and makes no verdict easier."""

import csv
import re
from zipfile import ZipFile

import numpy as np
import pytest

from support.example_rows import AER, FIDELITY, decisions, measured
from support.forked_commands import command, must_run
from support.paths import ROOT
from xnmt_bench.errors import ConfigError
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.metrics.aer.metric import AER as AlignmentErrorRate
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.report.report import collect
from xnmt_bench.report.selection import Selection
from xnmt_bench.report.table import tables

SENTENCES = 60
DRAWS = Draws(400, 0)
RNG = np.random.default_rng(0)
HARD = -RNG.gamma(2.0, 1.0, SENTENCES) - 5
METRIC = Fidelity()


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Two explainers and two blind rows under two judges, and the system with its whole context.

    `near` is better than `random` and worse than `lexicon`.
    """
    folder = tmp_path_factory.mktemp("rows")

    def write(explainer, log_p, **keys):
        blind = keys.pop("blind", False)
        identity = FIDELITY | {"explainer": explainer} | keys
        measured(METRIC, folder, identity, decisions(range(SENTENCES), log_p), blind=blind)

    for judge, seed in (("fn", 1), ("base", "")):
        own = {"instantiation": judge, "seed": seed}
        write("clear", HARD + 1, **own)
        write("near", HARD - 0.5 + 0.01 * RNG.standard_normal(SENTENCES), **own)
        write("lexicon", HARD, **own, blind=True)
        write("random", HARD - 1, **own, blind=True)
    write("", HARD + 3, instantiation="nmt", seed="", k="", prefix="", train_sentences="")
    return collect(METRIC, folder, DRAWS)


def names(text, rows):
    shown = Selection.parse(text).shown(METRIC, rows)
    return {(s.row["explainer"], s.row["instantiation"]) for s in shown}


def words(text, rows):
    """The words, blind rows and p-values of the explainers that a report shows, under FN."""
    [of_panel] = Selection.parse(text).standings(METRIC, rows, DRAWS)
    return {name: (s.word, s.against, s.p) for name, s in of_panel["fn"].items()}


def test_columns_choose_together_and_values_one_by_one(rows):
    assert names("", rows) == {(s.row["explainer"], s.row["instantiation"]) for s in rows}
    reference = {("", "nmt")}
    assert names("explainer=clear,lexicon judge=base", rows) == reference | {
        ("clear", "base"),
        ("lexicon", "base"),
    }
    # A proxy's row is of the judge `own`.
    assert names("judge=own explainer=near", rows) == reference | {("near", "fn")}
    assert names("instantiation=fn explainer=near", rows) == reference | {("near", "fn")}


def test_a_row_without_a_value_fits_every_value(rows):
    """Base has no seed, and stands beside the proxies of each."""
    assert names("seed=1 explainer=near", rows) >= {("near", "fn"), ("near", "base")}


def test_a_column_that_a_metric_lacks_selects_none_of_its_rows(tmp_path):
    metric = AlignmentErrorRate()
    measured(metric, tmp_path, AER, "failed: x")
    scored = collect(metric, tmp_path, DRAWS)
    assert Selection.parse("judge=base k=3").shown(metric, scored) == scored


def test_what_is_compared_with_stays_though_it_is_not_shown(rows):
    """Without its blind rows a report would call `near` better than every blind row."""
    every = words("", rows)
    assert every["near"][:2] == ("worse", "lexicon") and every["clear"][0] == "better"
    assert words("explainer=near", rows) == {"near": every["near"]}
    assert words("explainer=near,random", rows) == {"near": every["near"]}
    assert words("explainer=near judge=own", rows) == {"near": every["near"]}
    alone = [s for s in rows if s.row["explainer"] in ("near", "random")]
    assert words("", alone)["near"][0] == "better"


def test_seeds_select_no_row_of_the_tests(tmp_path):
    """The best blind row has another seed than the one that is shown."""
    for explainer, seed, shift in (("near", 1, -0.5), ("near", 2, -0.5), ("lexicon", 2, 0),
                                   ("random", 1, -1), ("random", 2, -1)):  # fmt: skip
        log_p = HARD + shift + 0.01 * np.random.default_rng(seed).standard_normal(SENTENCES)
        identity = FIDELITY | {"explainer": explainer, "seed": seed}
        blind = explainer != "near"
        measured(METRIC, tmp_path, identity, decisions(range(SENTENCES), log_p), blind=blind)
    scored = collect(METRIC, tmp_path, DRAWS)
    assert words("seed=1", scored)["near"] == words("", scored)["near"]
    assert words("", scored)["near"][:2] == ("worse", "lexicon")


def test_marks_and_bold_are_those_of_all_rows(rows):
    selection = Selection.parse("explainer=near,random judge=own")
    standings = selection.standings(METRIC, rows, DRAWS)
    [(_, summary)] = tables(METRIC, selection.shown(METRIC, rows), [], standings)
    cells = {line.cells[0].text: line.cells[1] for line in summary.lines}
    assert "‡" in cells["near"].text and cells["near"].rank is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("explainer", "rows: 'explainer' is not column=value, such as rows="),
        ("=a", "rows: '=a' is not column=value"),
        ("k=1 k=2", "rows: k stands twice; give k=first,second"),
        ("nmt='a", "rows: No closing quotation"),
    ],
)
def test_a_text_of_another_form_is_refused(text, problem):
    with pytest.raises(ConfigError, match=re.escape(problem)):
        Selection.parse(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("explainer=clera", "no row has explainer=clera; there are clear, lexicon, near, random"),
        ("judge=evalx", "no row has judge=evalx; there are base, own"),
        ("explaner=clear", "no column 'explaner'; there are corpus, explainer, instantiation, jud"),
    ],
)
def test_what_no_row_has_is_named_with_what_there_is(rows, text, problem):
    measurements = [s.measurement for s in rows]
    with pytest.raises(ConfigError, match=re.escape(problem)):
        Selection.parse(text).check([(METRIC, measurements)])


def test_values_that_no_row_has_together_are_refused(rows):
    measurements = [s.measurement for s in rows if s.row["explainer"] not in ("", "near")]
    measurements += [s.measurement for s in rows if s.row["instantiation"] == "base"]
    with pytest.raises(ConfigError, match="no row has all of these values"):
        Selection.parse("explainer=near judge=own").check([(METRIC, measurements)])


def test_a_name_may_hold_options_and_blanks():
    selection = Selection.parse("explainer=lime[samples=10,ridge=1],attention nmt='my model'")
    assert selection.values == {
        "explainer": ["lime[samples=10,ridge=1]", "attention"],
        "nmt": ["my model"],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with recorded rows."""
    folder = tmp_path_factory.mktemp("recorded")
    zipped = ROOT / "docs" / "recorded" / "demo.zip"
    ZipFile(zipped).extractall(folder / "results" / "measurements")
    return folder


def test_a_command_shows_the_chosen_rows_everywhere(folder):
    rows = "rows=explainer=attention,lexicon judge=base nmt=transformer_128"
    done = must_run(
        "evaluate.py", "metric=[fidelity]", "analysis=[significance]", "bootstrap.samples=50", rows,
        cwd=folder,
    )  # fmt: skip
    results = folder / "results"
    with (results / "fidelity.csv").open(encoding="utf-8") as file:
        shown = {(r["explainer"], r["instantiation"]) for r in csv.DictReader(file)}
    assert shown - {("", "nmt"), ("", "unigram")} == {("attention", "base"), ("lexicon", "base")}
    for name in ("fidelity.txt", "fidelity.md", "fidelity.tex", "fidelity.svg", "report.html"):
        text = (results / name).read_text(encoding="utf-8")
        assert "gradient" not in text and "EVAL-X" not in text, name
    for name in ("fidelity.md", "fidelity_significance.md"):
        text = (results / name).read_text(encoding="utf-8")
        assert "Rows shown: explainer=attention,lexicon judge=base nmt=transformer_128." in text
    # The test that the whole report makes.
    assert "attention (2.70" in done.stdout and "p = 0.012" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["explainer=attention"], 'explainer=attention: no explainer runs here; rows="explainer'),
        (
            ["explainer.phi.removal=mean"],
            "explainer.phi.removal=mean: no explainer runs here",
        ),
        (["rows=explainer=attention", "bundle=a.zip"], "bundle= holds every row of a report"),
        (["rows=k=1", "explain=Der Hund ."], "rows= chooses rows of a report; leave explain="),
        (["cite", "explain=Der Hund ."], "cite= is of the rows of a report; leave explain="),
        (["rows=judge=bas"], "rows: no row has judge=bas; there are base, evalx, own"),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(folder, arguments, problem):
    done = command("evaluate.py", *arguments, cwd=folder)
    assert done.returncode == 2
    assert f"error: {problem}" in done.stderr


@pytest.mark.parametrize("argument", ["rows=k=1", "cite=true"])
def test_training_has_no_rows_to_report(tmp_path, argument):
    done = command("train.py", argument, cwd=tmp_path)
    assert done.returncode == 2
    assert f"{argument[:4]}= works with evaluate.py only" in done.stderr


def test_options_of_jobs_are_named_as_unused(folder):
    few = ("metric=[fidelity]", "bootstrap.samples=20")
    changes = ("k=2", "judge=[base]", "corpus=toy", "seed=3", "analysis=[significance]")
    done = must_run("evaluate.py", *few, *changes, cwd=folder)
    unused = "not used: k=2, judge=[base], corpus=toy, seed=3; a report has every measured row"
    assert unused in done.stdout
    done = must_run("evaluate.py", "cite", *changes, cwd=folder)
    assert f"% {unused}" in done.stdout
    # `analysis.agreement.fixed.k` is the job's k.
    done = must_run("evaluate.py", *few, "k=1", "analysis=[agreement]", cwd=folder)
    assert "not used" not in done.stdout
