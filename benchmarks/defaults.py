"""What each metric's default costs under `experiment=quick`, in one run.

    python benchmarks/defaults.py --root DIR                      # half an hour of an idle core
    python benchmarks/defaults.py --root DIR --metrics erasure    # one of them

`DIR` holds Multi30k. Each metric runs in a fresh command with an empty store, so that its time
includes the translations, labels and relevance that it needs. The system is the one in the box, the
explainer the default. Seconds are processor time of one thread. The longest silence is the greatest
time between two lines of the log, or before the first or behind the last, on the wall clock. A
metric that needs other data has the reason in its row.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from xnmt_bench.registry import entries, load

ROOT = Path(__file__).parent.parent
JOB = ("experiment=quick", "corpus=multi30k", "nmt=tatoeba_de_en", "device=cpu", "threads=1")
REASONS = ("n/a: ", "error: ")  # what stands before the reason why a metric does not apply


@dataclass(frozen=True)
class Cost:
    """What a metric's default took.

    Attributes:
        seconds: processor time.
        silence: seconds, the longest without a line.
        remark: why the metric does not apply.
    """

    seconds: float
    silence: float
    remark: str


def measure(metric: str, root: Path) -> Cost:
    """Run a metric's default in an empty store.

    Raises:
        SystemExit: the command failed, and not by a refusal in one line.
    """
    with tempfile.TemporaryDirectory() as folder:
        places = (f"store={folder}/store", f"results={folder}/results", f"hydra.run.dir={folder}")
        options = (f"corpus.root={root.resolve()}", f"metric=[{metric}]")
        process = subprocess.Popen(
            [sys.executable, "train.py", *JOB, *options, *places],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout
        lines, times = [], [time.monotonic()]
        for line in process.stdout:
            lines.append(line.strip())
            times.append(time.monotonic())
        # `wait4`, since only it gives the time of this one command.
        _, status, usage = os.wait4(process.pid, 0)
        times.append(time.monotonic())
    if status and not (lines and lines[-1].startswith("error: ")):
        sys.exit(f"{metric} failed: {lines[-1] if lines else 'no output'}")
    silence = max(later - earlier for earlier, later in pairwise(times))
    return Cost(usage.ru_utime + usage.ru_stime, silence, remark_of(lines))


def remark_of(lines: list[str]) -> str:
    """Return why a metric does not apply, from the lines of its command."""
    reasons = ((line, word) for line in lines for word in REASONS if word in line)
    return next((line[line.index(word) :] for line, word in reasons), "")


def main() -> None:
    """Print the table, each row when its metric has ended."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=Path, required=True, help="the folder of Multi30k")
    # One of people's answers has no default: it needs a filled sheet.
    names = [n for n in sorted(entries("metrics")) if not load("metrics", n).reads_sheets]
    parser.add_argument("--metrics", nargs="+", choices=names, default=names)
    arguments = parser.parse_args()
    print("| metric | seconds | longest silence, s | |")
    print("| --- | --- | --- | --- |")
    for metric in arguments.metrics:
        cost = measure(metric, arguments.root)
        print(f"| {metric} | {cost.seconds:.0f} | {cost.silence:.0f} | {cost.remark} |", flush=True)


if __name__ == "__main__":
    main()
