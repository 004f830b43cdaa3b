"""What shorter products do to explanations: how often the most relevant source word is another one.

    python benchmarks/precision.py SYSTEM --source test.de --target test.en

explains the system's own choices along the given targets three times, in float32, in bf16 and in
tf32, which is emulated where there is no GPU: what a matrix product reads is rounded to ten bits.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from xnmt_bench import load_explainer, load_model
from xnmt_bench.corpora.vocabulary.subwords import EOS, PAD
from xnmt_bench.device import Precision, arithmetic, device_of
from xnmt_bench.explainers.base import decide
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch

EXPLAINERS = ("attention", "gradient_norm", "weighted_gradient", "prediction_difference")
SHORT: tuple[Precision, ...] = ("tf32", "bf16")
DROPPED = 13  # of the 23 bits of a float32's mantissa
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "_scaled_dot_product_flash_attention_for_cpu")


class ShortFactors(TorchDispatchMode):
    """Rounds what matrix products read to tf32's ten bits, half to even."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = function._overloadpacket.__name__
        if name in PRODUCTS:
            first = name in ("addmm", "baddbmm")  # what is added stays as it is
            args = (*args[:first], *map(rounded, args[first:]))
        return function(*args, **(kwargs or {}))


def rounded(x: Any) -> Any:
    """A float32 tensor with ten bits of its mantissa; anything else as it is."""
    if not isinstance(x, Tensor) or x.dtype != torch.float32:
        return x
    bits = x.contiguous().view(torch.int32)
    even = (bits >> DROPPED) & 1
    bits = (bits + (1 << DROPPED - 1) - 1 + even) & ~((1 << DROPPED) - 1)
    return bits.view(torch.float32)


@contextmanager
def products(precision: Precision, device: torch.device) -> Iterator[None]:
    """Computes in a precision."""
    if precision == "tf32" and device.type != "cuda":
        with ShortFactors():
            yield
    else:
        with arithmetic(precision, device):
            yield


def read_batches(model: NMTModel, arguments: argparse.Namespace) -> list[Batch]:
    """Labelled batches of the first sentences."""
    sides = (
        Path(p).read_text(encoding="utf-8").splitlines()
        for p in (arguments.source, arguments.target)
    )
    ids = [
        ([*model.source_subwords.encode(x), EOS], [*model.target_subwords.encode(y), EOS])
        for x, y in list(zip(*sides, strict=True))[: arguments.sentences]
    ]
    ids.sort(key=lambda pair: len(pair[1]))
    batches = [
        model.collate(ids[n : n + arguments.batch]) for n in range(0, len(ids), arguments.batch)
    ]
    return [decide(model, batch)[0].take(list(range(len(batch.source_BS)))) for batch in batches]


def first_words(model: NMTModel, name: str, batch: Batch, precision: Precision) -> Tensor:
    """The most relevant source word of each decision, by its place; EOS is none."""
    with products(precision, device_of(model)):
        scores_BTS = load_explainer(name).relevance(model, batch).source_BTS.float()
    no_word = (batch.source_BS == EOS) | (batch.source_BS == PAD)
    best_BT = scores_BTS.masked_fill(no_word[:, None], -torch.inf).argmax(-1)
    return best_BT[batch.target_mask_BT]


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", help="a folder that train.py named")
    parser.add_argument("--source", required=True, help="tokenised source sentences, one a line")
    parser.add_argument("--target", required=True, help="their targets")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        torch.set_num_threads(1)
    model = load_model(arguments.system, arguments.device)
    batches = read_batches(model, arguments)
    emulated = "" if device_of(model).type == "cuda" else ", emulated"
    table = Table("explainer", "decisions", f"tf32{emulated}", "bf16")
    for name in EXPLAINERS:
        exact = [first_words(model, name, batch, 32) for batch in batches]
        row = [name, f"{sum(map(len, exact)):,}"]
        for precision in SHORT:
            short = [first_words(model, name, batch, precision) for batch in batches]
            changed = torch.cat(exact) != torch.cat(short)
            row.append(f"{100 * changed.float().mean():.2f} %")
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
