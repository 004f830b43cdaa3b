"""Kills, sweeps and plug-ins, from the command line as a user runs it."""

import csv
import os
import random
import re
import shlex
import shutil
import time
from pathlib import Path

import pytest

from support import forked_commands
from support.configurations import configure
from support.forked_commands import command, must_run
from support.interruptions import table
from support.paths import ROOT
from support.plugin_packages import install
from xnmt_bench.errors import TRAIN_FIRST
from xnmt_bench.pipeline.job import Job
from xnmt_bench.store import file_hash

TINY = [
    "corpus.train=200",
    "corpus.valid=20",
    "corpus.test=30",
    "corpus.subwords.source_size=300",
    "corpus.subwords.target_size=300",
    "nmt.sizes.dimension=32",
    "nmt.sizes.feed_forward=64",
    "nmt.beam=1",
    "nmt.training.max_epochs=2",
    "nmt.training.batch_tokens=400",
    "nmt.training.warmup_steps=50",
    "rules.train_sentences=60",
    "rules.shard_sentences=10",
    "rules.largest_k=2",
    "proxy=fn",
    "judge=[base,own]",
    "proxy.training.max_epochs=4",
    "proxy.training.patience=1",
    "explainer=prediction_difference",
    "trainer.progress_bar=false",
    "threads=1",
]


# The same for a metric that asks no proxy.
PLAIN = [option for option in TINY if not option.startswith("metric.")]


def places(folder):
    return [
        f"store={folder}/store",
        f"results={folder}/results",
        f"hydra.run.dir={folder}/runs/${{now:%H-%M-%S-%f}}",
        f"hydra.sweep.dir={folder}/sweep",
    ]


@pytest.fixture(scope="module")
def finished_folder(tmp_path_factory):
    """The folder of a run that ended without a kill."""
    folder = tmp_path_factory.mktemp("untouched")
    must_run("train.py", *TINY, *places(folder), cwd=folder)
    return folder


# Which are made from the ones before them, and what else there is from these.
CHAIN = ("subwords", "encoded", "nmt", "rules")


def begin(finished, folder, stage=""):
    """Gives a folder what that run made before a stage."""
    for name in CHAIN[: CHAIN.index(stage) if stage in CHAIN else None]:
        shutil.copytree(finished / "store" / name, folder / "store" / name)


@pytest.fixture
def begun(finished_folder, tmp_path):
    """Trained and explained already, and no proxy, nor any result."""
    begin(finished_folder, tmp_path)


@pytest.fixture(scope="module")
def finished_rows(finished_folder):
    """Its table."""
    rows = table(finished_folder)
    measured = {(r["metric"], r["instantiation"]) for r in rows}
    fidelity = {("fidelity", i) for i in ("base", "fn", "unigram", "nmt")}
    assert measured == {*fidelity, ("quality", "")}
    return rows


def start(folder, errors=Path(os.devnull)):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    arguments = [*TINY, *places(folder)]
    return forked_commands.start_script(
        ROOT / "train.py", arguments, folder, environment, Path(os.devnull), errors
    )


def partial(folder, stage):
    return list((folder / "store" / stage).glob("*.partial"))


def finished(folder, stage):
    return [p for p in (folder / "store" / stage).glob("*/meta.json") if ".partial" not in str(p)]


# What no check can refuse and no machine can train: a proxy beyond any memory.
BROKEN = "proxy.sizes.dimension=1000000000"
# Stage, what shows that it is under way, and the longest it may run on before it is killed.
# `test_stopped.py` kills at every change of the disk; here a user's command is killed from outside.
CAUGHT = [
    ("nmt", "checkpoints/last.ckpt", 0.5),
]
MORE = [
    ("rules", "train/*.parquet", 0.4),
    ("subwords", "*", 0.0),
    ("encoded", "*", 0.0),
    ("nmt", "", 0.3),  # before the first checkpoint
    ("proxy", "lessons", 0.2),
    ("proxy", "checkpoints/last.ckpt", 0.3),
    ("judged", "", 0.0),
    ("translation", "", 0.0),
]


def mostly_slow(quick, slow):
    """Cases of which some take part in every run of the tests."""
    return [*quick, *(pytest.param(*case, marks=pytest.mark.slow) for case in slow)]


