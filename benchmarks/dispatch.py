"""What Python dispatches for a sentence under the sizes of a GPU, counted on any machine.

    python benchmarks/dispatch.py --source test.de --target test.en   # minutes
    python benchmarks/dispatch.py --sentences 100 --models transformer_128   # generated text

A GPU waits for Python where operations are many and small: each costs some microseconds before it
starts. So operations are counted, views too, of one shard of sentences, as the pipeline computes
it with 80 GB of memory; and waits, which are points where the host asks for a number before it can
go on. Weights are random, and widths small, since neither decides a count. `transformer_128` has 2
layers, the M2M100 6 a side and 8 heads, which is the base size.

Translations run up to the longest reference, since random weights end none. A training step of a
proxy is counted too, clipping and optimizer included, from a batch that lies on the device. Shapley
values and LIME take few draws, so that counting ends within minutes; operations rise with draws,
but less than they do. Robustness is of prediction difference, with one noise and one permutation of
all weights. Of causes, words of like ending and length replace each other.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from extraction import read_pairs
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from sentences import draw_rules, encode, list_decisions

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from proxies.base import Proxy, Vocabulary
from proxies.fn import FN
from proxies.rn import RN
from proxies.sa import SA
from support.dispatched import count
from support.huggingface_models import READER, build_base
from xnmt_bench.corpora.exchange.substitutes import BothSides, Substitutes, by_key
from xnmt_bench.corpora.sentence import Sentence
from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import SentencePiece, train_subwords
from xnmt_bench.device import CPU, device_of
from xnmt_bench.fitting import adam
from xnmt_bench.judges.masked import base_log_likelihoods
from xnmt_bench.metrics.causes.effects import Interventions
from xnmt_bench.metrics.causes.metric import SHARD as REPLACED
from xnmt_bench.metrics.erasure.curves import erase
from xnmt_bench.metrics.erasure.erasing import Eraser
from xnmt_bench.metrics.erasure.stages import SHARD as ERASED
from xnmt_bench.metrics.infidelity.metric import SHARD as SAMPLED
from xnmt_bench.metrics.infidelity.samples import erased_words, probabilities
from xnmt_bench.metrics.robustness.changes import (
    group_weights,
    move_embeddings,
    permute_weights,
)
from xnmt_bench.metrics.soft.distances import Decision as SoftDecision
from xnmt_bench.metrics.soft.distances import distances
from xnmt_bench.metrics.soft.metric import SHARD as SOFTENED
from xnmt_bench.metrics.soft.retention import KINDS
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.decoding import translate
from xnmt_bench.nmt.huggingface import open_huggingface
from xnmt_bench.nmt.loading import build_model
from xnmt_bench.pipeline.decision_table import TOGETHER
from xnmt_bench.registry import load_explainer
from xnmt_bench.rules.extract import ExtractionOptions, extract, label

EXPLAINERS = {  # operations a sentence that are aimed at
    "attention": 5,
    "prediction_difference": 20,
    "gradient_norm": 60,
    "weighted_gradient": 60,
}
FEW = {"shapley": {"permutations": 3}, "lime": {"samples": 50}}  # of 20 and of 200 by default
METRIC, TRANSLATION, STEP = 20, 20, 60
ROBUSTNESS = "robustness, each change"
PIECES = 4000
SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)  # of erasure
SAMPLES, DRAWS = 50, 5  # of infidelity and of soft erasure
SUBSTITUTES = 4  # of a word, in causes
STEPS, BATCH, WORDS, K = 20, 64, 100, 1  # of a training; its rules have K words a side


@dataclass(frozen=True)
class Work:
    """Work that is counted or timed.

    Attributes:
        name: of it.
        aim: operations of each.
        items: how many sentences it is of, each change of the model anew, or steps of a training.
        run: does it.
    """

    name: str
    aim: int
    items: int
    run: Callable[[], object]


def train_pieces(pairs: list[tuple[str, str]], folder: Path) -> list[SentencePiece]:
    """Return vocabularies of the pairs' source and target."""
    for place, side in enumerate(("source", "target")):
        train_subwords((pair[place] for pair in pairs), folder / side, "bpe", PIECES)
    return [SentencePiece(folder / side) for side in ("source", "target")]


