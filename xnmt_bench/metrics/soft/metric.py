"""Soft erasure as a metric: its rows, its results, and the notes under its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from xnmt_bench.measuring.measurement import Evidence, PlannedRow, ScoredRow
from xnmt_bench.measuring.metric import Column, Key, SumMetric, count, hundredths, ratio
from xnmt_bench.measuring.sentence_sums import evidence_of_sentences
from xnmt_bench.measuring.units import Bounds, by_unit
from xnmt_bench.metrics.soft.distances import Decision, distances
from xnmt_bench.metrics.soft.retention import KINDS, chances_of
from xnmt_bench.options import Count, Few, Seed, Share
from xnmt_bench.pipeline.decision_table import load_decisions, store_decisions
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.extract import TEACHER_FORCING
from xnmt_bench.rules.table import SentenceRelevance
from xnmt_bench.store import Stage

three_digits = "{:.3f}".format
SHARD = 50  # sentences
NARROW = 0.01  # a distance without any word below which a decision depends on none
# Result columns of what is kept and removed, by the scores and at one retention.
RESULTS = dict(zip(KINDS, ("soft_ns", "soft_nc", "pi_soft_ns", "pi_soft_nc"), strict=True))


class SoftErasure(SumMetric):
    """How a distribution moves when embeddings are kept as much as an explainer scores them.

    A unit is a sentence; its sums are over its decisions.

    Args:
        samples: draws of each decision.
        retention: what is kept on average where all explainers keep as much.
        sentences: of the test set; null for all that are explained.
        draws: seed; the draws are the same for every explainer.
    """

    name = "soft"
    papers = ("zhao2023",)
    setting_options = ("samples", "retention", "draws")
    reads_relevance = True
    title = "Soft erasure: embeddings kept as much as a word is relevant"
    note = (
        "Each dimension of a word's embedding is kept with a chance that follows from the word's "
        "relevance, between 0 (the least relevant word of its side) and 1 (the most). Soft-NS: how "
        "much nearer the distribution stays to the one of all words than without any word. "
        "Soft-NC: how far it moves when the rest of each embedding is kept (Zhao and Aletras 2023; "
        "Hellinger distance, Zhao and Shan 2024). Pi: the same where every explainer keeps as much "
        "on average (Huang and Chan 2026). With 95 % bootstrap intervals over sentences."
    )
    keys = (Key("explainer", "explainer"), Key("seed", "seed"))
    unit_bounds: ClassVar[Mapping[str, Bounds]] = {
        "rows": Bounds(1),
        "nothing": Bounds(0, 1, of="rows"),
        "usable": Bounds(0, 1, of="rows"),
        "retention": Bounds(0, 1, of="usable"),
        "soft_ns": Bounds(0, 1, of="usable"),
        "pi_soft_ns": Bounds(0, 1, of="usable"),
        # A draw may move a distribution farther than having no word at all does.
        "soft_nc": Bounds(0),
        "pi_soft_nc": Bounds(0),
    }
    columns = (
        Column.higher("pi_soft_ns", "pi-Soft-NS", three_digits).means(
            "as Soft-NS, where every explainer keeps as much on average"
        ),
        Column.higher("pi_soft_nc", "pi-Soft-NC", three_digits).means(
            "as Soft-NC, where every explainer keeps as much on average"
        ),
        Column.higher("soft_ns", "Soft-NS", three_digits).means(
            "part of the distance without any word that the words named make up for"
        ),
        Column.higher("soft_nc", "Soft-NC", three_digits).means(
            "distance without the words named, over that without any word"
        ),
        Column("retention", "kept %", hundredths).means(
            "mean share of the embeddings that Soft-NS keeps, and Soft-NC takes away"
        ),
        Column("nothing", "distance without words", three_digits, shown=False),
        Column("decisions", "decisions", count, shown=False),
        Column("narrow", "decisions that need no word", count, shown=False),
    )

    def __init__(
        self,
        samples: Few = 5,
        retention: Share = 0.5,
        sentences: Count | None = None,
        draws: Seed = 0,
    ) -> None:
        self.samples, self.retention = samples, retention
        self.sentences, self.draws = sentences, draws

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield the explainer's row."""
        yield self.plan(job, lambda: self._evidence(job), lambda: [self._move(job)], explained=True)

    def _evidence(self, job: Job) -> Evidence:
        table = self._move(job)
        columns = load_decisions(table)
        units = by_unit(columns["sentence"], **sums_of(columns))
        facts = {"flat": int(columns["flat"].sum())}
        return evidence_of_sentences(job, *units, {"distances": table.fingerprint}, facts=facts)

    def _move(self, job: Job) -> Stage:
        """Return how far each decision's distribution moves, by the relevance of the explainer."""
        relevances = job.relevance(TEACHER_FORCING)
        sentences = job.explained.decisions.count(EVALUATED, self.sentences)

        def compute(part: list[SentenceRelevance]) -> list[dict[str, Any]]:
            split, model = job.texts.split(EVALUATED), job.system.model
            ids = [split.ids(relevance.number) for relevance in part]
            decisions, columns = list[Decision](), list[dict[str, Any]]()
            for place, (relevance, pair) in enumerate(zip(part, ids, strict=True)):
                chances, retention_N, flat_N = chances_of(relevance, *pair, self.retention)
                step_N = relevance.first + np.arange(len(retention_N))
                of_decisions = zip(*(x.swapaxes(0, 1) for x in chances), strict=True)
                decisions += [
                    Decision(place, step, *chances_KX)
                    for step, chances_KX in zip(step_N.tolist(), of_decisions, strict=True)
                ]
                number_N = np.full(len(step_N), relevance.number)
                columns.append(
                    {
                        "sentence": number_N,
                        "step": step_N,
                        "retention": retention_N,
                        "flat": flat_N,
                    }
                )
            batch = model.collate(ids)
            nothing_N, moved_NKR = distances(model, batch, decisions, self.samples, self.draws)
            ends = np.cumsum([len(of_sentence["step"]) for of_sentence in columns])[:-1]
            distances_of = (np.split(x, ends) for x in (nothing_N, moved_NKR))
            for of_sentence, nothing_X, moved_XKR in zip(columns, *distances_of, strict=True):
                of_sentence["nothing"] = nothing_X
                named = zip(KINDS, moved_XKR.swapaxes(0, 1), strict=True)
                of_sentence |= {kind: [*moved_XR] for kind, moved_XR in named}
            return columns

        return store_decisions(
            job,
            "softly_erased",
            "soft erasure",
            lambda: islice(relevances, sentences),
            compute,
            shard=SHARD,
            sentences=sentences,
            version=1,
            relevance=relevances,
            samples=self.samples,
            retention=self.retention,
            seed=self.draws,
        )

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return means over the decisions that depend on words."""
        # Not all decisions: where no word matters, no choice of words can be right.
        usable_R = sums_R["usable"]
        means = {name: ratio(sums_R[name], usable_R) for name in (*RESULTS.values(), "retention")}
        return means | {
            "nothing": ratio(sums_R["nothing"], sums_R["rows"]),
            "decisions": usable_R,
            "narrow": sums_R["rows"] - usable_R,
        }

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return where relevance has no order, and why the table shows retention."""
        rows = [row for row in scored if row.measurement.ok]
        notes = {
            f"{row.measurement.identity['explainer']}: in {flat:,} decisions all words of a side "
            "are as relevant; half of each is kept (by pi the share metric.soft.retention)."
            for row in rows
            if (flat := row.measurement.facts.of_metric["flat"])
        }
        # Of a single row there is nothing to compare.
        if len(rows) > 1:
            notes.add(
                "Soft-NS and Soft-NC both rise where most words score high, whatever their order: "
                "Soft-NS keeps more then, and Soft-NC takes more away (kept %). Compare explainers "
                "by the pi columns."
            )
        return sorted(notes)


def sums_of(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the numbers of each decision, 0 where no word makes a difference, (N,).

    Args:
        columns: of the table `softly_erased`.
    """
    nothing_N = columns["nothing"].astype(np.float64)
    usable_N = nothing_N >= NARROW
    # A decision that hardly needs words would divide by almost nothing; it counts as 0 below.
    divisor_N1 = np.where(usable_N, nothing_N, 1.0)[:, None]
    numbers = {"nothing": nothing_N, "usable": usable_N}
    for kind, name in RESULTS.items():
        share_NR = columns[kind] / divisor_N1
        if kind in ("kept", "level_kept"):
            # A draw may move a distribution farther than having no word at all does.
            share_NR = np.maximum(0.0, 1 - share_NR)
        numbers[name] = share_NR.mean(axis=1) * usable_N
    numbers["retention"] = columns["retention"] * usable_N
    return numbers
