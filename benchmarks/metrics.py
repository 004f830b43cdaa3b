"""What rows of erasure, soft erasure, infidelity and context use cost beside Base, in one run.

    python benchmarks/metrics.py --source test.de --target test.en   # minutes
    python benchmarks/metrics.py --sentences 8                       # toy sentences

All four ask the system about changed sentences. A row is one such question about one decision;
one of infidelity or context use is about all decisions of a sentence, so that it costs as much as a
long row of Base. Context-sensitive words (`cues`) cost two rows of context use a passage, cues
what their explainer does. The model is a Transformer with random weights. Seconds are processor
time of one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np
import torch
from extraction import SIZES, build, read_pairs
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from sentences import draw_rules, encode, list_decisions

from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import SEPARATOR
from xnmt_bench.device import CPU
from xnmt_bench.explainers.base import decide
from xnmt_bench.judges.masked import base_log_likelihoods
from xnmt_bench.metrics.erasure.curves import erase
from xnmt_bench.metrics.erasure.erasing import Decision, Eraser
from xnmt_bench.metrics.infidelity.samples import erased_words, probabilities
from xnmt_bench.metrics.soft.distances import Decision as SoftDecision
from xnmt_bench.metrics.soft.distances import distances
from xnmt_bench.metrics.soft.retention import KINDS
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.context_change import compare_contexts

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
SAMPLES = 5  # of soft erasure
ROWS = 50  # of infidelity
RANDOM = 3  # contexts


class Counted(Eraser):
    """An eraser that counts the rows that it computes."""

    rows = 0

    def probabilities(
        self, decisions: Sequence[Decision], rows: Iterable[tuple[int, np.ndarray]]
    ) -> np.ndarray:
        """Counts, and computes."""
        rows = list(rows)
        self.rows += len(rows)
        return super().probabilities(decisions, rows)


def seconds(work: Callable[[], object]) -> float:
    """Processor time of some work."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(model: NMTModel, split: EncodedSplit) -> dict[str, tuple[int, float]]:
    """Rows and seconds of each."""
    decisions = list_decisions(split)
    rules, rng = draw_rules(decisions), np.random.default_rng(0)
    pairs = [(split.source[i], split.target[i]) for i in range(len(split))]
    batches = [decide(model, model.collate([pair]))[0] for pair in pairs]
    base_log_likelihoods(model, split, rules.take(slice(0, 50)))  # the first does not count
    measured = {
        "Base": (len(decisions), seconds(lambda: base_log_likelihoods(model, split, rules)))
    }

    eraser = Counted(model, split, "zero")
    spent = seconds(lambda: erase(eraser, decisions, SHARES, whole_curves=True))
    measured["erasure, with curves"] = (eraser.rows, spent)

    def soften() -> None:
        softened = [
            SoftDecision(i, step, *(rng.random((len(KINDS), len(ids))) for ids in pair))
            for i, pair in enumerate(pairs)
            for step in range(len(pair[1]))
        ]
        distances(model, model.collate(pairs), softened, SAMPLES, 0)

    measured["soft erasure"] = (len(decisions) * len(KINDS) * SAMPLES, seconds(soften))

    def sample() -> None:
        for batch, pair in zip(batches, pairs, strict=True):
            probabilities(model, batch, [erased_words(*pair, ROWS, 0)], "zero")

    measured["infidelity"] = (len(split) * ROWS, seconds(sample))

    def compare() -> None:
        for (before, _), (source, target) in pairwise(pairs):
            # As many random contexts as by default, and one real one.
            contexts = [[*before[:-1], SEPARATOR, *source]] * (1 + RANDOM)
            read = [(source, target), *((ids, target) for ids in contexts)]
            compare_contexts(model, read, [(1, 0), *((1, 2 + n) for n in range(RANDOM))])

    measured["context use"] = ((len(split) - 1) * (2 + RANDOM), seconds(compare))
    return measured


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", help="source sentences, one a line")
    parser.add_argument("--target", help="their targets")
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--size", choices=SIZES, default="paper")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    pairs = read_pairs(arguments)
    options = {"nmt": "transformer", "size": arguments.size, "vocabulary": 4000, "device": CPU}
    model = build(argparse.Namespace(**options), pairs)
    split = encode(model, pairs[: arguments.sentences])
    table = Table("metric", "rows", "seconds", "ms a row", "rows of Base", box=SIMPLE_HEAD)
    measured = measure(model, split)
    base = measured["Base"][1] / measured["Base"][0]
    for name, (rows, spent) in measured.items():
        ratio = f"{spent / rows / base:.2f}"
        table.add_row(name, f"{rows:,}", f"{spent:.1f}", f"{1000 * spent / rows:.2f}", ratio)
    console = Console()
    console.print(f"{len(split)} sentences, {measured['Base'][0]:,} decisions")
    console.print(table)


if __name__ == "__main__":
    main()
