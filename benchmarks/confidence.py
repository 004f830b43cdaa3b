"""Time and peak memory of scoring a dump, against its number of sentences.

    python benchmarks/confidence.py

For each size a fresh process reads JSON lines of 8 to 44 tokens a side, scores every sentence and
writes what is kept; processor seconds and peak resident memory are what the operating system says.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SCRIPT = """
import resource, sys
from pathlib import Path
from xnmt_bench.dumps.json_lines import JsonLines, written
from xnmt_bench.metrics.confidence.sentences import Reading, rows
path = Path(sys.argv[1])
reading = Reading("paper", "keep", "pieces", True, ("", ""))
kept = written(JsonLines(path), path.with_suffix(".gz"), True)
before = resource.getrusage(resource.RUSAGE_SELF)
count = len(rows(kept, reading, None, dict)["sentence"])
after = resource.getrusage(resource.RUSAGE_SELF)
print(count, after.ru_utime - before.ru_utime, after.ru_maxrss / 1024)
"""
WORDS = "der die das Haus Hund Baum geht kommt sieht alt neu rot groß klein und aber nicht"


def dump(path: Path, sentences: int) -> None:
    """Writes sentences of random words with random attention."""
    generator, words = np.random.default_rng(0), WORDS.split()
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"form": "weights", "version": 1, "attention": True}) + "\n")
        for _ in range(sentences):
            source, target = (
                [words[i] for i in generator.integers(0, len(words), generator.integers(8, 45))]
                for _ in range(2)
            )
            even = np.full(len(source) + 1, 0.2)
            weights = generator.dirichlet(even, size=len(target) + 1).round(6).tolist()
            told = {"source": [*source, "</s>"], "target": [*target, "</s>"], "weights": weights}
            file.write(json.dumps(told) + "\n")


def main() -> None:
    """Prints seconds and peak for each size, and the ratios of the last to the first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10000])
    seconds, peaks, sizes = [], [], parser.parse_args().sizes
    with tempfile.TemporaryDirectory() as name:
        for size in sizes:
            path = Path(name) / f"{size}.jsonl"
            dump(path, size)
            done = subprocess.run(
                [sys.executable, "-c", SCRIPT, str(path)],
                check=True,
                capture_output=True,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            count, taken, peak = done.stdout.split()
            seconds.append(float(taken))
            peaks.append(float(peak))
            print(f"{int(count):>7} sentences: {seconds[-1]:.1f} s, peak {peaks[-1]:.0f} MiB")
    print(f"ratios of the last to the first, for {sizes[-1] / sizes[0]:g} times the sentences: "
          f"time {seconds[-1] / seconds[0]:.1f}, memory {peaks[-1] / peaks[0]:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