@pytest.mark.parametrize(("stage", "sign", "longest"), mostly_slow(CAUGHT, MORE))
def test_a_killed_run_ends_with_the_same_table(
    finished_folder, finished_rows, tmp_path, stage, sign, longest
):
    begin(finished_folder, tmp_path, stage)
    _kill_within(tmp_path, stage, sign, random.uniform(0, longest))
    _ends_like(finished_rows, tmp_path, stage)


def _ends_like(untouched, folder, stage):
    must_run("train.py", *TINY, *places(folder), cwd=folder)
    assert not partial(folder, stage)
    assert table(folder) == untouched


@pytest.mark.parametrize("rows", mostly_slow([2], [[1], [3], [4]]))
def test_a_run_that_is_killed_between_two_rows_ends_with_the_same_table(
    finished_folder, finished_rows, tmp_path, rows
):
    """Of five: base, the proxy, both references, quality. What was measured stays."""
    shutil.copytree(finished_folder / "store", tmp_path / "store")
    kept = _kill_after_rows(tmp_path, rows)
    before = {path: path.read_bytes() for path in kept}
    assert rows <= len(kept) < len(finished_rows)
    _ends_like(finished_rows, tmp_path, "rules")
    assert {path: path.read_bytes() for path in kept} == before
    assert len(measured(tmp_path)) == len(finished_rows)


def measured(folder):
    return list((folder / "results" / "measurements").glob("*/*.json"))


def _kill_after_rows(folder: Path, rows: int, tries: int = 6) -> list[Path]:
    """Kills a run once it has written some rows and before it has written all of them."""
    for _ in range(tries):
        process = start(folder)
        while process.is_alive() and len(measured(folder)) < rows:
            time.sleep(0.0005)
        process.kill()
        process.join()
        if len(kept := measured(folder)) < 5:
            return kept
        shutil.rmtree(folder / "results")
    raise AssertionError(f"no run could be caught after {rows} rows")


def test_a_row_whose_units_are_damaged_says_so_and_is_measured_again(
    finished_folder, finished_rows, tmp_path
):
    for name in ("store", "results"):
        shutil.copytree(finished_folder / name, tmp_path / name)
    units = min((tmp_path / "results" / "measurements" / "fidelity").glob("*.parquet"))
    units.write_bytes(units.read_bytes()[:-20])
    [damaged] = [row for row in table(tmp_path) if row["status"] != "ok"]
    assert damaged["status"].startswith(f"failed: {units}: truncated or altered")
    assert damaged["ppl"] == ""
    done = command("evaluate.py", *places(tmp_path), "metric=[fidelity]", cwd=tmp_path)
    assert done.returncode == 1
    assert f"1 rows are damaged: failed: {units}: truncated or altered" in done.stderr
    assert "truncated or altered" in " ".join(done.stdout.split())
    _ends_like(finished_rows, tmp_path, "rules")


def test_moved_results_rebuild_every_table_and_page_without_the_store(finished_folder, tmp_path):
    metrics = ["metric=[fidelity,quality]", "analysis=[significance,density,facets,unaligned]"]
    for name in ("beside", "moved"):
        folder = tmp_path / name
        shutil.copytree(finished_folder / "results", folder / "results")
        store = finished_folder / "store" if name == "beside" else tmp_path / "missing"
        must_run(
            "evaluate.py", *metrics, *places(folder), f"store={store}", "threads=1", cwd=folder
        )
    assert not (tmp_path / "missing").exists()
    files = {
        name: {
            path.name: path.read_bytes()
            for path in (tmp_path / name / "results").iterdir()
            if path.suffix in (".csv", ".md", ".tex", ".txt") or path.name == "debug.html"
        }
        for name in ("beside", "moved")
    }
    assert {"fidelity.csv", "fidelity_density.csv", "fidelity_unaligned.csv", "debug.html"} <= set(
        files["beside"]
    )
    assert files["moved"] == files["beside"]
    assert (tmp_path / "moved" / "results" / "report.html").exists()


