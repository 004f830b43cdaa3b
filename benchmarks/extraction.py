"""Extraction speed: Captum as its tutorials show it, beside this project's way.

    python benchmarks/extraction.py                                  # toy sentences
    python benchmarks/extraction.py --source test.de --target test.en  # real ones

    python benchmarks/extraction.py --size base --vocabulary 16000   # 6 layers of 512
    python benchmarks/extraction.py --size base --device cuda --tokens 32768 --only-here

Both ways explain the same sentences of the same model in the same run; weights are random, since
they do not change the cost. The tutorial way calls Captum once for each target step of a batch of
sentences of like length, with as many perturbations a call as fit. Attention has no tutorial way.

Seconds are processor time, also those of the matrix products that *of peak* compares with, so that
other processes of the machine disturb less. Those of several threads add up. Where a GPU computes,
they are of the clock on the wall.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from captum.attr import FeatureAblation, InputXGradient, Saliency
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.vocabulary.subwords import EOS, SentencePiece, train_subwords
from xnmt_bench.device import CPU, Precision, arithmetic, device_of, find_device
from xnmt_bench.explainers.base import decide
from xnmt_bench.nmt.base import NMTModel, Prefix
from xnmt_bench.nmt.batch import Batch, Encoding, Layout
from xnmt_bench.nmt.batching import buckets
from xnmt_bench.nmt.loading import build_model
from xnmt_bench.registry import load_explainer

PROFILED = 12  # operations of a table of times
POSITIONS = 8192  # decoder positions a call, the same for both ways
# What the tutorials show, by this project's names.
TUTORIALS: dict[str, type | None] = {
    "attention": None,
    "prediction_difference": FeatureAblation,
    "gradient_norm": Saliency,
    "weighted_gradient": InputXGradient,
}
# Of the Transformer; `paper` is what it is by default.
SIZES: dict[str, dict[str, int]] = {
    "paper": {},
    "base": {"layers": 6, "dimension": 512, "feed_forward": 2048, "heads": 8},
}
Work = Callable[[Batch], object]


@dataclass
class Count:
    """Positions that went through each side of the model."""

    encoder: int = 0
    decoder: int = 0


@contextmanager
def counting(model: NMTModel) -> Iterator[Count]:
    """Counts the positions that are computed while it is open."""
    count, encode, prefix = Count(), model.encode, model.prefix

    def counted_encode(source_BSD: Tensor, layout: Layout) -> Encoding:
        count.encoder += layout.source_BS.numel()
        return encode(source_BSD, layout)

    def counted_pass(decode: Callable) -> Callable:
        def counted(encoding: Encoding, input_BTD: Tensor) -> Any:
            count.decoder += input_BTD[..., 0].numel()
            return decode(encoding, input_BTD)

        return counted

    model.encode = counted_encode
    model.decode, model.attention = counted_pass(model.decode), counted_pass(model.attention)
    model.prefix = lambda encoding: counted_prefix(prefix(encoding), count)
    try:
        yield count
    finally:
        del model.encode, model.decode, model.attention, model.prefix


def counted_prefix(prefix: Prefix, count: Count) -> Prefix:
    """The same, and all that fork from it, with the positions that it reads counted."""
    if type(prefix) is Prefix:  # reads by `decode`, which counts by itself
        return prefix
    read, fork = prefix.read, prefix.fork

    def counted_read(input_BXD: Tensor) -> Tensor:
        count.decoder += input_BXD[..., 0].numel()
        return read(input_BXD)

    prefix.read = counted_read
    prefix.fork = lambda steps, rows: counted_prefix(fork(steps, rows), count)
    return prefix


def step_probability(
    model: NMTModel, batch: Batch, step: int
) -> Callable[[Tensor, Tensor], Tensor]:
    """P(label of one step), as a function of embeddings: what the tutorials hand to Captum."""

    def forward(source: Tensor, inputs: Tensor) -> Tensor:
        times = len(source) // len(batch.source_BS)
        layout = batch.layout.select(torch.arange(len(batch.source_BS)).repeat(times))
        states = model.decode(model.encode(source, layout), inputs)
        labels = batch.labels_BT[:, step, None].repeat(times, 1)
        return model.logits(states[:, step]).softmax(-1).gather(-1, labels)[:, 0]

    return forward


def word_features(batch: Batch, step: int) -> tuple[Tensor, Tensor]:
    """Feature masks: a word is a feature; words the step cannot see share one."""
    device = batch.source_BS.device
    source = torch.arange(batch.source_BS.shape[1], device=device)[None, :, None]
    inputs = torch.arange(batch.target_BT.shape[1], device=device)[None, :, None]
    inputs = inputs.clamp(max=step + 1)
    return source, inputs + source.shape[1]


def tutorial(name: str, model: NMTModel, batch: Batch) -> None:
    """Explains every step of a batch with a call of Captum for each."""
    method = TUTORIALS[name]
    assert method is not None
    source, inputs = model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)
    rows = max(1, POSITIONS // batch.target_BT.numel())
    for step in range(batch.target_BT.shape[1]):
        forward = step_probability(model, batch, step)
        if method is FeatureAblation:
            # Inputs after this step change nothing, so the best a caller can do is cut them off.
            seen = inputs[:, : step + 1]
            method(forward).attribute(
                (source, seen),
                baselines=(0.0, 0.0),
                feature_mask=tuple(
                    m[:, : x.shape[1]]
                    for m, x in zip(word_features(batch, step), (source, seen), strict=True)
                ),
                perturbations_per_eval=rows,
            )
        else:
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
    """A model of the wanted size with random weights."""
    folder = Path(tempfile.mkdtemp())
    for place, side in enumerate(("source", "target")):
        train_subwords((p[place] for p in pairs), folder / side, "bpe", arguments.vocabulary)
    torch.manual_seed(0)
    vocabularies = (SentencePiece(folder / side) for side in ("source", "target"))
    model = build_model(arguments.nmt, SIZES[arguments.size], *vocabularies)
    return model.eval().requires_grad_(False).to(arguments.device)


def batches(model: NMTModel, pairs: list[tuple[str, str]], tokens: int) -> list[Batch]:
    """Labelled batches of sentences of like length."""
    ids = [
        ([*model.source_subwords.encode(x), EOS], [*model.target_subwords.encode(y), EOS])
        for x, y in pairs
    ]
    lengths = np.asarray([max(map(len, pair)) for pair in ids])
    groups = buckets(lengths, np.arange(len(ids)), tokens)
    decided = (decide(model, model.collate([ids[i] for i in group]))[0] for group in groups)
    # Without the pass that has decided, so that an explainer has to compute all that it needs.
    return [replace(batch, forced=None) for batch in decided]


def timed(work: Work, parts: list[Batch]) -> float:
    """Seconds for all batches, after one that does not count."""
    work(parts[0])
    device = parts[0].source_BS.device
    start = seconds(device)
    for part in parts:
        work(part)
    return seconds(device) - start


def seconds(device: torch.device) -> float:
    """Of the processor so far; where another device computes, on the clock, once it is done."""
    if device.type == "cpu":
        return time.process_time()
    torch.get_device_module(device).synchronize()
    return time.perf_counter()


def matmul_peak(device: torch.device = CPU, precision: Precision = 32) -> float:
    """The matrix product, in GFLOP a second: the best of ten."""
    size = 8192 if device.type == "cuda" else 1536
    a, b = (torch.randn(size, size, device=device) for _ in range(2))
    with arithmetic(precision, device):
        best = min(_time_product(a, b) for _ in range(10))
    return 2 * size**3 / best / 1e9


def _time_product(a: Tensor, b: Tensor) -> float:
    start = seconds(a.device)
    a @ b
    return seconds(a.device) - start


class Operations(TorchDispatchMode):
    """Counts the floating-point operations of matrix products while it is open."""

    total = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # noqa: ANN001, ANN204
        result = function(*args, **(kwargs or {}))
        if count := flop_registry.get(function._overloadpacket):
            self.total += count(*args, **(kwargs or {}), out_val=result)
        return result


def gflop(work: Work, parts: list[Batch]) -> float:
    """Floating-point operations of the matrix products, in billions."""
    with Operations() as operations:
        for part in parts:
            work(part)
    return operations.total / 1e9


@dataclass(frozen=True)
class Measured:
    """What one way of one explainer costs."""

    explainer: str
    way: str
    seconds: float
    gflop: float
    count: Count


def measure(
    model: NMTModel, parts: list[Batch], small: list[Batch], arguments: argparse.Namespace
) -> Iterator[Measured]:
    """Every explainer, the tutorial way first.

    Args:
        model: the system.
        parts: the sentences.
        small: the same in smaller batches: an ablated batch is multiplied by its perturbations,
            which the tutorial way holds at once.
        arguments: the command line.
    """

    def here(relevance: Work, batch: Batch) -> None:
        with arithmetic(arguments.precision, device_of(model)):
            relevance(batch)

    for name, method in TUTORIALS.items():
        ways: dict[str, tuple[Work, list[Batch]]] = {}
        if method is not None and not arguments.only_here:
            chosen = small if method is FeatureAblation else parts
            ways["tutorial"] = partial(tutorial, name, model), chosen
        ways["here"] = partial(here, partial(load_explainer(name).relevance, model)), parts
        for way, (work, chosen) in ways.items():
            with counting(model) as count:
                operations = gflop(work, chosen)
            yield Measured(name, way, timed(work, chosen), operations, count)


def time_by_operation(name: str, model: NMTModel, parts: list[Batch]) -> Table:
    """Return a table of the operations of torch that an explainer's time goes to.

    Args:
        name: of the explainer.
        model: that is explained.
        parts: the sentences.
    """
    work = load_explainer(name).relevance
    work(model, parts[0])
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for part in parts:
            work(model, part)
    events = sorted(profiled.key_averages(), key=lambda e: -e.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    table = Table(name, "of time", "calls", box=SIMPLE_HEAD, padding=0, pad_edge=False)
    for event in events[:PROFILED]:
        share = f"{100 * event.self_cpu_time_total / total:.1f} %"
        table.add_row(event.key, share, f"{event.count:,}")
    return table


def tabulated(measured: list[Measured], sentences: int, peak: float) -> Table:
    """The table; a ratio is to the tutorial way, where there is one."""
    columns = "explainer", "way", "pairs/s", "ratio", "encoder pos.", "decoder pos.", "of peak"
    table = Table(*columns, box=SIMPLE_HEAD, padding=0, pad_edge=False)  # fits 80 columns
    tutorials = {row.explainer: row.seconds for row in measured if row.way == "tutorial"}
    for row in measured:
        reference = tutorials.get(row.explainer)
        table.add_row(
            row.explainer,
            row.way,
            f"{sentences / row.seconds:.1f}",
            "" if reference is None else f"{reference / row.seconds:.1f}",
            f"{row.count.encoder:,}",
            f"{row.count.decoder:,}",
            f"{100 * row.gflop / row.seconds / peak:.0f} %",
        )
    return table


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", help="source sentences, one a line")
    parser.add_argument("--target", help="their targets")
    parser.add_argument("--nmt", default="transformer", choices=["transformer", "rnn_search"])
    parser.add_argument("--size", default="paper", choices=sorted(SIZES), help="of a Transformer")
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--vocabulary", type=int, default=4000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu", help="as in the configuration")
    parser.add_argument("--precision", default="32", help="32, tf32 or bf16, of the way here")
    parser.add_argument(
        "--tokens", type=int, default=1024, help="of a batch, as rules.batch_tokens"
    )
    parser.add_argument(
        "--profile", nargs="*", default=[], choices=TUTORIALS, help="explainers whose time to split"
    )
    parser.add_argument("--only-here", action="store_true", help="leave the tutorial way out")
    arguments = parser.parse_args()
    arguments.device = find_device(arguments.device)
    arguments.precision = 32 if arguments.precision == "32" else arguments.precision
    if SIZES[arguments.size] and arguments.nmt != "transformer":
        parser.error(f"--size {arguments.size} is one of the Transformer's")
    return arguments


def main() -> None:
    """Prints the table."""
    arguments = parsed()
    torch.set_num_threads(arguments.threads)
    pairs = read_pairs(arguments)
    model = build(arguments, pairs)
    pairs = pairs[: arguments.sentences]
    parts = batches(model, pairs, arguments.tokens)
    small = batches(model, pairs, min(256, arguments.tokens))
    console = Console()
    for name in arguments.profile:
        console.print(time_by_operation(name, model, parts))
    words = [p.source_mask_BS.sum().item() + p.target_mask_BT.sum().item() for p in parts]
    peak = matmul_peak(arguments.device, arguments.precision)
    measured = list(measure(model, parts, small, arguments))
    # What disturbed one of them may have spared the other.
    peak = max(peak, matmul_peak(arguments.device, arguments.precision))
    here, short = arguments.device, f", {arguments.precision}" if arguments.precision != 32 else ""
    where = f"{arguments.threads} thread(s), processor time" if here == CPU else f"{here}{short}"
    console.print(
        f"{arguments.nmt} ({arguments.size} size), {len(pairs)} sentences, "
        f"{sum(words) / len(pairs) / 2:.1f} subwords a side, "
        f"{where}, matmul peak {peak:.0f} GFLOP/s"
    )
    console.print(tabulated(measured, len(pairs), peak))


if __name__ == "__main__":
    main()
