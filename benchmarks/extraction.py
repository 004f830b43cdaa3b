"""Extraction speed: Captum as its tutorials show it, beside this project's way.

    python benchmarks/extraction.py                                  # toy sentences
    python benchmarks/extraction.py --source test.de --target test.en  # real ones

Both ways explain the same sentences of the same model in the same run; weights are random, since
they do not change the cost. The tutorial way calls Captum once for each target step of a batch of
sentences of like length, with as many perturbations a call as fit.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from captum.attr import FeatureAblation, InputXGradient, Saliency
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from xnmt_bench.corpora.subwords import EOS, SentencePiece, train_subwords
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.explainers.base import decide
from xnmt_bench.nmt.base import Batch, Layout, NMTModel
from xnmt_bench.nmt.batching import buckets
from xnmt_bench.nmt.loading import build_model
from xnmt_bench.registry import load_explainer

POSITIONS = 8192  # decoder positions a call, the same for both ways


@dataclass
class Count:
    """Positions that went through each side of the model."""

    encoder: int = 0
    decoder: int = 0


@contextmanager
def counting(model: NMTModel) -> Iterator[Count]:
    """Counts the positions that are computed while it is open."""
    count, encode, decode = Count(), model.encode, model.decode

    def counted_encode(source_BSD: Tensor, layout: Layout):  # noqa: ANN202
        count.encoder += layout.source_BS.numel()
        return encode(source_BSD, layout)

    def counted_decode(encoding, input_BTD: Tensor) -> Tensor:  # noqa: ANN001
        count.decoder += input_BTD.shape[0] * input_BTD.shape[1]
        return decode(encoding, input_BTD)

    model.encode, model.decode = counted_encode, counted_decode
    try:
        yield count
    finally:
        del model.encode, model.decode


def step_probability(
    model: NMTModel, batch: Batch, step: int
) -> Callable[[Tensor, Tensor], Tensor]:
    """P(label of one step), as a function of embeddings: what the tutorials hand to Captum."""

    def forward(source: Tensor, inputs: Tensor) -> Tensor:
        times = len(source) // len(batch.source_BS)
        states = model.decode(model.encode(source, batch.layout.tile(times)), inputs)
        labels = batch.labels_BT[:, step, None].repeat(times, 1)
        return model.logits(states[:, step]).softmax(-1).gather(-1, labels)[:, 0]

    return forward


def word_features(batch: Batch, step: int) -> tuple[Tensor, Tensor]:
    """Feature masks: a word is a feature; words the step cannot see share one."""
    source = torch.arange(batch.source_BS.shape[1])[None, :, None]
    inputs = torch.arange(batch.target_BT.shape[1]).clamp(max=step + 1)[None, :, None]
    return source, inputs + source.shape[1]


def tutorial(name: str, model: NMTModel, batch: Batch) -> None:
    """Explains every step of a batch with a call of Captum for each."""
    source, inputs = model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)
    rows = max(1, POSITIONS // batch.target_BT.numel())
    for step in range(batch.target_BT.shape[1]):
        forward = step_probability(model, batch, step)
        if name == "prediction_difference":
            # Inputs after this step change nothing, so the best a caller can do is cut them off.
            seen = inputs[:, : step + 1]
            FeatureAblation(forward).attribute(
                (source, seen),
                baselines=(0.0, 0.0),
                feature_mask=tuple(
                    m[:, : x.shape[1]]
                    for m, x in zip(word_features(batch, step), (source, seen), strict=True)
                ),
                perturbations_per_eval=rows,
            )
        else:
            method = {"gradient_norm": Saliency, "weighted_gradient": InputXGradient}[name]
            method(forward).attribute((source.clone(), inputs[:, : step + 1].clone()))


def read_pairs(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """The sentences: real ones where files are given."""
    if arguments.source:
        sides = (
            Path(p).read_text(encoding="utf-8").splitlines()
            for p in (arguments.source, arguments.target)
        )
        return list(zip(*sides, strict=True))
    return [(s.source, s.target) for s in ToyCorpus(test=1000).sentences("test")]


def build(arguments: argparse.Namespace, pairs: list[tuple[str, str]]) -> NMTModel:
    """A model of the paper's size with random weights."""
    folder = Path(tempfile.mkdtemp())
    for place, side in enumerate(("source", "target")):
        train_subwords((p[place] for p in pairs), folder / side, "bpe", arguments.vocabulary)
    torch.manual_seed(0)
    model = build_model(
        arguments.nmt, {}, SentencePiece(folder / "source"), SentencePiece(folder / "target")
    )
    return model.eval().requires_grad_(False)


