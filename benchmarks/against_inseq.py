"""Side by side with inseq: the same model, the same sentences, the same run, one thread.

    pip install 'xnmt_bench[bench]' && python benchmarks/against_inseq.py

Both explain the probability of every word of given targets, source and prefix. The model is an
M2M100, whose embeddings inseq scales once. Those of `--family marian` enter inseq's decoder scaled
twice, so that it explains another function, and the scores differ. inseq occludes a word by the
embedding of the unknown word, which is zero in this model, so that its occlusion is this project's
prediction difference, without the sign.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import inseq
import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "nmt"))
from families import READER, build, teach

from xnmt_bench.corpora.subwords import EOS
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.explainers.base import follow
from xnmt_bench.nmt.base import Batch
from xnmt_bench.nmt.huggingface import open_huggingface
from xnmt_bench.registry import load_explainer

# This project's name, inseq's, and how the scores over an embedding become one, where they do.
METHODS: dict[str, tuple[str, Callable | None]] = {
    "attention": ("attention", None),
    "gradient_norm": ("saliency", lambda scores: scores.abs().sum(-1)),
    "weighted_gradient": ("input_x_gradient", lambda scores: scores.sum(-1)),
    "prediction_difference": ("occlusion", None),
}
UNKNOWN = {"m2m100": 3, "marian": 1}  # the unknown word's id
Scores = list[tuple[torch.Tensor, torch.Tensor]]  # of each sentence, (T, S) and (T, T)


def make_model(family: str, folder: Path, width: int) -> None:
    """A model that knows some of the toy corpus, its unknown word without an embedding."""
    pairs = [(s.source, s.target) for s in ToyCorpus(train=2000).sentences("train")]
    build(family, folder, ([x for x, _ in pairs], [y for _, y in pairs]), width, wild=False)
    teach(folder, pairs, steps=300)
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


def ours(model, name: str, pairs: list[tuple[str, str]], size: int) -> Scores:  # noqa: ANN001
    """This project's relevance of the given words."""
    explainer, found = load_explainer(name), []
    for start in range(0, len(pairs), size):
        ids = [([*model.source_subwords.encode(x), EOS], [*model.target_subwords.encode(y), EOS])
               for x, y in pairs[start : start + size]]  # fmt: skip
        batch, _ = follow(model, Batch.collate(ids))
        relevance = explainer.relevance(model, batch)
        for row, (x, y) in enumerate(ids):
            found.append((relevance.source_BTS[row, : len(y), : len(x)],
                          relevance.prefix_BTT[row, : len(y), : len(y)]))  # fmt: skip
    return found


def theirs(
    model,  # noqa: ANN001
    name: str,
    pairs: list[tuple[str, str]],
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
        elif source.dim() > 2:  # attention of every layer and head: the last layer's mean
            source, prefix = source[:, :, -1].mean(-1), prefix[:, :, -1].mean(-1)
        # Its first step is the one behind the decoder's first input.
        steps = slice(before_target - 1, None)
        found.append((source[before_source:, steps].T, prefix[before_target:, steps].T))
    return found


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
            seen = ~x.isnan() & ~y.isnan()
            worst = max(worst, float((x - y)[seen].abs().max()) / largest)
    return worst


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", choices=sorted(UNKNOWN), default="m2m100")
    parser.add_argument("--sentences", type=int, default=24)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--width", type=int, default=128)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_model(arguments.family, folder, arguments.width)
        compare(folder, arguments)


def compare(folder: Path, arguments: argparse.Namespace) -> None:
    """Both tools, method by method."""
    model = open_huggingface(str(folder), arguments.family, **READER[arguments.family])
    languages = {"src_lang": "en", "tgt_lang": "de"} if arguments.family == "m2m100" else {}
    peer = inseq.load_model(str(folder), "saliency", tokenizer_kwargs=languages)
    pairs = [(s.source, s.target) for s in ToyCorpus(test=arguments.sentences).sentences("test")]
    frame = (len(model.before_source), len(model.before_target))
    print(f"{'method':24}{'ours/s':>9}{'inseq/s':>9}{'ratio':>8}{'positions, ours':>22}"
          f"{'positions, inseq':>22}{'difference':>12}")  # fmt: skip
    for name, (method, _) in METHODS.items():
        results = []
        for run, inner in (
            (lambda n=name: ours(model, n, pairs, arguments.batch), model.model),
            (lambda n=name: theirs(peer, n, pairs, arguments.batch, frame), peer.model),
        ):
            with counted(inner) as counts:
                start = time.perf_counter()
                scores = run()
                results.append((len(pairs) / (time.perf_counter() - start), counts, scores))
        (fast, mine, a), (slow, other, b) = results
        print(
            f"{f'{name} / {method}':24}{fast:9.1f}{slow:9.1f}{fast / slow:8.1f}"
            f"{mine['encoder']:>11,}{mine['decoder']:>11,}{other['encoder']:>11,}"
            f"{other['decoder']:>11,}{difference(name, a, b):12.1e}", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
