"""Kills, sweeps and plug-ins, from the command line as a user runs it."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, command

from xnmt_bench.report.fidelity import collect

TINY = [
    "corpus.train=700",
    "corpus.valid=60",
    "corpus.test=60",
    "corpus.subwords.source_size=300",
    "corpus.subwords.target_size=400",
    "nmt.sizes.dimension=32",
    "nmt.sizes.feed_forward=64",
    "nmt.beam=1",
    "nmt.training.max_epochs=4",
    "nmt.training.batch_tokens=400",
    "nmt.training.warmup_steps=50",
    "rules.train_sentences=400",
    "rules.shard_sentences=25",
    "rules.largest_k=2",
    "proxy=fn",
    "proxy.training.max_epochs=5",
    "proxy.training.patience=1",
    "explainer=prediction_difference",
    "trainer.progress_bar=false",
    "threads=1",
]


def places(folder):
    return [
        f"store={folder}/store",
        f"results={folder}/results",
        f"hydra.run.dir={folder}/runs/${{now:%H-%M-%S-%f}}",
        f"hydra.sweep.dir={folder}/sweep",
    ]


def table(folder):
    """Every number of a results folder, with its signature."""
    rows = collect(folder / "results", 50, 0)
    assert rows
    return rows


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    """The table of a run that nobody killed."""
    folder = tmp_path_factory.mktemp("untouched")
    done = command("train.py", *TINY, *places(folder), cwd=folder)
    assert done.returncode == 0, done.stderr
    return table(folder)


def start(folder):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), *TINY, *places(folder)],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def partial(folder, stage):
    return list((folder / "store" / stage).glob("*.partial"))


def finished(folder, stage):
    return [p for p in (folder / "store" / stage).glob("*/meta.json") if ".partial" not in str(p)]


# Stage, what shows that it is under way, and the longest it may run on before it is killed.
MOMENTS = [
    ("subwords", "*", 0.0),
    ("encoded", "*", 0.0),
    ("nmt", "", 0.3),  # before the first checkpoint
    ("nmt", "checkpoints/last.ckpt", 0.5),
    ("rules", "train/*.parquet", 0.4),
    ("proxy", "decisions", 0.2),
    ("proxy", "checkpoints/last.ckpt", 0.3),
    ("base", "", 0.0),
    ("translation", "", 0.0),
]


@pytest.mark.parametrize(("stage", "sign", "longest"), MOMENTS)
def test_a_killed_run_ends_with_the_same_table(untouched, tmp_path, stage, sign, longest):
    _kill_within(tmp_path, stage, sign, random.uniform(0, longest))
    done = command("train.py", *TINY, *places(tmp_path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not partial(tmp_path, stage)
    assert table(tmp_path) == untouched


def _kill_within(folder: Path, stage: str, sign: str, delay: float, tries: int = 6) -> None:
    """Kills a run inside a stage: it had begun and had not ended."""
    for _ in range(tries):
        process = start(folder)
        while process.poll() is None:
            begun = partial(folder, stage)
            if begun and (not sign or list(begun[0].glob(sign))):
                break
            time.sleep(0.0005)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if partial(folder, stage) and len(finished(folder, stage)) < wanted(stage):
            return
        # It was over before the signal came: begin anew, and be quicker.
        delay /= 3
        shutil.rmtree(folder / "store" / stage, ignore_errors=True)
    raise AssertionError(f"{stage} could not be caught at work")


def wanted(stage):
    return 2 if stage == "subwords" else 1


def test_a_truncated_shard_is_a_named_error(tmp_path):
    _kill_within(tmp_path, "rules", "train/*.parquet", 0.0)
    [folder] = partial(tmp_path, "rules")
    shard = min(folder.glob("train/*.parquet"))
    shard.write_bytes(shard.read_bytes()[:-40])
    done = command("train.py", *TINY, *places(tmp_path), cwd=tmp_path)
    assert done.returncode == 1
    assert str(shard.name) in done.stderr.splitlines()[-1]
    shard.unlink()  # what the error asks for
    assert command("train.py", *TINY, *places(tmp_path), cwd=tmp_path).returncode == 0
    [rules] = finished(tmp_path, "rules")
    whole = rules.parent / "test" / "00000.parquet"
    whole.write_bytes(whole.read_bytes()[:-1])
    done = command("train.py", *TINY, *places(tmp_path), "seed=1", cwd=tmp_path)
    assert done.returncode == 1
    assert "error:" in done.stderr and "00000.parquet" in done.stderr
    assert "truncated or altered" in done.stderr


def made(folder, stage):
    logs = [p.read_text() for p in folder.rglob("train.log")]
    return sum(text.count(f"[INFO] - making {stage} ") for text in logs)


def test_a_concurrent_sweep_shares_what_it_can(tmp_path):
    """2 x 2 jobs at once: one NMT system, each explainer's rules once."""
    done = command(
        "train.py",
        "-m",
        *TINY,
        *places(tmp_path),
        "launcher=joblib",
        "explainer=gradient_norm,random",
        "proxy=fn,rn",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert {s: made(tmp_path, s) for s in ("nmt", "encoded", "rules", "proxy")} == {
        "nmt": 1,
        "encoded": 1,
        "rules": 2,
        "proxy": 4,
    }
    rows = table(tmp_path)
    names = {(r["explainer"], r["instantiation"]) for r in rows}
    assert {(e, i) for e in ("gradient_norm", "random") for i in ("base", "fn", "rn")} <= names
    assert all(r["status"] == "ok" for r in rows)


def test_two_commands_in_the_same_moment_do_not_collide(tmp_path):
    first, second = start(tmp_path), start(tmp_path)
    errors = [process.communicate()[1] for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), errors
    assert len(finished(tmp_path, "nmt")) == len(finished(tmp_path, "proxy")) == 1
    assert not list((tmp_path / "store").rglob("*.partial"))


def test_a_plugin_runs_in_a_sweep(tmp_path):
    site, package = tmp_path / "site", tmp_path / "plugin"
    shutil.copytree(ROOT / "tests" / "fixtures" / "plugin", package)  # a build leaves files behind
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", site, package],
        check=True,
        capture_output=True,
    )
    done = command(
        "train.py",
        "-m",
        *TINY,
        *places(tmp_path),
        "explainer=last_word,random",
        cwd=tmp_path,
        env={"PYTHONPATH": str(site)},
    )
    assert done.returncode == 0, done.stderr
    rows = [r for r in table(tmp_path) if r["instantiation"] == "fn"]
    assert {r["explainer"] for r in rows} == {"last_word", "random"}
    assert all(r["status"] == "ok" for r in rows)


def test_evaluate_reports_and_never_trains(tmp_path):
    done = command("evaluate.py", *places(tmp_path), cwd=tmp_path)
    assert done.returncode == 1
    assert "run train.py first" in done.stderr
    assert command("train.py", *TINY, *places(tmp_path), cwd=tmp_path).returncode == 0
    done = command("evaluate.py", *places(tmp_path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "prediction_difference" in done.stdout
    for name in ("csv", "txt", "md", "tex", "svg", "png"):
        assert (tmp_path / "results" / f"fidelity.{name}").stat().st_size > 100
    shown = command(
        "evaluate.py",
        *TINY,
        *places(tmp_path),
        "explain=she's ill (schläft!) .",
        cwd=tmp_path,
    )
    assert shown.returncode == 0, shown.stderr
    assert "weighted gradient" in shown.stdout
    assert (tmp_path / "results" / "explanation.png").exists()


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


@pytest.mark.parametrize("fails", [False, True])
def test_wandb_runs_offline_and_is_closed(tmp_path, fails):
    broken = ["proxy.sizes.dropout=7"] if fails else []
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
    assert statuses["fn"][0].startswith("failed: XnmtError" if fails else "ok")
    assert (statuses["fn"][1] == "") == fails
