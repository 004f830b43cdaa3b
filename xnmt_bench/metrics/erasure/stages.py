"""What is computed of erasure and kept in the store, shard by shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from xnmt_bench.metrics.erasure.curves import erase
from xnmt_bench.metrics.erasure.decisions import KEYS, ordered_decisions, unordered_decisions
from xnmt_bench.metrics.erasure.erasing import Decision, Eraser
from xnmt_bench.metrics.erasure.limits import limits
from xnmt_bench.nmt.switched import Removal
from xnmt_bench.parquet import read_table
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.shards import write_parts
from xnmt_bench.rules.extract import TEACHER_FORCING
from xnmt_bench.rules.table import shards
from xnmt_bench.store import Artefact, Work

SHARD = 20  # sentences
Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Amounts:
    """How much is computed.

    Attributes:
        sentences: of the test set, from the first.
        curves: of these, how many have whole curves.
        removal: what an erased word is replaced by.
    """

    sentences: int
    curves: int
    removal: Removal


def erase_words(job: Job, amounts: Amounts, shares: Sequence[float]) -> Artefact:
    """Return what each decision loses, in the order of the job's explainer."""
    relevances = job.relevance(TEACHER_FORCING)
    labels = job.explained.decisions.labels(EVALUATED, TEACHER_FORCING)

    def work(folder: Path) -> dict[str, Any]:
        split = job.texts.split(EVALUATED)
        eraser = Eraser(job.system.model, split, amounts.removal)
        # Only the order of words is kept of the relevance, which is streamed.
        ordered = [*ordered_decisions(split, relevances.read(), labels, amounts.sentences)]

        def compute(start: int, decisions: Sequence[Decision]) -> Columns:
            return erase(eraser, decisions, shares, whole_curves=start < amounts.curves)

        # A shard ends where curves end, so that it has them whole or not at all.
        ends = [amounts.curves, amounts.sentences]
        _write_shards(job, folder, [decisions for decisions, _ in ordered], ends, compute)
        return {"flat": sum(flat for _, flat in ordered)}

    return job.store.make(
        "erased",
        work,
        version=1,
        amount=Work(f"erasure of {job.system.name}", amounts.sentences, "sentences"),
        relevance=relevances.fingerprint,
        model=job.system,
        labels=labels,
        shares=list(shares),
        **asdict(amounts),
    )


def bound(job: Job, amounts: Amounts, beam: int) -> Artefact:
    """Return the limits of each decision's areas, the same for every explainer."""
    labels = job.explained.decisions.labels(EVALUATED, TEACHER_FORCING)

    def work(folder: Path) -> None:
        split = job.texts.split(EVALUATED)
        eraser = Eraser(job.system.model, split, amounts.removal)

        def compute(_: int, decisions: Sequence[Decision]) -> Columns:
            lower_N, upper_N = limits(eraser, decisions, beam)
            return {"lower": lower_N, "upper": upper_N}

        # Without an order, since limits are over all orders and the same for every explainer.
        by_sentence = [*unordered_decisions(split, labels, amounts.sentences)]
        _write_shards(job, folder, by_sentence, [amounts.sentences], compute)

    return job.store.make(
        "erasure_limits",
        work,
        version=1,
        amount=Work(f"limits of erasure of {job.system.name}", amounts.sentences, "sentences"),
        model=job.system,
        labels=labels,
        beam=beam,
        sentences=amounts.sentences,
        removal=amounts.removal,
    )


def read(artefact: Artefact) -> Columns:
    """Return all columns of an artefact's shards; a shard without one has NaN there."""
    tables = [read_table(path) for path in shards(artefact.path, EVALUATED)]
    # In the order of the first table, which has every column where curves come first.
    names = dict.fromkeys(name for table in tables for name in table.column_names)
    return {
        name: np.concatenate(
            [
                t[name].to_numpy() if name in t.column_names else np.full(len(t), np.nan)
                for t in tables
            ]
        )
        for name in names
    }


def _write_shards(
    job: Job,
    folder: Path,
    by_sentence: Sequence[list[Decision]],
    ends: Sequence[int],
    compute: Callable[[int, Sequence[Decision]], Columns],
) -> None:
    """Write the columns of sentences shard by shard.

    Args:
        job: whose progress is shown.
        folder: of the artefact.
        by_sentence: the decisions of each sentence.
        ends: sentences at which a shard ends in any case, the last of them the number of all.
        compute: gives the columns of decisions, of which the first is of this sentence.
    """
    parts = [range(*span) for span in pairwise((0, *ends))]
    spans = [part[start : start + SHARD] for part in parts for start in range(0, len(part), SHARD)]

    def tabulate(span: range) -> pa.Table:
        decisions = [d for sentence in span for d in by_sentence[sentence]]
        keys = {name: np.array([getattr(d, name) for d in decisions]) for name in KEYS}
        return pa.table(keys | compute(span.start, decisions))

    write_parts(job, folder, spans, tabulate, "erasure")