def batches(model: NMTModel, pairs: list[tuple[str, str]], tokens: int) -> list[Batch]:
    """Labelled batches of sentences of like length."""
    ids = [
        ([*model.source_subwords.encode(x), EOS], [*model.target_subwords.encode(y), EOS])
        for x, y in pairs
    ]
    lengths = np.asarray([max(map(len, pair)) for pair in ids])
    groups = buckets(lengths, np.arange(len(ids)), tokens)
    return [decide(model, Batch.collate([ids[i] for i in group]))[0] for group in groups]


def timed(work: Callable[[Batch], object], parts: list[Batch]) -> float:
    """Seconds for all batches, after one that does not count."""
    work(parts[0])
    start = time.perf_counter()
    for part in parts:
        work(part)
    return time.perf_counter() - start


def matmul_peak(size: int = 1536) -> float:
    """The machine's float32 matrix product, in GFLOP/s: the best of ten."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    best = min(_time_product(a, b) for _ in range(10))
    return 2 * size**3 / best / 1e9


def _time_product(a: Tensor, b: Tensor) -> float:
    start = time.perf_counter()
    a @ b
    return time.perf_counter() - start


class Operations(TorchDispatchMode):
    """Counts the floating-point operations of matrix products while it is open."""

    total = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # noqa: ANN001, ANN204
        result = function(*args, **(kwargs or {}))
        if count := flop_registry.get(function._overloadpacket):
            self.total += count(*args, **(kwargs or {}), out_val=result)
        return result


def gflop(work: Callable[[Batch], object], parts: list[Batch]) -> float:
    """Floating-point operations of the matrix products, in billions."""
    with Operations() as operations:
        for part in parts:
            work(part)
    return operations.total / 1e9


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", help="source sentences, one a line")
    parser.add_argument("--target", help="their targets")
    parser.add_argument("--nmt", default="transformer", choices=["transformer", "rnn_search"])
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--vocabulary", type=int, default=4000)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    pairs = read_pairs(arguments)
    model = build(arguments, pairs)
    pairs = pairs[: arguments.sentences]
    parts = batches(model, pairs, 1024)
    # An ablated batch is multiplied by its perturbations, which the tutorial way holds at once.
    small = batches(model, pairs, 256)
    words = [p.source_mask_BS.sum().item() + p.target_mask_BT.sum().item() for p in parts]
    peak = matmul_peak()
    console = Console()
    console.print(
        f"{arguments.nmt}, {len(pairs)} sentences, "
        f"{sum(words) / len(pairs) / 2:.1f} subwords a side, "
        f"{arguments.threads} thread(s), matmul peak {peak:.0f} GFLOP/s"
    )
    table = Table(
        "explainer", "way", "sentences/s", "ratio", "encoder pos.", "decoder pos.", "of peak"
    )
    for name in ("prediction_difference", "gradient_norm", "weighted_gradient"):
        explainer = load_explainer(name)
        seconds = {}
        first = small if name == "prediction_difference" else parts
        for way, work, chosen in (
            ("tutorial", lambda part, name=name: tutorial(name, model, part), first),
            ("here", lambda part, e=explainer: e.relevance(model, part), parts),
        ):
            with counting(model) as count:
                operations = gflop(work, chosen)
            seconds[way] = timed(work, chosen)
            table.add_row(
                name,
                way,
                f"{len(pairs) / seconds[way]:.1f}",
                f"{seconds['tutorial'] / seconds[way]:.1f}",
                f"{count.encoder:,}",
                f"{count.decoder:,}",
                f"{100 * operations / seconds[way] / peak:.0f} %",
            )
    console.print(table)


if __name__ == "__main__":
    main()
