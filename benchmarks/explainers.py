"""What each explainer costs beside the simpler one that it is made of, in one run.

    python benchmarks/explainers.py --source test.de --target test.en   # minutes
    python benchmarks/explainers.py --sentences 16                      # toy sentences

An integrated gradient is `points` gradients, a Shapley value of `permutations` orders is as many
prediction differences, and so on: a ratio of 1 says that nothing else costs anything. The model is
a Transformer of the paper's size with random weights. Seconds are processor time of one thread, the
best of two runs, since other processes disturb.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from extraction import Batch, NMTModel, batches, build, read_pairs, timed
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from xnmt_bench.device import CPU
from xnmt_bench.registry import load_explainer

RUNS = 2


@dataclass(frozen=True)
class Bound:
    """What an explainer may cost.

    Attributes:
        times: so many times the other explainer.
        of: the other explainer.
        most: ratio to that, at most.
    """

    times: int
    of: str
    most: float


BOUNDS = {
    "integrated_gradients": Bound(50, "gradient_norm", 1.2),
    "cp_lrp": Bound(1, "gradient_norm", 1.2),
    "shapley": Bound(20, "prediction_difference", 1.2),
    "value_zeroing": Bound(1, "prediction_difference", 1.5),
    "attention_norm": Bound(1, "attention", 5.0),
    "rollout": Bound(1, "attention", 5.0),
    "alti": Bound(1, "attention", 5.0),
}


def measure(model: NMTModel, parts: list[Batch]) -> Iterator[tuple[str, float]]:
    """Yield each explainer's seconds, those that others are compared with first."""
    for name in dict.fromkeys([*(bound.of for bound in BOUNDS.values()), *BOUNDS]):
        explainer = load_explainer(name)
        yield (
            name,
            min(
                timed(lambda part: explainer.relevance(model, part), parts)  # noqa: B023
                for _ in range(RUNS)
            ),
        )


def tabulate(seconds: dict[str, float], sentences: int) -> Table:
    """Return the table: ratios, and whether they are within their bounds."""
    table = Table("explainer", "pairs/s", "beside", "ratio", "at most", box=SIMPLE_HEAD)
    for name, spent in seconds.items():
        cells = ["", "", ""]
        if bound := BOUNDS.get(name):
            ratio = spent / (bound.times * seconds[bound.of])
            beside = bound.of if bound.times == 1 else f"{bound.times} x {bound.of}"
            mark = "" if ratio <= bound.most else " (over)"
            cells = [beside, f"{ratio:.2f}{mark}", f"{bound.most:g}"]
        table.add_row(name, f"{sentences / spent:.2f}", *cells)
    return table


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", help="source sentences, one a line")
    parser.add_argument("--target", help="their targets")
    parser.add_argument("--sentences", type=int, default=64)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    pairs = read_pairs(arguments)
    options = {"nmt": "transformer", "size": "paper", "vocabulary": 4000, "device": CPU}
    model = build(argparse.Namespace(**options), pairs)
    pairs = pairs[: arguments.sentences]
    parts = batches(model, pairs, 1024)
    words = [p.source_mask_BS.sum().item() + p.target_mask_BT.sum().item() for p in parts]
    console = Console()
    console.print(
        f"{len(pairs)} sentences, {sum(words) / len(pairs) / 2:.1f} subwords a side with EOS"
    )
    console.print(tabulate(dict(measure(model, parts)), len(pairs)))


if __name__ == "__main__":
    main()
