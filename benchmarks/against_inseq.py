"""Side by side with inseq: the same model, the same sentences, the same run, one thread.

    pip install 'xnmt_bench[bench]' && python benchmarks/against_inseq.py
    python benchmarks/against_inseq.py --size base --source test.de --target test.en

Both explain the probability of every word of given targets, source and prefix. The model is an
M2M100, whose embeddings inseq scales once. Those of `--family marian` enter inseq's decoder scaled
twice, so that it explains another function, and the scores differ. inseq occludes a word by the
embedding of the unknown word, which is zero in this model, so that its occlusion is this project's
prediction difference, without the sign.

Integrated gradients go other ways: here from zero to the words, EOS among them, while language
codes stay; in inseq from the unknown word, which is zero in this model, to words and language
codes, while EOS stays. So inseq's are compared with a loop over the points of its own way; its cost
is in no column.

Value zeroing differs too: here attention blocks are rolled out down to the words; inseq compares
whole layers, feed-forward block included, and keeps each layer's scores. So inseq's, of the last
layer, are compared with a loop that zeroes one value after another in the same way. inseq's stops
with a TypeError under transformers 5, so that this method needs an environment with transformers 4.

`--size small` is two layers that have learnt some of the toy corpus, of which pairs are explained.
`--size base` is six layers of 512 dimensions with random weights, which cost the same, and with
pieces of the given files, whose first pairs of 15 to 40 subwords a side are explained; without
files, pairs of the toy corpus of whatever length.

Seconds are processor time, so that other processes of the machine disturb less, or the clock's with
`--device cuda`, where methods that are defined otherwise are not compared; *of peak* is the
share of its matrix products' speed, measured before and after, that this project's products reach.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import inseq
import numpy as np
import torch
import transformers
from extraction import Operations, matmul_peak, read_pairs, seconds
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support.huggingface_models import (
    READER,
    build,
    build_base,
    teach,
)
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.device import CPU, find_device, move
from xnmt_bench.explainers.base import follow
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.huggingface import open_huggingface
from xnmt_bench.registry import load_explainer

# This project's name, inseq's, and how the scores over an embedding become one, where they do.
METHODS: dict[str, tuple[str, Callable | None]] = {
    "attention": ("attention", None),
    "gradient_norm": ("saliency", lambda scores: scores.abs().sum(-1)),
    "weighted_gradient": ("input_x_gradient", lambda scores: scores.sum(-1)),
    "prediction_difference": ("occlusion", None),
    "integrated_gradients": ("integrated_gradients", lambda scores: scores.sum(-1)),
    "value_zeroing": ("value_zeroing", None),
}
# inseq's value zeroing expects layers to return tuples, as they did in transformers 4.
OLDER = ["value_zeroing"] if int(transformers.__version__.split(".")[0]) > 4 else []
LEAST = 1e-5  # inseq counts lower scores of value zeroing as 0
POINTS = 50  # of integrated gradients, in both tools
UNKNOWN = {"m2m100": 3, "marian": 1}  # the unknown word's id
LENGTHS = range(15, 41)  # subwords a side of the pairs of files that are explained
WARM_UP = [("a", "a")]  # any text does
Pairs = list[tuple[str, str]]
Scores = list[tuple[torch.Tensor, torch.Tensor]]  # of each sentence, (T, S) and (T, T)


def make_small(family: str, folder: Path, width: int) -> None:
    """A model that knows some of the toy corpus."""
    pairs = [(s.source, s.target) for s in ToyCorpus(train=2000).sentences("train")]
    build(family, folder, ([x for x, _ in pairs], [y for _, y in pairs]), width, wild=False)
    teach(folder, pairs, steps=300)


def forget_unknown(family: str, folder: Path) -> None:
    """Leaves the unknown word without an embedding."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    for name, weight in weights.items():
        if "shared" in name or "embed_tokens" in name or "lm_head" in name:
            weight[UNKNOWN[family]] = 0
    save_file(weights, path, {"format": "pt"})