def _kill_within(folder: Path, stage: str, sign: str, delay: float, tries: int = 6) -> None:
    """Kills a run inside a stage: it had begun and had not ended."""
    for _ in range(tries):
        process = start(folder)
        while process.is_alive():
            begun = partial(folder, stage)
            if begun and (not sign or list(begun[0].glob(sign))):
                break
            time.sleep(0.0005)
        time.sleep(delay)
        process.kill()
        process.join()
        if partial(folder, stage) and len(finished(folder, stage)) < wanted(stage):
            return
        # It was over before the signal came: begin anew, and be quicker.
        delay /= 3
        shutil.rmtree(folder / "store" / stage, ignore_errors=True)
    raise AssertionError(f"{stage} could not be caught at work")


def wanted(stage):
    return 2 if stage in ("subwords", "rules") else 1  # of two sides, of two splits


def test_a_truncated_shard_is_named_and_made_again_or_an_error(finished_folder, tmp_path):
    """In unfinished work it is made again; in a finished artefact it is an error."""
    begin(finished_folder, tmp_path, "rules")
    _kill_within(tmp_path, "rules", "train/*.parquet", 0.0)
    [folder] = partial(tmp_path, "rules")
    shard = min(folder.glob("train/*.parquet"))
    shard.write_bytes(shard.read_bytes()[:-40])
    done = must_run("train.py", *TINY, *places(tmp_path), cwd=tmp_path)
    [line] = [x for x in (done.stdout + done.stderr).splitlines() if "it is made again" in x]
    assert str(shard.relative_to(tmp_path)) in line
    [shard] = (tmp_path / "store" / "rules").glob("*/test/00000.parquet")
    shard.write_bytes(shard.read_bytes()[:-1])
    done = command("train.py", *TINY, *places(tmp_path), "seed=1", cwd=tmp_path)
    assert done.returncode == 1
    assert "error:" in done.stderr and "00000.parquet" in done.stderr
    assert "truncated or altered" in done.stderr


def made(folder, stage):
    logs = [p.read_text() for p in folder.rglob("train.log")]
    # A line of a sweep begins with its job.
    lines = re.compile(rf"\[INFO\] - (job \d+ of \d+: )?making {stage} ")
    return sum(len(lines.findall(text)) for text in logs)


@pytest.mark.long
def test_a_concurrent_sweep_shares_what_it_can_and_runs_a_plugin(tmp_path):
    """2 x 2 jobs at once: one NMT system, each explainer's rules once."""
    site, package = tmp_path / "site", tmp_path / "plugin"
    shutil.copytree(ROOT / "tests" / "fixtures" / "plugin", package)  # a build leaves files behind
    install(site, package)
    must_run(
        "train.py",
        "-m",
        *TINY,
        *places(tmp_path),
        "launcher=joblib",
        "explainer=last_word,random",
        "proxy=fn,rn",
        fresh=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(site)},
    )
    assert {s: made(tmp_path, s) for s in ("nmt", "encoded", "rules", "proxy")} == {
        "nmt": 1,
        "encoded": 3,
        "rules": 4,  # of two splits each
        "proxy": 4,
    }
    rows = table(tmp_path)
    assert [r["metric"] for r in rows].count("quality") == 1
    names = {(r["explainer"], r["instantiation"]) for r in rows}
    assert {(e, i) for e in ("last_word", "random") for i in ("base", "fn", "rn")} <= names
    assert all(r["status"] == "ok" for r in rows)


def test_two_commands_in_the_same_moment_do_not_collide(tmp_path):
    errors = [tmp_path / "first.stderr", tmp_path / "second.stderr"]
    processes = [start(tmp_path, path) for path in errors]
    for process in processes:
        process.join()
    codes = [process.exitcode for process in processes]
    assert codes == [0, 0], [path.read_text() for path in errors]
    assert len(finished(tmp_path, "nmt")) == len(finished(tmp_path, "proxy")) == 1
    assert not list((tmp_path / "store").rglob("*.partial"))


@pytest.mark.usefixtures("begun")
def test_evaluate_reports_and_never_trains(finished_folder, tmp_path):
    done = command("evaluate.py", *places(tmp_path), cwd=tmp_path)
    assert done.returncode == 1
    assert TRAIN_FIRST in done.stderr
    shutil.copytree(finished_folder / "results", tmp_path / "results", dirs_exist_ok=True)
    done = must_run("evaluate.py", *places(tmp_path), fresh=True, cwd=tmp_path)
    assert "prediction_difference" in done.stdout
    for metric in ("fidelity", "quality"):
        for name in ("csv", "txt", "md", "tex", "svg", "png"):
            assert (tmp_path / "results" / f"{metric}.{name}").stat().st_size > 100
    shown = must_run(
        "evaluate.py",
        *(change for change in TINY if not change.startswith("explainer=")),
        *places(tmp_path),
        "explain=she's ill (schläft!) .",
        cwd=tmp_path,
    )
    assert "weighted gradient" in shown.stdout
    assert (tmp_path / "results" / "explanation.png").exists()


