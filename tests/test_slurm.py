"""Sweeps on SLURM: what is submitted, and a job whose time ends before it is done."""

import os
import stat
import subprocess
import sys
import time

import pytest

from support import forked_commands
from support.forked_commands import command
from support.paths import ROOT

submitit = pytest.importorskip("submitit")

SMALL = [
    *("corpus.train=60", "corpus.valid=10", "corpus.test=4"),
    *("corpus.subwords.source_size=150", "corpus.subwords.target_size=150"),
    *("nmt.sizes.dimension=16", "nmt.sizes.feed_forward=16", "nmt.sizes.heads=2"),
    *("nmt.training.max_epochs=2", "metric=[]", "trainer.progress_bar=false", "threads=1"),
]
# A scheduler in a file: it notes what is submitted, runs the first job of the array at once, and
# notes requests to start a job again. If a certain file exists, it signals a job that its time is
# over.
SCHEDULER = """#!{python}
import sys
from pathlib import Path
notes, name = Path({notes!r}), Path(sys.argv[0]).name
if name == "sbatch":
    text = Path(sys.argv[-1]).read_text()
    (notes / "submitted").write_text(text)
    print("Submitted batch job 7")
elif name == "scontrol":
    with (notes / "asked").open("a") as file:
        print(*sys.argv[1:], file=file)
elif name == "sacct":
    state = (notes / "state").read_text() if (notes / "state").exists() else "RUNNING"
    print("JobID|State\\n" + "\\n".join(f"7_{{i}}|{{state}}" for i in range(2)))
"""


@pytest.fixture
def scheduler(tmp_path):
    """Commands of SLURM, in a folder; returns the folder of their notes and an environment."""
    commands, notes = tmp_path / "bin", tmp_path / "notes"
    commands.mkdir()
    notes.mkdir()
    for name in ("sbatch", "srun", "scontrol", "sacct"):
        path = commands / name
        path.write_text(SCHEDULER.format(python=sys.executable, notes=str(notes)))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    path = f"{commands}:{os.environ['PATH']}"
    return notes, {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}


def sweep(folder, launcher, *changes):
    """The arguments of a sweep of two jobs."""
    return ["-m", f"launcher={launcher}", "nmt.seed=0,1", *SMALL, f"store={folder}/store",
            f"results={folder}/results", f"hydra.sweep.dir={folder}/sweep", *changes]  # fmt: skip


def wait_for(path, has_ended):
    for _ in range(600):
        if path.exists():
            return
        assert not has_ended()
        time.sleep(0.1)
    raise AssertionError(f"{path} did not come")


def run_job(folder, environment, task):
    """Runs a job of the array as SLURM would."""
    submitted = (folder.parent / "notes" / "submitted").read_text()
    [line] = [line for line in submitted.splitlines() if line.startswith("srun")]
    command = line[line.index(sys.executable) :]
    place = {"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": str(task),
             "SLURM_JOB_NUM_NODES": "1", "SLURM_NTASKS": "1", "SLURM_NODEID": "0",
             "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_JOB_NODELIST": "host",
             "SUBMITIT_EXECUTOR": "slurm"}  # fmt: skip
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, shell=True, cwd=ROOT, env={**environment, **place}, **output)


def test_a_sweep_is_an_array_that_goes_on_when_its_time_is_over(scheduler, tmp_path):
    notes, environment = scheduler
    folder = tmp_path / "work"
    folder.mkdir()
    options = "hydra.launcher.gpus_per_node=1", "hydra.launcher.timeout_min=30"
    files = tmp_path / "output", tmp_path / "errors"
    driver = forked_commands.start_script(
        ROOT / "train.py", sweep(folder, "slurm", *options), ROOT, environment, *files
    )
    try:
        wait_for(notes / "submitted", lambda: driver.exitcode is not None)
        submitted = (notes / "submitted").read_text()
        for option in ("--array=0-1%2", "--gpus-per-node=1", "--signal=USR2@120", "--requeue",
                       "--time=30", "--cpus-per-task=1"):  # fmt: skip
            assert f"#SBATCH {option}\n" in submitted, submitted
        # Told that its time is over while it trains, a job asks to be started again.
        job = run_job(folder, environment, 0)
        wait_for(folder / "store" / "encoded", lambda: job.poll() is not None)
        children = subprocess.run(
            ["pgrep", "-f", "submitit.core._submit"], capture_output=True, text=True
        )
        os.kill(int(children.stdout.split()[-1]), 12)  # SIGUSR2
        output, _ = job.communicate(timeout=300)
        assert (notes / "asked").read_text().strip() == "requeue 7_0", output
        # Started again, it ends; as does the other.
        for job in [run_job(folder, environment, task) for task in (0, 1)]:
            output, _ = job.communicate(timeout=300)
            assert "job completed" in output.lower(), output
        (notes / "state").write_text("COMPLETED")
        driver.join(300)
        assert driver.exitcode == 0, files[1].read_text()
    finally:
        driver.kill()
    assert len(list((folder / "store" / "nmt").glob("*/model.safetensors"))) == 2


def test_a_job_that_fails_ends_the_sweep_in_a_line(tmp_path):
    missing = tmp_path / "missing"
    changes = sweep(tmp_path, "submitit_local", f"nmt.initial={missing}")
    done = command("train.py", *changes, cwd=ROOT)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last == f"error: {missing}: no NMT model is here", done.stderr


def test_without_submitit_one_line_says_what_to_install(tmp_path):
    package = tmp_path / "hydra_plugins"
    package.mkdir()
    (package / "__init__.py").write_text("")  # hides the installed plug-ins
    environment = {"PYTHONPATH": str(tmp_path)}
    done = command("train.py", *sweep(tmp_path, "slurm"), fresh=True, env=environment, cwd=ROOT)
    assert done.returncode == 2
    assert (
        "error: launcher=slurm: submitit is not installed; pip install 'xnmt_bench[slurm]'"
        in done.stderr
    )