@contextmanager
def counted(model: torch.nn.Module) -> Iterator[dict[str, int]]:
    """How many positions the encoder and the decoder compute."""
    counts = {"encoder": 0, "decoder": 0}

    def count(name: str) -> Callable:
        def hook(_: object, positional: tuple, named: dict) -> None:
            ways = (named.get("inputs_embeds"), named.get("input_ids"), *positional)
            given = next(x for x in ways if x is not None)
            counts[name] += given.shape[0] * given.shape[1]

        return hook

    sides = {"encoder": model.get_encoder(), "decoder": model.get_decoder()}
    hooks = [m.register_forward_pre_hook(count(n), with_kwargs=True) for n, m in sides.items()]
    try:
        yield counts
    finally:
        for hook in hooks:
            hook.remove()


def ids_of(model: NMTModel, pair: tuple[str, str]) -> tuple[list[int], list[int]]:
    """Both sides, closed by EOS."""
    x, y = pair
    return [*model.source_subwords.encode(x), EOS], [*model.target_subwords.encode(y), EOS]


def ours(model: NMTModel, name: str, pairs: Pairs, size: int) -> Scores:
    """This project's relevance of the given words, as its pipeline asks for it.

    Only who attends labels in its own pass; others are given labels that one pass before decided
    for all of them (`labelled`).
    """
    explainer, found = load_explainer(name), []
    for start in range(0, len(pairs), size):
        ids = [ids_of(model, pair) for pair in pairs[start : start + size]]
        batch = model.collate(ids)
        batch = (
            follow(model, batch, True)[0] if explainer.attends else batch.labelled(batch.target_BT)
        )
        relevance = explainer.relevance(model, batch)
        for row, (x, y) in enumerate(ids):
            found.append((relevance.source_BTS[row, : len(y), : len(x)].cpu(),
                          relevance.prefix_BTT[row, : len(y), : len(y)].cpu()))  # fmt: skip
    return found


def labelled(model: NMTModel, pairs: Pairs, size: int) -> Scores:
    """The pass that all explainers share, which explains nothing."""
    for start in range(0, len(pairs), size):
        follow(model, model.collate([ids_of(model, pair) for pair in pairs[start : start + size]]))
    return []


def theirs(
    model,  # noqa: ANN001
    name: str,
    pairs: Pairs,
    size: int,
    frame: tuple[int, int],
) -> Scores:
    """inseq's, without what it says of language codes and of the decoder's first inputs."""
    method, reduce = METHODS[name]
    model.attribution_method = model.get_attribution_method(method)
    out = model.attribute(
        [x for x, _ in pairs], [y for _, y in pairs], attribute_target=True, show_progress=False,
        attributed_fn="probability", batch_size=size,
    )  # fmt: skip
    found = []
    before_source, before_target = frame
    for one in out.sequence_attributions:
        source, prefix = one.source_attributions, one.target_attributions
        if reduce is not None:
            source, prefix = reduce(source), reduce(prefix)
        elif name == "attention":  # of every layer and head: the last layer's mean
            source, prefix = source[:, :, -1].mean(-1), prefix[:, :, -1].mean(-1)
        elif name == "value_zeroing":  # of every layer: the last one
            source, prefix = source[:, :, -1], prefix[:, :, -1]
        # Its first step is the one behind the decoder's first input.
        steps = slice(before_target - 1, None)
        found.append((source[before_source:, steps].T, prefix[before_target:, steps].T))
    return found