@pytest.mark.usefixtures("begun")
def test_a_proxy_that_fails_loses_no_other_row(tmp_path):
    """Its row says why, and a mended run replaces it."""
    done = command("train.py", *TINY, *places(tmp_path), BROKEN, cwd=tmp_path)
    assert done.returncode == 1
    rows = {(r["metric"], r["instantiation"]): r for r in table(tmp_path)}
    failed = rows.pop(("fidelity", "fn"))
    assert failed["status"].startswith("failed: RuntimeError: ")
    assert "allocate memory" in failed["status"]
    assert failed["ppl"] == failed["units"] == ""
    other_rows = {
        ("fidelity", "base"),
        ("fidelity", "unigram"),
        ("fidelity", "nmt"),
        ("quality", ""),
    }
    assert set(rows) == other_rows
    assert all(r["status"] == "ok" for r in rows.values())
    read = must_run("evaluate.py", *places(tmp_path), cwd=tmp_path)
    assert failed["status"] in " ".join(read.stdout.split())
    must_run("train.py", *TINY, *places(tmp_path), cwd=tmp_path)
    again = {(r["metric"], r["instantiation"]): r for r in table(tmp_path)}
    assert again.pop(("fidelity", "fn"))["status"] == "ok"
    assert again == rows


@pytest.mark.usefixtures("begun")
def test_a_failed_seed_is_missing_from_the_mean_and_named(tmp_path):
    """Of three seeds the second cannot be trained."""
    name, _, huge = BROKEN.partition("=")
    sizes = [f"+by_seed=[32,{huge},32]", f"{name}='${{oc.select:by_seed.${{seed}}}}'"]
    done = command("train.py", "-m", *TINY, *places(tmp_path), *sizes, "seed=0,1,2", cwd=tmp_path)
    assert done.returncode == 1
    rows = [r for r in table(tmp_path) if r["instantiation"] == "fn"]
    assert [(r["seed"], r["status"].split(":")[0]) for r in rows] == [
        (0, "ok"), (1, "failed"), (2, "ok"),
    ]  # fmt: skip
    read = must_run("evaluate.py", *places(tmp_path), cwd=tmp_path)
    text = " ".join(read.stdout.split())
    assert "(2 of 3 seeds)" in text
    assert f"transformer prediction_difference fn seed 1: {rows[1]['status']}" in text
    mean = (rows[0]["ppl"] + rows[2]["ppl"]) / 2
    markdown = (tmp_path / "results" / "fidelity.md").read_text(encoding="utf-8")
    [cell] = [c for c in markdown.split("|") if "(2 of 3 seeds)" in c]
    assert float(cell.strip(" *").split()[0]) == pytest.approx(mean, rel=0.01)


def test_quality_alone_trains_no_proxy_and_explains_nothing(tmp_path):
    must_run("train.py", *PLAIN, *places(tmp_path), "metric=[quality]", cwd=tmp_path)
    stages = {path.name for path in (tmp_path / "store").iterdir()}
    assert stages == {"subwords", "encoded", "nmt", "translation", "doubts"}
    [row] = table(tmp_path)
    assert (row["metric"], row["status"], row["units"]) == ("quality", "ok", 30)
    assert row["bleu_low"] <= row["bleu"] <= row["bleu_high"]


