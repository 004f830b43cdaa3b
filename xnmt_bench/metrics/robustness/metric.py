"""Robustness as a metric: its rows, its results, its figure, and the notes under its table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar

import numpy as np
from matplotlib.figure import Figure

from xnmt_bench.measuring.alike import family
from xnmt_bench.measuring.measurement import (
    Evidence,
    Measurement,
    PlannedRow,
    ScoredRow,
)
from xnmt_bench.measuring.metric import SYSTEM, Column, Key, SumMetric, count, hundredths, ratio
from xnmt_bench.measuring.sentence_sums import evidence_of_sentences, sum_by_sentence
from xnmt_bench.measuring.units import Bounds
from xnmt_bench.metrics.robustness.changes import group_weights, move_embeddings, permute_weights
from xnmt_bench.metrics.robustness.comparing import compare_order, distances
from xnmt_bench.metrics.robustness.figure import DEPTHS, at_depth, draw_depths
from xnmt_bench.options import Count, Few, Positive, Seed
from xnmt_bench.pipeline.explained import EVALUATED, Relevances
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.extract import TEACHER_FORCING
from xnmt_bench.rules.table import RULE_SIDES
from xnmt_bench.store import Stage

three_digits = "{:.3f}".format


class Robustness(SumMetric):
    """How far explanations move with a little noise, and what is left of them without the weights.

    Labels stay those of the unchanged system. A unit is a sentence; its sums are over its
    decisions.

    Args:
        samples: noises of the embeddings, of which the worst counts.
        radius: the greatest noise of a dimension, as a share of the root mean square of the
            embeddings.
        depths: how many parts of the weights are permuted, from the output down, the last of which
            is all of them; fewer where the system has fewer groups of weights.
        sentences: of the test set, from the first; fewer where fewer are explained.
        draws: seed of noise and permutations, the same for every explainer.
    """

    of_words = False
    name = "robustness"
    papers = ("adebayo2018", "yeh2019")
    setting_options = ("samples", "radius", "draws")
    title = "Robustness: explanations under noise, and of a system whose weights are permuted"
    note = (
        "Order kept: Spearman's correlation of relevance with that of a system whose weights are "
        "permuted, each matrix within itself, for the same labels (Adebayo et al. 2018). 1 is an "
        "explanation that does not depend on what the system has learnt; 0 is the best, and below "
        "0 is no better. Same first word: how "
        "often the most relevant word stays the most relevant. Sensitivity: how far relevance "
        "moves, as a share of its norm, with the worst of some small noises on the embeddings (Yeh "
        "et al. 2019). With 95 % bootstrap intervals over sentences."
    )
    keys = (Key("explainer", "explainer"), Key("seed", "seed"))
    unit_bounds: ClassVar[Mapping[str, Bounds]] = {
        "rows": Bounds(1),
        "of *": Bounds(0, 1, of="rows"),
        "moved": Bounds(0),
        "rank *": Bounds(-1, 1, of="of rank *"),
        "top *": Bounds(0, 1, of="of top *"),
        "chance *": Bounds(0, 1, of="of chance *"),
    }
    columns = (
        *Column.lower("rank_{}", "order kept, {}", three_digits, best=0.0)
        .means("correlation of {} words' ranks with those under permuted weights")
        .of_each(RULE_SIDES),
        *Column.lower("top_{}", "same first {} word %", hundredths)
        .means("share of decisions whose most relevant {} word stays the same")
        .of_each(RULE_SIDES),
        Column.lower("sensitivity", "sensitivity", three_digits).means(
            "distance that small noise moves relevance, over the norm of relevance"
        ),
        *Column("chance_{}", "by chance {} %", hundredths, shown=False).of_each(RULE_SIDES),
        *Column("ordered_{}", "decisions, {}", count, shown=False).of_each(RULE_SIDES),
        Column("decisions", "decisions", count, shown=False),
        Column("silent", "decisions without relevance", count, shown=False),
    )

    def __init__(
        self,
        samples: Few = 5,
        radius: Positive = 0.05,
        depths: Few = 6,
        sentences: Count = 50,
        draws: Seed = 0,
    ) -> None:
        self.samples, self.radius, self.depths = samples, radius, depths
        self.sentences, self.draws = sentences, draws

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield the explainer's row."""
        make, stages = partial(self._evidence, job), partial(self._stages, job)
        yield self.plan(job, make, stages, explained=True)

    def _stages(self, job: Job) -> list[Stage | None]:
        sentences = job.explained.decisions.count(EVALUATED, self.sentences)
        moved, permuted = self._move(job, sentences), self._permute(job, sentences)
        needed = [job.relevance(TEACHER_FORCING), *moved, *permuted.values()]
        return [relevances.source for relevances in needed]

    def _evidence(self, job: Job) -> Evidence:
        sentences = job.explained.decisions.count(EVALUATED, self.sentences)
        reference, split = job.relevance(TEACHER_FORCING), job.texts.split(EVALUATED)
        moved, permuted = self._move(job, sentences), self._permute(job, sentences)

        def compute() -> Iterator[tuple[int, dict[str, np.ndarray]]]:
            # The changed systems' relevance is of the first sentences only.
            for under_noise, under_others, unchanged in zip(
                zip(*moved, strict=True),
                zip(*permuted.values(), strict=True),
                reference,
                strict=False,
            ):
                ids = split.ids(unchanged.number)
                columns = {"moved": distances(unchanged, under_noise, *ids)}
                for depth, other in enumerate(under_others):
                    compared = compare_order(unchanged, other, *ids)
                    columns |= {at_depth(name, depth): x_N for name, x_N in compared.items()}
                # Each number has a count of its own, since NaN means a missing one.
                counts = {f"of {name}": ~np.isnan(x_N) for name, x_N in columns.items()}
                numbers = {name: np.nan_to_num(x_N) for name, x_N in columns.items()}
                yield unchanged.number, numbers | counts

        # No more depths than there are groups of weights.
        settings = {"depths": len(permuted)}
        made_by = {"reference": reference.fingerprint}
        made_by |= {f"noise {i}": relevances.fingerprint for i, relevances in enumerate(moved)}
        made_by |= {
            f"permuted {name}": relevances.fingerprint for name, relevances in permuted.items()
        }
        sums = sum_by_sentence(compute())
        return evidence_of_sentences(job, *sums, made_by, settings, {DEPTHS: [*permuted]})

    def _move(self, job: Job, sentences: int) -> list[Relevances]:
        """Return relevance under each noise."""
        return [
            job.explained.relevance_of_changed(
                partial(move_embeddings, radius=self.radius, seeds=[self.draws, sample]),
                sentences,
                noise=[self.draws, sample],
                radius=self.radius,
            )
            for sample in range(self.samples)
        ]

    def _permute(self, job: Job, sentences: int) -> dict[str, Relevances]:
        """Return relevance with weights permuted, by the last group that is."""
        groups = group_weights(job.system.model)
        order, by_group = [*groups], {}
        # Counted down, so that one depth is that of all weights.
        ends = np.linspace(len(groups), 1, min(self.depths, len(groups))).round().astype(int)
        for end in sorted(set(ends.tolist())):
            names = [name for group in order[:end] for name in groups[group]]
            by_group[order[end - 1]] = job.explained.relevance_of_changed(
                partial(permute_weights, names=frozenset(names), seed=self.draws),
                sentences,
                permuted=names,
                seed=self.draws,
            )
        return by_group

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return means over the decisions where each number is known."""
        # The deepest: all weights are permuted there, and nothing learnt is left.
        depth = max(int(name.rpartition(" ")[2]) for name in sums_R if name.startswith("rank"))
        results = {
            "sensitivity": ratio(sums_R["moved"], sums_R["of moved"]),
            "decisions": sums_R["rows"],
            "silent": sums_R["rows"] - sums_R["of moved"],
        }
        for side in RULE_SIDES:
            for name in ("rank", "top", "chance"):
                column = at_depth(f"{name} {side}", depth)
                results[f"{name}_{side}"] = ratio(sums_R[column], sums_R[f"of {column}"])
            # How many decisions the correlation is of, since equal scores leave some out.
            results[f"ordered_{side}"] = sums_R[f"of {at_depth(f'rank {side}', depth)}"]
        return results

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return what chance gives, and what blind explainers show of the numbers."""
        rows = [s for s in scored if s.measurement.ok and not s.measurement.facts.alters]
        blind = sorted(
            {r.measurement.identity["explainer"] for r in rows if r.measurement.facts.blind}
        )
        notes = _chances(rows)
        if blind:
            notes.append(
                f"{', '.join(blind)}: never ask the system, so noise does not move them and "
                "permuted weights change nothing. The least sensitivity is no merit, then. Order "
                "kept finds them, but an explainer that draws its words by a hash of the weights "
                "would keep none: a low number does not make an explanation right."
            )
        return notes

    def figures(self, measurements: Sequence[Measurement]) -> Iterator[tuple[str, Figure]]:
        """Yield the order kept by depth of each system."""
        groups: dict[tuple[str, ...], list[Measurement]] = {}
        for m in measurements:
            if m.ok and not m.facts.alters:
                # Lines of one figure share their axis of depths.
                settings = {**m.settings, DEPTHS: m.facts.of_metric[DEPTHS]}
                system = (*(m.identity[c] for c in SYSTEM), family(m))
                groups.setdefault((*system, json.dumps(settings)), []).append(m)
        if groups:
            yield f"{self.name}_depths", draw_depths(list(groups.values()))


def _chances(rows: Sequence[ScoredRow]) -> list[str]:
    """Return how often a drawn word would be the same first word, a sentence for each system."""
    notes = []
    by_system: dict[tuple[str, ...], list[ScoredRow]] = {}
    for row in rows:
        by_system.setdefault(tuple(row.row[c] for c in SYSTEM), []).append(row)
    for (corpus, _, nmt), members in sorted(by_system.items()):
        # Of the row whose words are ordered in the most decisions; ties leave some out.
        fullest = max(members, key=lambda row: row.values["ordered_source"]).values
        chances = [
            f"{hundredths(fullest[f'chance_{side}'])} % ({side})"
            for side in RULE_SIDES
            if not np.isnan(fullest[f"chance_{side}"])
        ]
        if chances:
            text = " and ".join(chances)
            notes.append(f"{corpus} {nmt}: a drawn word would be the same first word in {text}.")
    return notes