def integrate_their_way(model: NMTModel, pairs: Pairs) -> Scores:
    """Integrated gradients of the pairs' words along inseq's way, point by point."""
    inner, codes = model.model, np.polynomial.legendre.leggauss(POINTS)
    nodes, weights = (torch.tensor(x).float() for x in codes)
    scores: Scores = []
    for pair in pairs:
        x, y = ids_of(model, pair)
        source_ids = torch.cat([model.before_source, model.source_ids[x], model.after_source])
        target_ids = torch.cat([model.before_target, model.target_ids[y[:-1]]])
        ends, starts = [], []
        for stack, ids in ((inner.get_encoder(), source_ids), (inner.get_decoder(), target_ids)):
            embedded = model._embed(stack, ids[None])
            ends.append(embedded)
            starts.append(embedded * (ids == inner.config.eos_token_id)[None, :, None])
        sums = [torch.zeros(len(y), len(ids)) for ids in (source_ids, target_ids)]
        framed = len(model.before_target) - 1
        for node, weight in zip((1 + nodes) / 2, weights / 2, strict=True):
            at = [
                (a + node * (b - a)).detach().requires_grad_()
                for a, b in zip(starts, ends, strict=True)
            ]
            states = inner.model(inputs_embeds=at[0], decoder_inputs_embeds=at[1])[0]
            log_p = inner.lm_head(states[0, framed:]).log_softmax(-1)
            for step, label in enumerate(model.target_ids[y].tolist()):
                p = log_p[step, label].exp()
                for total, gradient, a, b in zip(
                    sums, torch.autograd.grad(p, at, retain_graph=True), starts, ends, strict=True
                ):
                    total[step] += weight * (gradient * (b - a)).sum(-1)[0].detach()
        before = len(model.before_source)
        prefix = torch.nn.functional.pad(sums[1][:, framed + 1 :], (0, 1))
        visible = torch.ones(len(y), len(y)).tril(-1).bool()
        scores.append(
            (sums[0][:, before : before + len(x)], prefix.masked_fill(~visible, torch.nan))
        )
    return scores


@torch.no_grad()
def zero_values_their_way(model: NMTModel, pairs: Pairs) -> Scores:
    """How far the last decoder layer's output turns when one value is zeroed, as inseq has it."""
    before_source, before_target = len(model.before_source), len(model.before_target)
    layer, scores = model.model.get_decoder().layers[-1], []
    for pair in pairs:
        x, y = ids_of(model, pair)
        source_ids = torch.cat([model.before_source, model.source_ids[x], model.after_source])
        target_ids = torch.cat([model.before_target, model.target_ids[y[:-1]]])
        output = last_layer(model.model, source_ids, target_ids)
        source_TS = turned_by_values(output, layer.encoder_attn.v_proj, len(source_ids))
        # A step sees its own input and those before it.
        inputs_TT = turned_by_values(output, layer.self_attn.v_proj, len(target_ids)).tril()
        source_TS, inputs_TT = (
            x.where(x >= LEAST, 0.0) / x.where(x >= LEAST, 0.0).sum(-1, keepdim=True)
            for x in (source_TS, inputs_TT)
        )
        steps = slice(before_target - 1, None)
        prefix_TT = torch.nn.functional.pad(inputs_TT[steps, before_target:], (0, 1))
        visible = torch.ones(len(y), len(y)).tril(-1).bool()
        words = slice(before_source, before_source + len(x))
        scores.append((source_TS[steps, words], prefix_TT.masked_fill(~visible, torch.nan)))
    return scores


def last_layer(
    inner: torch.nn.Module, source_ids: torch.Tensor, target_ids: torch.Tensor
) -> Callable[[], torch.Tensor]:
    """Returns what computes the last decoder layer again, and the norm behind it, (T, D)."""
    decoder, calls = inner.get_decoder(), []
    layer = decoder.layers[-1]
    hook = layer.register_forward_pre_hook(
        lambda _, positional, named: calls.append((positional, named)), with_kwargs=True
    )
    inner(input_ids=source_ids[None], decoder_input_ids=target_ids[None], use_cache=False)
    hook.remove()
    [(positional, named)] = calls

    def output() -> torch.Tensor:
        states = layer(*positional, **named)
        return decoder.layer_norm(states[0] if isinstance(states, tuple) else states)[0]

    return output