def test_a_file_of_translations_is_scored_without_any_system(tmp_path):
    translations = [s.target for s in Job(configure(*TINY)).corpus.sentences("test")]
    translations[::2] = [" ".join(text.split()[:-1]) or "x" for text in translations[::2]]
    file = tmp_path / "theirs.txt"
    file.write_text("".join(f"{text}\n" for text in translations), encoding="utf-8")
    options = [*PLAIN, *places(tmp_path), "metric=[quality]", f"outputs.path={file}"]
    done = must_run("evaluate.py", *options, "nmt.reader._target_=sys.exit", cwd=tmp_path)
    assert not (tmp_path / "store").exists()
    with (tmp_path / "results" / "quality.csv").open() as rows:
        [row] = csv.DictReader(rows)
    assert (row["nmt"], row["model"], row["status"]) == ("theirs.txt", "", "ok")
    assert 0 < float(row["bleu_low"]) <= float(row["bleu"]) <= float(row["bleu_high"]) < 100
    for score in ("BLEU", "chrF", "TER"):
        assert score in done.stdout
    assert (tmp_path / "results" / "report.html").exists()


def rerun(line, folder, **paths):
    """Runs the command of a row again in a folder, with paths in its placeholders' place."""
    _, script, *arguments = shlex.split(line, comments=True)
    for name, path in paths.items():
        assert f"{name}=sha256:{file_hash(path)[:16]}" in line
        arguments = [argument.replace(name, str(path)) for argument in arguments]
    must_run(script, *arguments, *places(folder), cwd=folder)


def without_rerun(rows):
    return [{key: value for key, value in row.items() if key != "rerun"} for row in rows]


def test_the_command_of_a_row_makes_it_again(finished_folder, tmp_path):
    [line] = {row["rerun"] for row in table(finished_folder)}
    assert str(finished_folder) not in line
    assert "progress_bar" not in line
    rerun(line, tmp_path)
    assert without_rerun(table(tmp_path)) == without_rerun(table(finished_folder))
    # Of a file there is a placeholder, since its path is of one machine.
    file = tmp_path / "theirs.txt"
    file.write_text("a b .\n" * 60, encoding="utf-8")
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    options = ["corpus.train=200", "corpus.test=60", "metric=[quality]", f"outputs.path={file}"]
    assert command("evaluate.py", *options, *places(first), cwd=tmp_path).returncode == 0
    [row] = table(first)
    assert row["rerun"].startswith(
        "python evaluate.py corpus.train=200 corpus.test=60 'metric=[quality]' "
        "outputs.path=FILE1 # FILE1=sha256:"
    )
    rerun(row["rerun"], second, FILE1=file)
    assert table(second) == [row]


def test_a_file_of_translations_with_a_missing_line_is_one_line(tmp_path):
    file = tmp_path / "theirs.txt"
    file.write_text("eins zwei\n" * 29, encoding="utf-8")
    options = [*PLAIN, *places(tmp_path), "metric=[quality]", f"outputs.path={file}"]
    done = command("evaluate.py", *options, cwd=tmp_path)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last == f"error: {file}: 29 lines, but there are 30 test sentences in toy"
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "store").exists()


def test_bad_input_is_one_line_with_file_and_line(tmp_path):
    (tmp_path / "train.de").write_text("ein Hund\n\n")
    (tmp_path / "train.en").write_text("a dog\na cat\n")
    for split in ("valid", "test"):
        for language in ("de", "en"):
            (tmp_path / f"{split}.{language}").write_text("ja\n")
    done = command(
        "train.py",
        "corpus=text",
        f"corpus.root={tmp_path}",
        "corpus.source_language=de",
        "corpus.target_language=en",
        *places(tmp_path),
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert f"{tmp_path}/train.de:2: an empty line" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("begun")
@pytest.mark.parametrize("fails", [pytest.param(False, marks=pytest.mark.long), True])
def test_wandb_runs_offline_and_is_closed(tmp_path, fails):
    broken = [BROKEN] if fails else []
    done = command(
        "train.py",
        *TINY,
        *places(tmp_path),
        "logger=wandb",
        *broken,
        cwd=tmp_path,
        env={"WANDB_MODE": "offline", "WANDB_SILENT": "true"},
    )
    assert (done.returncode != 0) == fails
    [run] = tmp_path.rglob("offline-run-*/*.wandb")
    assert run.stat().st_size > 1000
    assert "the run lies in" in done.stdout + done.stderr
    # A failed job leaves a row that says why, and never a number.
    statuses = {row["instantiation"]: (row["status"], row["ppl"]) for row in table(tmp_path)}
    assert all(status == "ok" for name, (status, _) in statuses.items() if name != "fn")
    assert statuses["fn"][0].startswith("failed: RuntimeError" if fails else "ok")
    assert (statuses["fn"][1] == "") == fails
