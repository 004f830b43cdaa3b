"""Whether a judge can tell explanations in shorter products from those in float32.

    python benchmarks/precision.py SYSTEM --source test.de --target test.en

explains the system's own choices along the given targets three times, in float32, in bf16 and in
tf32, which is emulated where there is no GPU: what a matrix product reads is rounded to ten bits.
Beside how often the most relevant source word is another one stands the perplexity of Base, which
sees the most relevant word of each side. A judge cannot tell where at most 1 % of the words are
others and the perplexity differs by at most 1 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
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
from xnmt_bench.judges.masked import masked_states
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch

EXPLAINERS = ("attention", "gradient_norm", "weighted_gradient", "prediction_difference")
SHORT: tuple[Precision, ...] = ("tf32", "bf16")
LIMIT = 0.01  # of other words, and of the perplexity
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


def first_words(
    model: NMTModel, name: str, batch: Batch, precision: Precision
) -> tuple[Tensor, Tensor]:
    """The places of each decision's most relevant source and prefix word; -1 where none is seen."""
    with products(precision, device_of(model)):
        relevance = load_explainer(name).relevance(model, batch)
    no_word = (batch.source_BS == EOS) | (batch.source_BS == PAD)
    source_BTS = relevance.source_BTS.float().masked_fill(no_word[:, None], -torch.inf)
    prefix_BTT = source_BTS.new_full((*batch.target_BT.shape, 1), -torch.inf)
    if relevance.prefix_BTT is not None:
        prefix_BTT = relevance.prefix_BTT.float().nan_to_num(-torch.inf, -torch.inf, -torch.inf)
    places = []
    for scores in (source_BTS, prefix_BTT):
        greatest, place_BT = scores.max(-1)
        place_BT = place_BT.where(greatest > -torch.inf, -1)
        places.append(place_BT[batch.target_mask_BT].cpu())
    return places[0], places[1]


@torch.no_grad()
def perplexity(model: NMTModel, batches: list[Batch], words: list[tuple[Tensor, Tensor]]) -> float:
    """Base's perplexity of the labels from one word a side (Li et al. 2020, section 3.3)."""
    log_p = []
    for batch, (source, prefix) in zip(batches, words, strict=True):
        rows, steps = batch.target_mask_BT.nonzero(as_tuple=True)
        sides = (
            [ids[ids != PAD].tolist() for ids in side.cpu()]
            for side in (batch.source_BS, batch.target_BT)
        )
        states = masked_states(
            model, SimpleNamespace(**dict(zip(("source", "target"), sides, strict=True))),
            rows.cpu().numpy(), steps.cpu().numpy(), source[:, None].numpy(),
            prefix[:, None].numpy(),
        )  # fmt: skip
        log_p.append(model.log_probability(states, batch.labels_BT[rows, steps]))
    return float(torch.cat(log_p).double().mean().neg().exp())


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
    table = Table("explainer", "decisions", "precision", "other words", "PPL", "a judge can tell")
    for name in EXPLAINERS:
        exact = [first_words(model, name, batch, 32) for batch in batches]
        source, level = torch.cat([x for x, _ in exact]), perplexity(model, batches, exact)
        table.add_row(name, f"{len(source):,}", "float32", "", f"{level:.4g}", "")
        for precision in SHORT:
            short = [first_words(model, name, batch, precision) for batch in batches]
            changed = float((source != torch.cat([x for x, _ in short])).float().mean())
            ratio = perplexity(model, batches, short) / level
            can_tell = changed > LIMIT or abs(ratio - 1) > LIMIT
            heading = precision + emulated * (precision == "tf32")
            cells = (f"{100 * changed:.2f} %", f"{ratio:.4f} times", "yes" if can_tell else "no")
            table.add_row("", "", heading, *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