def make_transformer(pairs: list[tuple[str, str]], folder: Path) -> NMTModel:
    """Return a `transformer_128` with random weights."""
    sizes = {"dimension": 128, "feed_forward": 512}
    return build_model("transformer", sizes, *train_pieces(pairs, folder))


def make_m2m100(pairs: list[tuple[str, str]], folder: Path, width: int = 16) -> NMTModel:
    """Return an M2M100 of the base size, but for its dimensions."""
    build_base(folder, [text for pair in pairs for text in pair], width=width)
    return open_huggingface(str(folder), "m2m100", **READER["m2m100"])


COLUMNS = "work", "times", "operations of each", "views among them", "waits", "aim", "met"
MODELS = {"transformer_128": make_transformer, "m2m100": make_m2m100}


def explain(model: NMTModel, split: EncodedSplit, name: str, folder: Path, **few: int) -> None:
    """Write the rules of a shard, labels included, as the pipeline does."""
    options = ExtractionOptions(shard_sentences=len(split))
    explainer, labels = load_explainer(name, **few), folder / "labels"
    for target in (labels / "test", folder / name / "test"):
        target.mkdir(parents=True, exist_ok=True)
    if not explainer.attends:
        [_] = label(model, split, len(split), options, labels / "test", "teacher_forcing")
    stored = None if explainer.attends else labels
    [_] = extract(
        model, split, len(split), explainer, options, folder / name, "test", True, labels=stored
    )


def explain_changed(model: NMTModel, split: EncodedSplit, folder: Path) -> None:
    """Explain the labels of a shard by changed models, as robustness does."""
    names = frozenset(name for group in group_weights(model).values() for name in group)
    options = ExtractionOptions(shard_sentences=len(split))
    (folder / "changed" / "test").mkdir(parents=True)
    for changed in (move_embeddings(model, 0.05, [0, 0]), permute_weights(model, names, 0)):
        [_] = extract(
            changed,
            split,
            len(split),
            load_explainer("prediction_difference"),
            options,
            folder / "changed",
            "test",
            True,
            labels=folder / "labels",
        )


def list_work(
    model: NMTModel, split: EncodedSplit, pairs: list[tuple[str, str]], folder: Path
) -> Iterator[Work]:
    """Yield the work of explainers, metrics and search, each to be run before the next.

    Args:
        model: the system.
        split: the sentences as ids.
        pairs: their texts.
        folder: for rules.
    """
    sentences = len(split)
    for name, aim in EXPLAINERS.items():
        yield Work(name, aim, sentences, partial(explain, model, split, name, folder))
    rules = draw_rules(list_decisions(split))
    yield Work("Base", METRIC, sentences, partial(base_log_likelihoods, model, split, rules))
    for name, shard, run in (
        ("erasure, whole curves", ERASED, erase_all),
        ("infidelity", SAMPLED, sample),
        ("soft erasure", SOFTENED, soften),
    ):
        few = min(sentences, TOGETHER * shard)
        yield Work(name, METRIC, few, partial(run, model, split, few))
    few = min(sentences, TOGETHER * REPLACED)
    yield Work("causes", METRIC, few, partial(replace_words, model, pairs[:few]))
    for name, options in FEW.items():
        run = partial(explain, model, split, name, folder, **options)
        yield Work(name, METRIC, sentences, run)
    changed = partial(explain_changed, model, split, folder)
    yield Work(ROBUSTNESS, METRIC, 2 * sentences, changed)
    model.longest_target = int(split.target.lengths().max())
    sources = [split.source[i] for i in range(sentences)]
    yield Work("greedy translation", TRANSLATION, sentences, partial(translate, model, sources))


def list_steps(device: torch.device = CPU) -> Iterator[Work]:
    """Yield the training steps of proxies."""
    for proxy in (FN, RN, SA):
        run = partial(take_steps, proxy(Vocabulary(WORDS, WORDS, K)).to(device))
        yield Work(f"{proxy.__name__}, training", STEP, STEPS, run)


