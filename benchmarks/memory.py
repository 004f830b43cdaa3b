"""Peak memory against corpus size: corpora and rules stream, so it should hardly move.

    python benchmarks/memory.py

For each size a fresh process reads a tab-separated corpus, encodes it and opens it for training;
its peak resident memory is what the operating system says when it has ended.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = """
import resource, sys
from pathlib import Path
from xnmt_bench.corpora.encoded import EncodedSplit, encode
from xnmt_bench.corpora.subwords import SentencePiece
from xnmt_bench.corpora.tsv import TsvCorpus
from xnmt_bench.nmt.batching import PairBatches
folder = Path(sys.argv[1])
corpus = TsvCorpus(sys.argv[2], ["en", "de"], "en", "de", ["valid"], ["test"])
sides = SentencePiece(folder / "source.model"), SentencePiece(folder / "target.model")
encode(corpus, *sides, 100, folder)
batches = sum(1 for _ in PairBatches(EncodedSplit.open(folder, "train"), 4096, 0))
print(batches, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def main() -> None:
    """Prints the peak for each size and the ratio of the last to the first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10000, 50000])
    sizes = parser.parse_args().sizes
    from xnmt_bench.corpora.subwords import train_subwords
    from xnmt_bench.corpora.toy import ToyCorpus

    peaks = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side in ("source", "target"):
            texts = (getattr(s, side) for s in ToyCorpus(train=2000).sentences("train"))
            train_subwords(texts, folder / f"{side}.model", "bpe", 800)
        for size in sizes:
            path = folder / f"{size}.tsv"
            with path.open("w", encoding="utf-8") as file:
                for s in ToyCorpus(train=size).sentences("train"):
                    file.write(f"train\t{s.document}\t{s.position}\t{s.source}\t{s.target}\n")
            done = subprocess.run(
                [sys.executable, "-c", SCRIPT, name, str(path)],
                check=True,
                capture_output=True,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            batches, peak = done.stdout.split()
            peaks.append(float(peak))
            print(f"{size:>7} sentences, {batches:>5} batches: peak {peaks[-1]:.0f} MiB")
    print(f"ratio of the last to the first: {peaks[-1] / peaks[0]:.3f}")


if __name__ == "__main__":
    main()
