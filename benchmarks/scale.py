"""Shards by one process, by workers and by threads: how many a second, and what each costs.

    python benchmarks/scale.py                          # some minutes on two idle cores
    python benchmarks/scale.py --shards 4 --size 10     # does it run at all?

A system is trained for one epoch on the toy corpus (generated). For each number of workers a fresh
command then makes prediction difference's rules of the same test sentences, from the same store,
on one thread a worker; a last command has one worker of several threads.
The pace is that between the first shard and the last. The start, with Ray's own, stands apart. CPU
seconds are those of all processes of the command, Ray's servers included. Bytes are compared. What
a million sentences would take follows from both. The test set's rules keep the whole relevance.

The paper's calculation for GPUs follows from `--seconds`, the seconds that one GPU takes for the
rules of 1,000 sentences; it is marked as calculated, since nothing of it is measured here.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).parent.parent
JOB = [
    *("corpus.train=1000", "corpus.valid=100", "corpus.subwords.source_size=300"),
    *("corpus.subwords.target_size=300", "nmt.training.max_epochs=1"),
    *("metric=[fidelity]", "judge=[base]", "explainer=prediction_difference"),
    *("rules.train_sentences=10", "trainer.progress_bar=false", "device=cpu"),
]
PAPER = 1_000_000  # sentences whose rules Li et al. 2020 extract, for each explainer
GPUS = (1, 8, 64)


@dataclass(frozen=True)
class Cost:
    """What the rules of all shards took.

    Attributes:
        start: seconds from the command's start to the first shard.
        pace: shards a second, from the first shard to the last.
        cpu: seconds of all processes from the first shard to the last, for each shard.
        size: bytes of all shards.
        digest: of the shards' bytes.
    """

    start: float
    pace: float
    cpu: float
    size: int
    digest: str


def measure(store: Path, arguments: argparse.Namespace, workers: int, threads: int) -> Cost:
    """Makes the rules in a copy of the store, and watches."""
    folder = store.parent / f"workers{workers}_threads{threads}"
    shutil.copytree(store, folder / "store")
    began, seconds_by_process = time.time(), {}
    process = start(folder, arguments, threads, f"workers={workers}", "until=rules")
    first = last = None  # (time, CPU seconds) when a first shard was there, and all of them
    while process.poll() is None:
        watch(process.pid, seconds_by_process)
        there = len(list(folder.glob("store/rules/*/test/*.parquet")))
        now = time.time(), sum(seconds_by_process.values())
        first = first or (now if there else None)
        last = last or (now if there == arguments.shards else None)
        time.sleep(0.05)
    if process.returncode or not (first and last):
        sys.exit(f"the run with workers={workers} threads={threads} failed: {last_line(folder)}")
    paths = sorted(folder.glob("store/rules/*/test/*.parquet"))
    times = sorted(path.stat().st_mtime for path in paths)
    pace = (len(times) - 1) / (times[-1] - times[0])
    content = b"".join(path.read_bytes() for path in paths)
    digest = hashlib.sha256(content).hexdigest()
    cpu = (last[1] - first[1]) / (len(times) - 1)
    shutil.rmtree(folder)
    return Cost(times[0] - began, pace, cpu, len(content), digest)


def start(
    folder: Path, arguments: argparse.Namespace, threads: int, *overrides: str
) -> subprocess.Popen:
    """Starts a command on so many threads a process."""
    places = (f"store={folder}/store", f"results={folder}/results", f"hydra.run.dir={folder}/run")
    sizes = (
        f"nmt={arguments.nmt}",
        f"threads={threads}",
        f"corpus.test={arguments.size * arguments.shards}",
        f"rules.shard_sentences={arguments.size}",
    )
    command = [sys.executable, "train.py", *JOB, *places, *sizes, *overrides]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": str(threads)}, stderr=log
        )


def last_line(folder: Path) -> str:
    """Return the last line that a command wrote, which is its error if it failed."""
    return (folder / "log").read_text(encoding="utf-8").strip().rpartition("\n")[2]


def watch(process: int, seconds_by_process: dict[int, float]) -> None:
    """Notes the CPU seconds of a process and all that it started, also of those that have ended."""
    try:
        family = [psutil.Process(process), *psutil.Process(process).children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for member in family:
        try:
            times = member.cpu_times()
        except psutil.NoSuchProcess:
            continue
        seconds_by_process[member.pid] = times.user + times.system


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shards", type=int, default=24)
    parser.add_argument("--size", type=int, default=100, help="sentences a shard")
    parser.add_argument("--nmt", default="transformer_128")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--threads", type=int, default=2, help="of one worker, in the last command")
    parser.add_argument("--seconds", type=float, help="of one GPU for 1,000 sentences' rules")
    arguments = parser.parse_args()
    if arguments.shards < 2:
        parser.error("--shards: a pace needs two shards or more")
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        trained = start(Path(folder), arguments, 1, "until=labels")
        if trained.wait():
            sys.exit(f"the system could not be trained: {last_line(Path(folder))}")
        costs = {
            kind: measure(store, arguments, *kind)
            for kind in dict.fromkeys(
                [*((workers, 1) for workers in arguments.workers), (1, arguments.threads)]
            )
        }
    first_cost = costs[arguments.workers[0], 1]
    print(
        f"{arguments.shards} shards of {arguments.size} sentences, prediction difference,", end=" "
    )
    print(arguments.nmt)
    print(
        "| workers | threads | start, s | shards a second | beside the first | CPU s a shard "
        "| CPU h a million | GB a million | same bytes |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    millions = arguments.shards * arguments.size / 1e6
    for (workers, threads), cost in costs.items():
        bytes_agree = "yes" if cost.digest == first_cost.digest else "NO"
        ratio = cost.pace / first_cost.pace
        print(
            f"| {workers} | {threads} | {cost.start:.1f} | {cost.pace:.2f} | {ratio:.2f} x "
            f"| {cost.cpu:.2f} | {cost.cpu * arguments.shards / 3600 / millions:.2f} "
            f"| {cost.size / 1e9 / millions:.2f} | {bytes_agree} |"
        )
    if arguments.seconds:
        print(f"\nCalculated, not measured: rules of {PAPER:,} sentences by one explainer")
        for gpus in GPUS:
            hours = arguments.seconds * PAPER / 1000 / gpus / 3600
            print(f"  {gpus:>2} GPUs: {hours:.2f} h, if each has a worker and shards are many")


if __name__ == "__main__":
    main()
