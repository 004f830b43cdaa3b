"""From relevance to rules: explain every decision of a split and keep its top-k words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.corpora.sentence import Gold
from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import PAD, SPECIAL, current_start
from xnmt_bench.device import Precision, Room, arithmetic, device_of
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.explainers.base import TARGET_BYTES, TOGETHER, Explainer, decide, follow
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.batching import buckets
from xnmt_bench.options import Count, Few
from xnmt_bench.progress import inside
from xnmt_bench.rules.labels import StoredLabels
from xnmt_bench.rules.table import ERROR, GREATEST, shard_path, write_shard
from xnmt_bench.rules.topk import ids_at, top_k

Columns = dict[str, np.ndarray | list[np.ndarray]]
HostWork = Callable[[], Iterable[Columns]]  # the columns of each sentence of a batch
# Where context and label come from (Li et al. 2020, section 4.3).
Scenario = Literal["teacher_forcing", "real", "golden"]
TEACHER_FORCING: Scenario = "teacher_forcing"  # the reference's context, the model's own label
REAL: Scenario = "real"  # the context and the labels are the model's own translation
GOLDEN: Scenario = "golden"  # the reference's context, the reference's label
LABELLING = {TEACHER_FORCING: decide, REAL: follow, GOLDEN: follow}


@dataclass(frozen=True)
class ExtractionOptions:
    """What decides the rules besides model, sentences and explainer.

    Attributes:
        largest_k: words kept a side; any smaller k is a slice.
        shard_sentences: sentences a shard, the unit of resuming.
        admit_special: let EOS, and separators of sentences, be words of a rule.
        batch_tokens: sentences are explained together up to this many target ids; None for what
            there is room for.
        precision: of the relevance; labels are always in float32.
    """

    largest_k: Few = 5
    shard_sentences: Count = 500
    admit_special: bool = False
    batch_tokens: Count | None = None
    precision: Precision = 32

    def shards(self, sentences: int) -> int:
        """Return how many shards hold so many sentences."""
        return -(-sentences // self.shard_sentences)

    def recipe(self) -> dict[str, Any]:
        """Return what decides the rules; how many sentences share a batch changes no number."""
        names = {each.name for each in fields(ExtractionOptions)} - {"batch_tokens"}
        return {name: getattr(self, name) for name in names}


def extract(
    model: NMTModel,
    split: EncodedSplit,
    sentences: int,
    explainer: Explainer,
    options: ExtractionOptions,
    folder: Path,
    name: str,
    keep_relevance: bool,
    scenario: Scenario = TEACHER_FORCING,
    gold: Mapping[int, Gold] | None = None,
    source_alone: bool = False,
    labels: Path | None = None,
    numbers: Sequence[int] | None = None,
) -> Iterator[int]:
    """Write the rules of a split's first sentences, shard by shard.

    Args:
        model: the system under explanation.
        split: its sentences.
        sentences: how many of them, from the first.
        explainer: the relevance.
        options: what else decides the rules.
        folder: where `<name>/<shard>.parquet` go.
        name: of the split.
        keep_relevance: keep every word's score with the rules.
        scenario: where labels come from.
        gold: the annotation of each sentence by its number, for an explainer that asks for it.
        source_alone: accept an explainer without relevance of prefix words; none are in its rules.
        labels: a folder that `label` filled for the same sentences and shards; without one the
            model labels each batch before it is explained.
        numbers: which shards; all, if not given.

    Yields:
        The number of each shard once it is there.

    Raises:
        NotApplicable: the explainer gives no relevance of prefix words of this model.
        XnmtError: the explainer gave a word that a step sees no finite number, or one that it does
            not see a number.
    """
    kept = StoredLabels(labels, name, options.shard_sentences) if labels else None

    def explained(indices: list[int], batch: Batch) -> HostWork:
        if kept:
            batch, kept_BT = kept.of(indices, batch)
            probability_BT = torch.from_numpy(kept_BT)
        else:
            # Attention is of the pass that labels; kept there, it is not computed again.
            weights = labels_itself(explainer, options)
            batch, log_probability_BT = LABELLING[scenario](model, batch, weights=weights)
            probability_BT = log_probability_BT.exp()
        return _explain(model, batch, probability_BT, explainer, options, source_alone)

    path = folder / name
    yield from _sharded(
        model, split, sentences, explained, options, path, numbers, keep_relevance, gold
    )


def label(
    model: NMTModel,
    split: EncodedSplit,
    sentences: int,
    options: ExtractionOptions,
    folder: Path,
    scenario: Scenario,
    numbers: Sequence[int] | None = None,
) -> Iterator[int]:
    """Write the labels of a split's first sentences in `folder`, once for all who explain them.

    Args:
        model: the system.
        split: its sentences.
        sentences: how many of them, from the first.
        options: how many sentences a shard has.
        folder: where `<shard>.parquet` go.
        scenario: where labels come from.
        numbers: which shards; all, if not given.

    Yields:
        The number of each shard once it is there.
    """

    def labelled(_: list[int], batch: Batch) -> HostWork:
        batch, log_probability_BT = LABELLING[scenario](model, batch)
        assert batch.labels_BT is not None
        now_BT = batch.on_host.current_BT
        labels_BT, probability_BT = map(on_host, (batch.labels_BT, log_probability_BT.exp()))

        def columns() -> Iterator[Columns]:
            for b, now_T in enumerate(now_BT):
                yield {
                    "step": np.flatnonzero(now_T).astype(np.int32),
                    "label": labels_BT[b, now_T].astype(np.int32),
                    "probability": probability_BT[b, now_T],
                }

        return columns

    yield from _sharded(model, split, sentences, labelled, options, folder, numbers)


def labels_itself(explainer: Explainer, options: ExtractionOptions) -> bool:
    """Return whether relevance needs the very pass that labels, so that labels cost nothing."""
    return explainer.attends and options.precision == 32


def _sharded(
    model: NMTModel,
    split: EncodedSplit,
    sentences: int,
    columns_of: Callable[[list[int], Batch], HostWork],
    options: ExtractionOptions,
    folder: Path,
    numbers: Sequence[int] | None,
    keep_relevance: bool = False,
    gold: Mapping[int, Gold] | None = None,
) -> Iterator[int]:
    """Write the columns of each sentence, shard by shard; yield each shard's number.

    What is left to do on the host is done while the device goes on.
    """
    numbers = range(options.shards(sentences)) if numbers is None else numbers
    room = Room(options.batch_tokens, cpu=TOGETHER, each=TARGET_BYTES)

    def computed(shard: int, members: range, batch_tokens: int) -> list[tuple[list[int], Future]]:
        parts = batches(model, split, members, batch_tokens, gold)
        return [
            (indices, host.submit(lambda work: list(work()), columns_of(indices, batch)))
            for indices, batch in inside(parts, lambda part: len(part[0]), len(members), shard)
        ]

    def write(parts: list[tuple[list[int], Future]], path: Path) -> None:
        by_sentence: dict[int, Columns] = {}
        for indices, part in parts:
            for i, columns in zip(indices, part.result(), strict=True):
                columns["sentence"] = np.full(len(columns["label"]), split.number[i], np.int64)
                by_sentence[i] = columns
        write_shard(_stack(by_sentence, keep_relevance), path)

    # One thread: the host's work of a batch overlaps with the device's next batch, in order.
    with ThreadPoolExecutor(1) as host:
        before: tuple[int, Future] | None = None
        for shard in numbers:
            start = shard * options.shard_sentences
            members = range(start, min(start + options.shard_sentences, sentences))
            parts = room.tried(device_of(model), partial(computed, shard, members))
            if before:
                yield _done(before)
            path = shard_path(folder.parent, folder.name, shard)
            before = shard, host.submit(write, parts, path)
        if before:
            yield _done(before)


def _done(before: tuple[int, Future]) -> int:
    """Return a shard's number once it has been written."""
    shard, writing = before
    writing.result()
    return shard


