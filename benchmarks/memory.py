"""Peak memory against corpus size: everything streams, so it should hardly move.

    python benchmarks/memory.py                    # 10,000 and 200,000 sentences
    python benchmarks/memory.py --sizes 500 2000   # does it run at all?

For each size and each part of a job a fresh process does that part, from what the parts before have
left on disk; its peak resident memory is what the operating system says when it has ended. What is
mapped from a file counts while it is resident. The sentences are the toy corpus's (generated), in a
tab-separated file; the system is a Transformer of 32 dimensions with random weights, whose greedy
translations mostly end at their limit, so they are longer than real ones.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

# At run time only the measured processes import the project: they inherit their parent's peak.
if TYPE_CHECKING:
    from xnmt_bench.pipeline.job import Job

CONFIGURATION = Path(__file__).parent.parent / "conf"
SYSTEM = {"layers": 1, "heads": 2, "dimension": 32, "feed_forward": 64}
SUBWORDS = (2000, 800)  # sentences that a vocabulary is trained on, and its size
FEW = 20  # sentences to validate and to test on, which nobody measures


def prepare(folder: Path, size: int) -> None:
    """Writes a corpus and a system."""
    from xnmt_bench.corpora.passage import Context
    from xnmt_bench.corpora.sentence import SIDES
    from xnmt_bench.corpora.toy import ToyCorpus
    from xnmt_bench.corpora.vocabulary.subwords import SentencePiece, train_subwords
    from xnmt_bench.nmt.loading import build_model, save_model

    corpus, system = ToyCorpus(train=size, valid=FEW, test=FEW), folder / "system"
    with (folder / "corpus.tsv").open("w", encoding="utf-8") as file:
        for split in ("train", "valid", "test"):
            for s in corpus.sentences(split):
                file.write(f"{split}\t{s.document}\t{s.position}\t{s.source}\t{s.target}\n")
    system.mkdir()
    sentences, pieces = SUBWORDS
    vocabularies = []
    for side in SIDES:
        texts = (getattr(s, side) for s in ToyCorpus(train=sentences).sentences("train"))
        train_subwords(texts, folder / f"{side}.model", "bpe", pieces)
        vocabularies.append(SentencePiece(folder / f"{side}.model"))
    model = build_model("transformer", SYSTEM, *vocabularies)
    save_model(model, "transformer", SYSTEM, system, Context())


def job_of(folder: Path) -> Job:
    """A job on them."""
    import torch
    from hydra import compose, initialize_config_dir

    from xnmt_bench.composition import read_signatures
    from xnmt_bench.pipeline.job import Job

    read_signatures()
    torch.set_num_threads(1)
    changes = [
        "corpus=tsv", f"corpus.path={folder}/corpus.tsv", "corpus.columns=[en,de]",
        "corpus.source_language=en", "corpus.target_language=de", "corpus.valid=[valid]",
        "corpus.test=[test]", f"nmt.path={folder}/system", "nmt.sizes.dimension=32", "nmt.beam=1",
        "explainer=attention", "rules.train_sentences=null", "proxy.training.max_epochs=1",
        "proxy.training.batch_size=2048", "trainer.progress_bar=false", "device=cpu",
        f"store={folder}/store",
    ]  # fmt: skip
    with initialize_config_dir(str(CONFIGURATION), version_base="1.3"):
        return Job(compose("config", overrides=changes))


def encode(job: Job) -> None:
    """Encodes the corpus, and reads it as training does."""
    from xnmt_bench.nmt.batching import PairBatches

    for _ in PairBatches(job.texts.split("train"), 4096, 0):
        pass


def extract_rules(job: Job) -> None:
    """Extracts attention's rules of all training sentences."""
    from xnmt_bench.rules.extract import TEACHER_FORCING

    _ = job.explained.rules(TEACHER_FORCING, "train").artefact


def decode(job: Job) -> None:
    """Translates all training sentences, and reads the translations as contexts."""
    job.translations().split("train", len(job.texts.split("train")))


def train_proxy(job: Job) -> None:
    """Trains a proxy on the rules for one epoch."""
    from xnmt_bench.judges import RuleSet
    from xnmt_bench.judges.own import Own

    _ = Own(RuleSet(job)).trained.artefact


PARTS: dict[str, Callable[[Job], None]] = {
    "encoding": encode,
    "rules": extract_rules,
    "real decoding": decode,
    "proxy": train_proxy,
}
PREPARE = "prepare"


def afresh(part: str, folder: Path, size: int) -> float:
    """Runs a part in a process of its own; its peak in MiB."""
    done = subprocess.run(
        [sys.executable, __file__, "--part", part, "--folder", str(folder), "--sizes", str(size)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        raise SystemExit(f"{done.stderr}{part} of {size} sentences failed: {done.returncode}")
    return float(done.stdout.split()[-1])


def run_part(part: str, folder: Path, size: int) -> None:
    """Runs a part here, and prints the peak in MiB."""
    if part == PREPARE:
        prepare(folder, size)
    else:
        PARTS[part](job_of(folder))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    """Prints each part's peak for each size, and the ratio of the last to the first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 200_000])
    parser.add_argument("--part", choices=[PREPARE, *PARTS], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        run_part(arguments.part, arguments.folder, arguments.sizes[0])
        return
    peaks: dict[str, list[float]] = {part: [] for part in PARTS}
    for size in arguments.sizes:
        with tempfile.TemporaryDirectory() as name:
            afresh(PREPARE, Path(name), size)
            for part in PARTS:
                start = time.perf_counter()
                peaks[part].append(afresh(part, Path(name), size))
                seconds = time.perf_counter() - start
                told = f"{part:13}: peak {peaks[part][-1]:.0f} MiB, {seconds:.0f} s"
                print(f"{size:>7} sentences, {told}", flush=True)
    for part, found in peaks.items():
        first, last = found[0], found[-1]
        growth = f"{last / first:.3f} ({last - first:+.0f} MiB)"
        print(f"{part:13}: ratio of the last to the first {growth}")


if __name__ == "__main__":
    main()