def take_steps(proxy: Proxy) -> None:
    """Train a proxy."""
    optimizer = adam(proxy.parameters(), 1e-3)
    device = device_of(proxy)
    words_BK = torch.randint(WORDS, (BATCH, 2 * K), device=device)
    label_B = torch.randint(WORDS, (BATCH,), device=device)
    for _ in range(STEPS):
        optimizer.zero_grad()
        proxy.loss(words_BK, words_BK, label_B).backward()
        torch.nn.utils.clip_grad_norm_(proxy.parameters(), 1.0)
        optimizer.step()


def erase_all(model: NMTModel, split: EncodedSplit, sentences: int) -> None:
    """Compute whole curves of some sentences, as the metric does."""
    decisions = [d for d in list_decisions(split) if d.sentence < sentences]
    erase(Eraser(model, split, "zero"), decisions, SHARES, whole_curves=True)


def sample(model: NMTModel, split: EncodedSplit, sentences: int) -> None:
    """Erase words of some sentences at random, as infidelity does."""
    pairs = [(split.source[i], split.target[i]) for i in range(sentences)]
    batch = model.collate(pairs)
    erased = [erased_words(*pair, SAMPLES, 0) for pair in pairs]
    probabilities(model, batch.labelled(batch.target_BT), erased, "zero")


def soften(model: NMTModel, split: EncodedSplit, sentences: int) -> None:
    """Keep embeddings of some sentences in part, by chances drawn at random."""
    rng, pairs = np.random.default_rng(0), [split.ids(i) for i in range(sentences)]
    decisions = [
        SoftDecision(i, step, *(rng.random((len(KINDS), len(x))) for x in pair))
        for i, pair in enumerate(pairs)
        for step in range(len(pair[1]))
    ]
    distances(model, model.collate(pairs), decisions, DRAWS, 0)


def replace_words(model: NMTModel, pairs: list[tuple[str, str]]) -> None:
    """Replace each word of some sentences by others, as causes does."""
    sides = (
        dict.fromkeys(word for text in side for word in text.split())
        for side in zip(*pairs, strict=True)
    )
    categories = BothSides(
        *(Substitutes(by_key((f"{len(w)} {w[-1]}", w) for w in words).values()) for words in sides)
    )
    sentences = [(n, Sentence(*pair, str(n), 0)) for n, pair in enumerate(pairs)]
    Interventions(model, categories, SUBSTITUTES).effects(sentences)


def main() -> None:
    """Print a table for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", help="source sentences, one a line")
    parser.add_argument("--target", help="their targets")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=[*MODELS])
    parser.add_argument("--only", nargs="+", help="names of work, in place of all")
    parser.add_argument("--most", type=int, default=0, help="names of so many operations, too")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    console, pairs = Console(), read_pairs(arguments)
    for name in arguments.models:
        folder = Path(tempfile.mkdtemp())
        torch.manual_seed(0)
        model = MODELS[name](pairs, folder).eval().requires_grad_(False)
        split = encode(model, pairs[: arguments.sentences])
        table, unknown = Table(*COLUMNS, box=SIMPLE_HEAD), {*(arguments.only or ())}
        for work in chain(list_work(model, split, pairs, folder), list_steps()):
            unknown.discard(work.name)
            if work.name not in (arguments.only or [work.name]):
                continue
            counted = count(work.run)
            each, views = (n / work.items for n in (counted.operations.total(), counted.views))
            met = "yes" if each <= work.aim else "no"
            cells = work.name, work.items, f"{each:.1f}", f"{views:.1f}", counted.waits.total()
            table.add_row(*map(str, (*cells, work.aim, met)))
            if arguments.most:
                console.print(work.name, counted.operations.most_common(arguments.most))
                console.print(counted.waits)
        console.print(f"{name}, {len(split)} sentences")
        console.print(table)
        if unknown:
            parser.error(f"no work has the name {', '.join(sorted(unknown))}")


if __name__ == "__main__":
    main()
