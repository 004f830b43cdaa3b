"""What is computed of erasure and kept in the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, compress, groupby, islice
from operator import itemgetter

import numpy as np

from xnmt_bench.judges.masked import VERSION
from xnmt_bench.metrics.erasure.curves import erase
from xnmt_bench.metrics.erasure.erasing import (
    KEYS,
    Decision,
    Eraser,
    load_labels,
    ordered_decisions,
    unordered_decisions,
)
from xnmt_bench.metrics.erasure.limits import limits
from xnmt_bench.nmt.switched import Removal
from xnmt_bench.pipeline.decision_table import Columns, store_decisions
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.extract import TEACHER_FORCING
from xnmt_bench.store import Stage

SHARD = 50  # sentences


def erase_words(
    job: Job, sentences: int, curves: int, removal: Removal, shares: Sequence[float]
) -> Stage:
    """Return what each decision loses, in the order of the job's explainer.

    Args:
        job: of the explainer.
        sentences: of the test set, from the first.
        curves: of these, how many have whole curves.
        removal: what an erased word is replaced by.
        shares: of each side's words.
    """
    relevances = job.relevance(TEACHER_FORCING)
    labels = job.explained.decisions.labels(EVALUATED, TEACHER_FORCING)

    def parts() -> Iterator[tuple[bool, list[Decision]]]:
        # Only the order of words is kept of the relevance, which is streamed.
        ordered = ordered_decisions(job.texts.split(EVALUATED), relevances, load_labels(labels))
        for place, decisions in enumerate(islice(ordered, sentences)):
            yield place < curves, decisions

    def compute(parts: list[tuple[bool, list[Decision]]]) -> list[Columns]:
        eraser = Eraser(job.system.model, job.texts.split(EVALUATED), removal)
        columns: list[Columns] = []
        for whole_curves, group in groupby(parts, key=itemgetter(0)):
            by_sentence = [decisions for _, decisions in group]
            decisions = [*chain(*by_sentence)]
            flat_N = np.array([decision.flat for decision in decisions])
            erased = {"flat": flat_N} | erase(eraser, decisions, shares, whole_curves)
            columns += _split(erased, by_sentence)
        return columns

    return store_decisions(
        job,
        "erased",
        "erasure",
        parts,
        compute,
        shard=SHARD,
        sentences=sentences,
        version=3,
        masked=VERSION,
        relevance=relevances,
        labels=labels,
        shares=list(shares),
        curves=curves,
        removal=removal,
    )


def bound(job: Job, sentences: int, limited: int, draws: int, removal: Removal, beam: int) -> Stage:
    """Return the limits of the areas of drawn decisions, the same for every explainer.

    Args:
        job: of the system.
        sentences: of the test set, from the first, whose decisions are drawn from.
        limited: how many decisions are drawn.
        draws: seed of the draw.
        removal: what an erased word is replaced by.
        beam: chains that the search keeps.
    """
    labels = job.explained.decisions.labels(EVALUATED, TEACHER_FORCING)

    def parts() -> Iterator[list[Decision]]:
        # Without an order, since limits are over all orders and the same for every explainer.
        unordered = unordered_decisions(job.texts.split(EVALUATED), load_labels(labels))
        return draw([*islice(unordered, sentences)], limited, draws)

    def compute(by_sentence: list[list[Decision]]) -> list[Columns]:
        eraser = Eraser(job.system.model, job.texts.split(EVALUATED), removal)
        lower_N, upper_N = limits(eraser, [*chain(*by_sentence)], beam)
        return _split({"lower": lower_N, "upper": upper_N}, by_sentence)

    return store_decisions(
        job,
        "erasure_limits",
        f"limits of {limited} decisions",  # its time is that of the decisions
        parts,
        compute,
        shard=SHARD,
        sentences=sentences,
        version=1,
        masked=VERSION,
        labels=labels,
        limited=limited,
        draws=draws,
        beam=beam,
        removal=removal,
    )


def draw(
    by_sentence: Sequence[Sequence[Decision]], limited: int, draws: int
) -> Iterator[list[Decision]]:
    """Yield the sentences of some decisions that are drawn at random, with these decisions alone.

    Args:
        by_sentence: all decisions of each sentence.
        limited: how many are drawn; a larger draw holds a smaller one.
        draws: seed of the draw.
    """
    count = sum(map(len, by_sentence))
    is_drawn_N = np.zeros(count, dtype=bool)
    is_drawn_N[np.random.default_rng(draws).permutation(count)[:limited]] = True
    ends = np.cumsum([len(decisions) for decisions in by_sentence])[:-1]
    for decisions, is_drawn in zip(by_sentence, np.split(is_drawn_N, ends), strict=True):
        if is_drawn.any():
            yield [*compress(decisions, is_drawn)]


def _split(columns: Columns, by_sentence: Sequence[Sequence[Decision]]) -> list[Columns]:
    """Return the columns of each sentence's decisions, with their keys."""
    ends = np.cumsum([len(decisions) for decisions in by_sentence])[:-1]
    parts = zip(*(np.split(column_N, ends) for column_N in columns.values()), strict=True)
    return [
        {name: np.array([getattr(d, name) for d in decisions], dtype=np.int64) for name in KEYS}
        | dict(zip(columns, part, strict=True))
        for decisions, part in zip(by_sentence, parts, strict=True)
    ]
