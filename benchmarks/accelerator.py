"""Sentences a second on a GPU beside one thread of the processor, in one run.

    python benchmarks/accelerator.py --source test.de --target test.en --device cuda
    python benchmarks/accelerator.py --device cpu --models transformer_128 --sentences 8 --few 2

The work is that of `dispatch.py`: explainers, metrics, judges and search as the pipeline runs them,
of an M2M100 of base size and of a `transformer_128`, with random weights; robustness is left out,
since it explains twice. The GPU computes all sentences, the processor the first few, each after a
round that does not count. *Of peak* is the share of the GPU's float32 matrix products that the
work's own products reach. Memory is the most that the work held beside the weights. Both are of
CUDA alone. Times are on the clock. A last line says how long four explainers take for a million
such sentences. inseq on the same card:

    python benchmarks/against_inseq.py --size base --source test.de --target test.en --device cuda
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import torch
from dispatch import EXPLAINERS, MODELS, ROBUSTNESS, encode, list_steps, list_work, make_m2m100
from extraction import Operations, matmul_peak, read_pairs
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from xnmt_bench.device import CPU, find_device, move
from xnmt_bench.nmt.base import NMTModel

COLUMNS = "work", "GPU, a second", "CPU, a second", "ratio", "of peak", "GB"
MILLION = 10**6
Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Cost:
    """What some work took.

    Attributes:
        name: of the work.
        rate: sentences a second, or steps of a training.
        flops: floating-point operations of matrix products, a second; 0 where they are not counted.
        memory: the most bytes that it held; None where the device does not say.
    """

    name: str
    rate: float
    flops: float
    memory: int | None


def measure(model: NMTModel, pairs: Pairs, device: torch.device) -> Iterator[Cost]:
    """Yield what each work takes on a device."""
    model = move(deepcopy(model), device)
    split, folder = encode(model, pairs), Path(tempfile.mkdtemp())
    warm = {work.name: work for work in list_work(model, split, pairs, Path(tempfile.mkdtemp()))}
    for work in (*list_work(model, split, pairs, folder), *list_steps(device)):
        if work.name == ROBUSTNESS:
            continue
        operations = Operations()
        with operations if device.type == "cuda" else nullcontext():
            warm.get(work.name, work).run()
        seconds, memory = watch(work.run, device)
        yield Cost(work.name, work.items / seconds, operations.total / seconds, memory)


def watch(run: Callable[[], object], device: torch.device) -> tuple[float, int | None]:
    """Return the seconds of some work, and the memory that it takes."""
    if on_cuda := device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
    start = read_clock(device)
    run()
    seconds = read_clock(device) - start
    return seconds, torch.cuda.max_memory_allocated(device) - before if on_cuda else None


def read_clock(device: torch.device) -> float:
    """Return the time in seconds, once a device has done its work."""
    if device.type != "cpu":
        torch.get_device_module(device).synchronize()
    return time.perf_counter()


def tabulate(on_gpu: list[Cost], on_cpu: list[Cost], peak: float) -> Table:
    """Return the table.

    Args:
        on_gpu: on the GPU.
        on_cpu: on one thread of the processor.
        peak: floating-point operations a second of the GPU's matrix products.
    """
    table = Table(*COLUMNS, box=SIMPLE_HEAD)
    for gpu, cpu in zip(on_gpu, on_cpu, strict=True):
        table.add_row(
            gpu.name,
            f"{gpu.rate:.1f}",
            f"{cpu.rate:.2f}",
            f"{gpu.rate / cpu.rate:.1f}",
            f"{100 * gpu.flops / peak:.0f} %" if gpu.flops else "",
            "" if gpu.memory is None else f"{gpu.memory / 1e9:.1f}",
        )
    return table


def main() -> None:
    """Print a table for each model."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--source", help="source sentences, one a line")
    parser.add_argument("--target", help="their targets")
    parser.add_argument("--device", default="auto", help="as in the configuration")
    parser.add_argument("--sentences", type=int, default=500, help="on the GPU")
    parser.add_argument("--few", type=int, default=4, help="sentences on the processor")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=[*MODELS])
    parser.add_argument("--width", type=int, default=512, help="of the M2M100")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    device, console = find_device(arguments.device), Console()
    pairs = read_pairs(arguments)
    for name in arguments.models:
        folder, width = Path(tempfile.mkdtemp()), {"width": arguments.width}
        torch.manual_seed(0)
        model = MODELS[name](pairs, folder, **(width if MODELS[name] is make_m2m100 else {}))
        model.eval().requires_grad_(False)
        on_gpu = list(measure(model, pairs[: arguments.sentences], device))
        on_cpu = list(measure(model, pairs[: arguments.few], CPU))
        peak = matmul_peak(device) * 1e9
        console.print(
            f"{name}: {arguments.sentences} sentences on {device}, {arguments.few} on one thread; "
            f"peak {peak / 1e12:.2f} TFLOP/s"
        )
        console.print(tabulate(on_gpu, on_cpu, peak))
        hours = sum(MILLION / cost.rate / 3600 for cost in on_gpu if cost.name in EXPLAINERS)
        console.print(f"{', '.join(EXPLAINERS)}: {hours:.1f} hours for {MILLION:,} sentences\n")


if __name__ == "__main__":
    main()
