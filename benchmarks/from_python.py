"""What it saves to give an explainer all sentences at once, from Python, in one run.

    python benchmarks/from_python.py --source test.de --target test.en --sentences 200   # minutes

A call for each sentence runs a batch of one; one call for all runs sentences of like length
together. A pair is explained; a source is translated first. Seconds are processor time of one
thread; both ways alternate,
and each has the best of two runs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch

import xnmt_bench
from xnmt_bench.explainers.base import Explainer
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.passages import Text

EXPLAINERS = ("attention", "gradient_norm", "prediction_difference")


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of some work."""
    start = time.process_time()
    work()
    return time.process_time() - start


def compare(name: str, singly: Callable[[], object], together: Callable[[], object]) -> None:
    """Print the times of both ways, and their ratio."""
    runs = [(seconds(singly), seconds(together)) for _ in range(2)]
    one_by_one, at_once = (min(times) for times in zip(*runs, strict=True))
    ratio = one_by_one / at_once
    print(f"{name:32} {one_by_one:7.1f} s singly {at_once:7.1f} s together {ratio:6.2f} times")


def main() -> None:
    """Compare both ways for each explainer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--model", default="tatoeba_de_en")
    parser.add_argument("--sentences", type=int, default=200)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model = xnmt_bench.load(arguments.model, device="cpu")
    sources, targets = (
        path.read_text(encoding="utf-8").splitlines()[: arguments.sentences]
        for path in (arguments.source, arguments.target)
    )
    compare(
        "translate",
        lambda: [xnmt_bench.translate(model, [source]) for source in sources],
        lambda: xnmt_bench.translate(model, sources),
    )
    pairs = list(zip(sources, targets, strict=True))
    for name in EXPLAINERS:
        explainer = xnmt_bench.load_explainer(name)
        for kind, sentences in (("pairs", pairs), ("sources", sources)):
            compare(
                f"{name}, {kind}",
                partial(explain_singly, explainer, model, sentences),
                partial(explainer, model, sentences),
            )


def explain_singly(explainer: Explainer, model: NMTModel, sentences: Sequence[Text]) -> None:
    """Explain one sentence after the other."""
    for sentence in sentences:
        explainer(model, [sentence])


if __name__ == "__main__":
    main()