def turned_by_values(
    output: Callable[[], torch.Tensor], values: torch.nn.Module, places: int
) -> torch.Tensor:
    """1 - cosine of an output with and without the value of each place, (T, X)."""
    clean_TD, turned = output(), []
    for place in range(places):
        hook = values.register_forward_hook(
            lambda _, __, value, at=place: value.index_fill(1, torch.tensor([at]), 0.0)
        )
        turned.append(1 - torch.cosine_similarity(clean_TD, output(), dim=-1))
        hook.remove()
    return torch.stack(turned, -1)


# Methods that are defined otherwise here: what inseq computes, written anew.
THEIR_WAY = {
    "integrated_gradients": integrate_their_way,
    "value_zeroing": zero_values_their_way,
}


def difference(name: str, mine: Scores, other: Scores) -> float:
    """The greatest difference of two tools' scores, relative to a sentence's greatest score."""
    worst = 0.0
    for own, peers in zip(mine, other, strict=True):
        if name == "prediction_difference":  # inseq leaves out the sign
            own = tuple(x.abs() for x in own)
        largest = max(float(x.nan_to_num().abs().max()) for x in own)
        for x, y in zip(own, peers, strict=True):
            words = min(x.shape[1], y.shape[1]) - 1  # less EOS, which inseq never occludes
            x, y = x[:, :words], y[:, :words]
            present = ~x.isnan() & ~y.isnan()
            worst = max(worst, float((x - y)[present].abs().max()) / largest)
    return worst


@dataclass(frozen=True)
class Run:
    """One tool's explanations of some pairs, and what they cost."""

    seconds: float  # a pair
    positions: dict[str, int]
    scores: Scores


def timed(work: Callable[[Pairs], Scores], inner: torch.nn.Module, pairs: Pairs) -> Run:
    """Explains pairs, after one that does not count."""
    work(WARM_UP)
    with counted(inner) as positions:
        device = next(inner.parameters()).device
        start = seconds(device)
        scores = work(pairs)
        return Run((seconds(device) - start) / len(pairs), positions, scores)


def gflop(work: Callable[[Pairs], Scores], pairs: Pairs) -> float:
    """Floating-point operations of the matrix products, in billions a pair."""
    with Operations() as operations:
        work(pairs)
    return operations.total / 1e9 / len(pairs)


def explained_pairs(model: NMTModel, arguments: argparse.Namespace) -> Pairs:
    """The first pairs; of files, the first ones of the wanted lengths."""
    if not arguments.source:
        corpus = ToyCorpus(test=arguments.sentences)
        return [(s.source, s.target) for s in corpus.sentences("test")]
    found: Pairs = []
    for pair in read_pairs(arguments):
        if all(len(ids) - 1 in LENGTHS for ids in ids_of(model, pair)):  # less EOS
            found.append(pair)
        if len(found) == arguments.sentences:
            break
    return found


def described(model: NMTModel, pairs: Pairs) -> str:
    """How many pairs these are, and how long."""
    subwords = sum(len(ids) - 1 for pair in pairs for ids in ids_of(model, pair))
    return f"{len(pairs)} pairs of {subwords / len(pairs) / 2:.1f} subwords a side"


