"""From relevance to rules: explain every decision of a split and keep its top-k words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from xnmt_bench.corpora.encoded import EncodedSplit
from xnmt_bench.corpora.sentence import Gold
from xnmt_bench.corpora.subwords import SPECIAL, current_start
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.explainers.base import Explainer, decide, follow
from xnmt_bench.nmt.base import Batch, NMTModel
from xnmt_bench.nmt.batching import buckets
from xnmt_bench.rules.table import RULE_SIDES, read_columns, shard_path, write_shard
from xnmt_bench.rules.topk import ids_at, top_k

Columns = dict[str, np.ndarray | list[np.ndarray]]
# Where context and label come from (Li et al. 2020, section 4.3).
Scenario = Literal["teacher_forcing", "real", "golden"]
TEACHER_FORCING: Scenario = "teacher_forcing"  # the reference's context, the model's own label
REAL: Scenario = "real"  # the context and the labels are the model's own translation
GOLDEN: Scenario = "golden"  # the reference's context, the reference's label
LABELLING = {TEACHER_FORCING: decide, REAL: follow, GOLDEN: follow}


@dataclass(frozen=True)
class ExtractionOptions:
    """What decides the rules beside model, sentences and explainer.

    Attributes:
        largest_k: words kept a side; any smaller k is a slice.
        shard_sentences: sentences a shard, the unit of resuming.
        admit_special: let the source's EOS be a word of a rule.
        batch_tokens: sentences are explained together up to this many target ids.
    """

    largest_k: int = 5
    shard_sentences: int = 500
    admit_special: bool = False
    batch_tokens: int = 1024


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
) -> Iterator[int]:
    """Writes the rules of a split's first sentences, shard by shard.

    A shard that is there already is left alone, so a killed extraction goes on where it stood.

    Args:
        model: the system under explanation.
        split: its sentences.
        sentences: how many of them, from the first.
        explainer: the relevance.
        options: see there.
        folder: where `<name>/<shard>.parquet` go.
        name: of the split.
        keep_relevance: keep every word's score beside the rules.
        scenario: where labels come from.
        gold: the annotation of each sentence by its number, for an explainer that asks for it.
        source_alone: an explainer that says nothing of prefix words will do; none are in its rules.

    Yields:
        The number of sentences done so far.

    Raises:
        NotApplicable: the explainer says nothing of prefix words of this model.
        XnmtError: the explainer gave no number to a word that a step can see.
    """
    for number, start in enumerate(range(0, sentences, options.shard_sentences)):
        end = min(start + options.shard_sentences, sentences)
        path = shard_path(folder, name, number)
        if path.exists():
            read_columns(path)  # a shard that was damaged since is an error that names it
        else:
            sentences_of = _Sentences(split, range(start, end), gold)
            columns = _shard(
                model, sentences_of, explainer, options, keep_relevance, scenario, source_alone
            )
            write_shard(columns, path)
        yield end


@dataclass(frozen=True)
class _Sentences:
    """Some sentences of a split, with their annotation where it is asked for."""

    split: EncodedSplit
    members: range
    gold: Mapping[int, Gold] | None

    def lengths(self) -> np.ndarray:
        """The longer side of each."""
        split = self.split
        return np.asarray([max(len(split.source[i]), len(split.target[i])) for i in self.members])

    def batch(self, indices: list[int]) -> Batch:
        """Some of them, by their index in the split."""
        batch = Batch.collate([(self.split.source[i], self.split.target[i]) for i in indices])
        if self.gold is None:
            return batch
        numbers = [int(self.split.number[i]) for i in indices]
        return replace(batch, gold=tuple(self.gold.get(n, Gold()) for n in numbers))


def _shard(
    model: NMTModel,
    sentences: _Sentences,
    explainer: Explainer,
    options: ExtractionOptions,
    keep_relevance: bool,
    scenario: Scenario,
    source_alone: bool,
) -> Columns:
    """All columns of a shard; sentences are grouped by length and put back in order."""
    by_sentence: dict[int, Columns] = {}
    count = len(sentences.members)
    for group in buckets(sentences.lengths(), np.arange(count), options.batch_tokens):
        chosen = [sentences.members[int(i)] for i in group]
        batch = sentences.batch(chosen).to(next(model.parameters()).device)
        rows = _explain(model, batch, explainer, options, scenario, source_alone)
        for i, columns in zip(chosen, rows, strict=True):
            steps = len(columns["label"])
            columns["sentence"] = np.full(steps, sentences.split.number[i], dtype=np.int64)
            by_sentence[i] = columns
    return _stack([by_sentence[i] for i in sentences.members], keep_relevance)


def _stack(sentences: list[Columns], keep_relevance: bool) -> Columns:
    names = [n for n in sentences[0] if keep_relevance or not n.endswith("_relevance")]
    stacked: Columns = {}
    for name in names:
        parts = [columns[name] for columns in sentences]
        if name.endswith("_relevance"):
            stacked[name] = [row for part in parts for row in part]
        else:
            stacked[name] = np.concatenate(parts)  # type: ignore[arg-type]
    return stacked


def _explain(
    model: NMTModel,
    batch: Batch,
    explainer: Explainer,
    options: ExtractionOptions,
    scenario: Scenario,
    source_alone: bool,
) -> Iterator[Columns]:
    """The columns of each sentence of a batch."""
    batch, log_probability_BT = LABELLING[scenario](model, batch)
    relevance = explainer.relevance(model, batch)
    silent = relevance.prefix_BTT is None  # of prefix words
    if silent and not source_alone:
        raise NotApplicable("no relevance of prefix words: the model has no attention there")
    source_BTS = relevance.source_BTS.detach().cpu().numpy().astype(np.float32)
    prefix_BTT = np.full((*batch.target_BT.shape, batch.target_BT.shape[1]), np.nan, np.float32)
    if not silent:
        assert relevance.prefix_BTT is not None
        prefix_BTT = relevance.prefix_BTT.detach().cpu().numpy().astype(np.float32)
    assert batch.labels_BT is not None
    labels_BT, source_BS, target_BT = (
        x.cpu().numpy() for x in (batch.labels_BT, batch.source_BS, batch.target_BT)
    )
    probability_BT = log_probability_BT.exp().cpu().numpy()
    sizes = zip(
        batch.source_mask_BS.sum(1).tolist(), batch.target_mask_BT.sum(1).tolist(), strict=True
    )
    for b, (s, t) in enumerate(sizes):
        now = slice(current_start(target_BT[b, :t]), t)  # a context's decisions are its own
        columns: Columns = {
            "step": np.arange(now.start, t, dtype=np.int32),
            "label": labels_BT[b, now].astype(np.int32),
            "probability": probability_BT[b, now].astype(np.float32),
            "gold": target_BT[b, now].astype(np.int32),
        }
        scores = {"source": source_BTS[b, now, :s], "prefix": prefix_BTT[b, now, :t]}
        ids = {"source": source_BS[b, :s], "prefix": target_BT[b, :t]}
        for side in RULE_SIDES:
            if np.isnan(scores[side]).sum() != _unseen(side, scores[side].shape, silent):
                raise XnmtError(
                    f"the explainer gave no number to a {side} word that the step can see"
                )
            columns |= _side(side, scores[side], ids[side], options)
        yield columns


@torch.no_grad()
def top_words(
    model: NMTModel, split: EncodedSplit, sentences: int, words: int, batch_tokens: int = 1024
) -> Columns:
    """The model's most probable words at each step of a split's first sentences.

    Args:
        model: the system.
        split: its sentences.
        sentences: how many of them, from the first.
        words: M, how many words a step.
        batch_tokens: sentences are run together up to this many ids; never changes a result.

    Returns:
        Columns `sentence`, `step`, `top_ids` (N, M) and `top_scores` (N, M), log-probabilities.
    """
    chosen = _Sentences(split, range(sentences), None)
    by_sentence: dict[int, Columns] = {}
    for group in buckets(chosen.lengths(), np.arange(sentences), batch_tokens):
        batch = chosen.batch(group.tolist()).to(next(model.parameters()).device)
        states = model.states(batch)
        for b, i in enumerate(group.tolist()):
            now = batch.current_BT[b].nonzero().flatten()
            log_p, ids = model.logits(states[b, now]).log_softmax(-1).topk(words)
            by_sentence[i] = {
                "sentence": np.full(len(now), split.number[i], dtype=np.int64),
                "step": now.cpu().numpy().astype(np.int32),
                "top_ids": ids.cpu().numpy().astype(np.int32),
                "top_scores": log_p.cpu().numpy().astype(np.float32),
            }
    return _stack([by_sentence[i] for i in range(sentences)], keep_relevance=False)


def _unseen(side: str, shape: tuple[int, int], silent: bool) -> int:
    """How many words the last steps cannot see: of the prefix all but j < t, none of the source.

    Of an explainer that is silent on the prefix it is the whole prefix.
    """
    rows, columns = shape
    if side == "source":
        return 0
    return rows * columns if silent else rows * (rows + 1) // 2


def _side(
    side: str, scores_TX: np.ndarray, ids_X: np.ndarray, options: ExtractionOptions
) -> Columns:
    words = np.ones(len(ids_X), dtype=bool) if options.admit_special else ~np.isin(ids_X, SPECIAL)
    allowed = np.broadcast_to(words, scores_TX.shape)
    positions, kept = top_k(scores_TX, allowed, options.largest_k)
    return {
        f"{side}_ids": ids_at(ids_X, positions).astype(np.int32),
        f"{side}_positions": positions.astype(np.int32),
        f"{side}_scores": kept.astype(np.float32),
        f"{side}_relevance": list(scores_TX),
    }