def batches(
    model: NMTModel,
    split: EncodedSplit,
    members: range,
    batch_tokens: int,
    gold: Mapping[int, Gold] | None = None,
) -> Iterator[tuple[list[int], Batch]]:
    """Yield sentences of like length on the model's device, with their indices in the split."""
    lengths = np.asarray([max(len(split.source[i]), len(split.target[i])) for i in members])
    # Where a device holds all at once, short sentences would be padded to the longest.
    batch_tokens = min(batch_tokens, max(TOGETHER, int(lengths.sum())))
    for group in buckets(lengths, np.arange(len(members)), batch_tokens):
        indices = [members[i] for i in group.tolist()]
        batch = model.collate([(split.source[i], split.target[i]) for i in indices])
        if gold is not None:
            annotation = tuple(gold.get(n, Gold()) for n in split.number[indices].tolist())
            words = tuple(
                (split.source.current_words(i), split.target.current_words(i)) for i in indices
            )
            batch = replace(batch, gold=annotation, words=words)
        yield indices, batch


def _stack(by_sentence: dict[int, Columns], keep_relevance: bool) -> Columns:
    """Return sentences, which came by length, as one in the order of their indices."""
    # So shards do not depend on how sentences were batched.
    sentences = [by_sentence[i] for i in sorted(by_sentence)]
    stacked: Columns = {}
    for name in sentences[0]:
        parts = [columns[name] for columns in sentences]
        if not name.endswith("_relevance"):
            stacked[name] = np.concatenate(parts)  # type: ignore[arg-type]
        elif keep_relevance:
            stacked[name] = [row for part in parts for row in part]
    return stacked