def compare(folder: Path, arguments: argparse.Namespace) -> None:
    """Both tools, method by method."""
    model = open_huggingface(str(folder), arguments.family, **READER[arguments.family])
    languages = {"src_lang": "en", "tgt_lang": "de"} if arguments.family == "m2m100" else {}
    device = find_device(arguments.device)
    move(model, device)
    peer = inseq.load_model(str(folder), "saliency", tokenizer_kwargs=languages, device=str(device))
    pairs = explained_pairs(model, arguments)
    if not pairs:
        raise SystemExit(f"no pair has {LENGTHS[0]} to {LENGTHS[-1]} subwords a side")
    frame = (len(model.before_source), len(model.before_target))
    clock = "processor time, one thread" if device == CPU else f"those of {device}"
    print(f"{arguments.family} of {arguments.size} size; {described(model, pairs)}; "
          f"{arguments.batch} at once; seconds a pair are {clock}")  # fmt: skip
    once = timed(lambda some: labelled(model, some, arguments.batch), model.model, pairs).seconds
    print(f"labels and their probabilities, once for all but attention: {once:.4f} s a pair")
    print(f"{'method':41}{'here s':>9}{'inseq s':>9}{'ratio':>8}{'of peak, GFLOP/s':>18}"
          f"{'positions, here':>22}{'positions, inseq':>22}{'difference':>12}")  # fmt: skip
    for name in arguments.methods:
        method, _ = METHODS[name]

        def here(some: Pairs, name: str = name) -> Scores:
            return ours(model, name, some, arguments.batch)

        def there(some: Pairs, name: str = name) -> Scores:
            return theirs(peer, name, some, arguments.batch, frame)

        peak = matmul_peak(device)
        mine = timed(here, model.model, pairs)
        peak = max(
            peak, matmul_peak(device)
        )  # what disturbed one of them may have spared the other
        share = gflop(here, pairs) / mine.seconds / peak
        other = timed(there, peer.model, pairs)
        a, b = mine.positions, other.positions
        # Of the base size the loop over points would cost as much as inseq does.
        compared = name not in THEIR_WAY or device == CPU
        compared &= name != "integrated_gradients" or arguments.size == "small"
        scores = mine.scores
        if name in THEIR_WAY and compared:
            scores = THEIR_WAY[name](model, pairs)
        differs = f"{difference(name, scores, other.scores):.1e}" if compared else ""
        print(
            f"{f'{name} / {method}':41}{mine.seconds:9.4f}{other.seconds:9.4f}"
            f"{other.seconds / mine.seconds:8.1f}{f'{100 * share:.0f} % of {peak:.0f}':>18}"
            f"{a['encoder']:>11,}{a['decoder']:>11,}{b['encoder']:>11,}{b['decoder']:>11,}"
            f"{differs:>12}", flush=True,
        )  # fmt: skip


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", choices=sorted(UNKNOWN), default="m2m100")
    parser.add_argument("--size", choices=["small", "base"], default="small")
    parser.add_argument("--source", help="source sentences, one a line; of the base size alone")
    parser.add_argument("--target", help="their targets")
    parser.add_argument("--sentences", type=int, default=None, help="8 of the base size, else 24")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--device", default="cpu", help="as in the configuration")
    parser.add_argument("--width", type=int, default=128, help="of the small size")
    covered = ",".join(name for name in METHODS if name not in OLDER)
    parser.add_argument("--methods", help="some of " + ",".join(METHODS), default=covered)
    arguments = parser.parse_args()
    arguments.methods = arguments.methods.split(",")
    if unknown := set(arguments.methods) - set(METHODS):
        parser.error(f"--methods: {min(unknown)!r} is none of {', '.join(METHODS)}")
    if older := set(arguments.methods) & set(OLDER):
        parser.error(f"--methods: inseq's {min(older)} needs transformers 4")
    if bool(arguments.source) != bool(arguments.target):
        parser.error("--source and --target belong together")
    if arguments.size == "base" and arguments.family != "m2m100":
        parser.error("--size base is an M2M100")
    if arguments.size == "small" and arguments.source:
        parser.error("--source is explained by --size base")
    if arguments.sentences is None:
        arguments.sentences = {"small": 24, "base": 8}[arguments.size]
    return arguments


def main() -> None:
    """Prints a table."""
    arguments = parsed()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.size == "base":
            build_base(folder, [*chain(*read_pairs(arguments))])
        else:
            make_small(arguments.family, folder, arguments.width)
        forget_unknown(arguments.family, folder)
        compare(folder, arguments)


if __name__ == "__main__":
    main()