def _explain(
    model: NMTModel,
    batch: Batch,
    probability_BT: Tensor,
    explainer: Explainer,
    options: ExtractionOptions,
    source_alone: bool,
) -> HostWork:
    """Explain a batch on the device; return the host work that gives each sentence's columns."""
    if not labels_itself(explainer, options):  # a pass in float32 is not of another precision
        batch = replace(batch, forced=None)
    with arithmetic(options.precision, device_of(model)):
        relevance = explainer.relevance(model, batch)
    silent = relevance.prefix_BTT is None  # of prefix words
    if silent and not source_alone:
        # Half a rule would make fidelity incomparable with that of every other explainer.
        raise NotApplicable("the explainer gives no relevance of prefix words")
    assert batch.labels_BT is not None
    # All that is copied is copied at once, at the end: the host waits once.
    tensors = (relevance.source_BTS, batch.labels_BT, probability_BT)
    source_BTS, labels_BT, probabilities_BT = map(on_host, tensors)
    source_BS, target_BT = batch.on_host.source_BS, batch.on_host.target_BT
    prefix_BTT = np.full((*target_BT.shape, target_BT.shape[1]), np.nan)  # as if no step saw one
    if relevance.prefix_BTT is not None:
        prefix_BTT = on_host(relevance.prefix_BTT)
    error_BT = None if relevance.error_BT is None else on_host(relevance.error_BT)

    def columns() -> Iterator[Columns]:
        lengths = ((ids != PAD).sum(1).tolist() for ids in (source_BS, target_BT))
        for b, (s, t) in enumerate(zip(*lengths, strict=True)):
            now = slice(current_start(target_BT[b, :t]), t)  # a context's decisions are its own
            steps = np.arange(now.start, t)
            # A step sees the words before it, and of the source all.
            unseen_TT = np.full((len(steps), t), True) if silent else steps[:, None] <= np.arange(t)
            unseen_TS = np.full((len(steps), s), False)
            yield {
                "step": steps.astype(np.int32),
                "label": labels_BT[b, now].astype(np.int32),
                "probability": probabilities_BT[b, now],
                "gold": target_BT[b, now].astype(np.int32),
                **({} if error_BT is None else {ERROR: error_BT[b, now].astype(np.float32)}),
                **side_columns(
                    "source", source_BTS[b, now, :s], source_BS[b, :s], unseen_TS, options
                ),
                **side_columns(
                    "prefix", prefix_BTT[b, now, :t], target_BT[b, :t], unseen_TT, options
                ),
            }

    return columns


def on_host(x: Tensor) -> np.ndarray:
    """Return a tensor's numbers, floating ones in float32."""
    x = x.detach().cpu()
    # numpy has no bfloat16.
    return (x.float() if x.is_floating_point() else x).numpy()


def side_columns(
    side: str,
    scores_TX: np.ndarray,
    ids_X: np.ndarray,
    unseen_TX: np.ndarray,
    options: ExtractionOptions,
) -> Columns:
    """Return the columns of one side; scores are NaN where a step does not see the word."""
    missing_TX = np.isnan(scores_TX)
    if (missing_TX & ~unseen_TX).any():
        raise XnmtError(f"the explainer gave no number to a {side} word that the step can see")
    # Later target words would give the label away.
    if (unseen_TX & ~missing_TX).any():
        raise XnmtError(f"the explainer gave a number to a {side} word that the step cannot see")
    # Greater ones would be refused when the rules are read.
    if (np.abs(scores_TX) > GREATEST).any():
        raise XnmtError(f"the explainer gave a {side} word a score beyond {GREATEST:.0e}")
    scores_TX = scores_TX.astype(np.float32)
    words = np.ones(len(ids_X), dtype=bool) if options.admit_special else ~np.isin(ids_X, SPECIAL)
    allowed = np.broadcast_to(words, scores_TX.shape)
    # Special ids are scored like others and left out only here, so that relevance stays complete.
    positions, kept = top_k(scores_TX, allowed, options.largest_k)
    return {
        f"{side}_ids": ids_at(ids_X, positions).astype(np.int32),
        f"{side}_positions": positions.astype(np.int32),
        f"{side}_scores": kept.astype(np.float32),
        f"{side}_relevance": list(scores_TX),
    }
