"""Erasure as a metric: its rows, its results, its curves, and the notes under its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from matplotlib.figure import Figure
from pydantic import Field

from xnmt_bench.corpora.vocabulary.subwords import current_span
from xnmt_bench.measuring.alike import family
from xnmt_bench.measuring.measurement import (
    Evidence,
    Measurement,
    PlannedRow,
    ScoredRow,
)
from xnmt_bench.measuring.metric import Column, Further, Key, SumMetric, count, ratio
from xnmt_bench.measuring.sentence_sums import evidence_of_sentences
from xnmt_bench.measuring.units import Bounds, by_unit
from xnmt_bench.metrics.erasure.curves import CURVES, point
from xnmt_bench.metrics.erasure.erasing import KEYS
from xnmt_bench.metrics.erasure.figure import draw_curves
from xnmt_bench.metrics.erasure.stages import bound, erase_words
from xnmt_bench.nmt.switched import Removal
from xnmt_bench.options import Count, Few, Natural, Part, Seed
from xnmt_bench.pipeline.decision_table import Columns, load_decisions
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.texts import name_sentences
from xnmt_bench.store import Stage

three_digits = "{:.3f}".format
NARROW = 0.01  # limits that differ by less leave no room for an order
SEARCHED = "greedy"  # the name of the row of the best orders that are found
SEARCH_NOTE = (
    "greedy (ceiling): the best orders that a search finds for these decisions, one for deletion "
    "and one for insertion. The search asks the model for what is measured, so it explains "
    "nothing, and an explainer that searched alike would come near it. Decisions whose limits "
    f"differ by less than {NARROW:g} have no normalised area."
)
ROUNDING = 1e-6  # of probabilities, beyond which an area is outside its limits


class Erasure(SumMetric):
    """What a label's probability loses without an explainer's words, and with only them.

    A unit is a sentence; its sums are over its decisions.

    Args:
        shares: of each side's words that are erased, or kept, most relevant first.
        removals: what an erased word is replaced by; a row for each.
        sentences: of the test set; null for all that are explained.
        curves: of these, how many have whole curves, whose areas take a row for every word.
        limited: decisions of these, drawn at random, that have areas between the limits of all
            orders. A search takes hundreds of rows for each.
        draws: seed of that draw.
        beam: chains that the search for limits keeps, where a decision sees more than 8 words.
    """

    name = "erasure"
    papers = ("deyoung2020",)
    setting_options = ("beam",)
    reads_relevance = True
    title = "Erasure: the label's probability with words taken away, and put in"
    note = (
        "Comprehensiveness: P(label) less that without the most relevant words of each side. "
        "Sufficiency: less that with these words alone. Both are means over shares of the words "
        "(DeYoung et al. 2020). Deletion and insertion: the mean of P(label) while all words are "
        "erased one after another, or put in, most relevant first. Normalised: between the worst "
        "(0) and the best (1) order of the decision's words (Edin et al. 2024). With 95 % "
        "bootstrap intervals over sentences."
    )
    keys = (
        Key("explainer", "explainer"),
        Key("removal", "removal", "removal: {}"),
        Key("seed", "seed"),
    )
    unit_bounds: ClassVar[Mapping[str, Bounds]] = {
        "rows": Bounds(1),
        "whole": Bounds(0, 1, of="rows"),
        "comprehensiveness *": Bounds(-1, 1, of="rows"),
        "sufficiency *": Bounds(-1, 1, of="rows"),
        "curve_decisions": Bounds(0, 1, of="rows"),
        # Points of a curve too.
        **{f"{name}*": Bounds(0, 1, of="curve_decisions") for name in CURVES},
        "limited_decisions": Bounds(0, 1, of="rows"),
        "narrow": Bounds(0, 1, of="rows"),
        "outside": Bounds(0, 1, of="rows"),
    }
    columns = (
        Column.higher("comprehensiveness", "comprehensiveness", three_digits).means(
            "probability that the label loses without the words named"
        ),
        Column.lower("sufficiency", "sufficiency", three_digits).means(
            "probability that the label loses where the words named stand alone"
        ),
        Column.lower("deletion", "deletion", three_digits).means(
            "mean probability of the label while words are erased, most relevant first"
        ),
        Column.higher("insertion", "insertion", three_digits).means(
            "mean probability of the label while words are put in, most relevant first"
        ),
        Column.higher("normalised_deletion", "deletion, normalised", three_digits).means(
            "deletion between the worst order of the words (0) and the best (1)"
        ),
        Column.higher("normalised_insertion", "insertion, normalised", three_digits).means(
            "insertion between the worst order of the words (0) and the best (1)"
        ),
        Column("whole", "P(label)", three_digits, shown=False).means("with all words"),
        Column("decisions", "decisions", count, shown=False),
        Column("curve_decisions", "decisions of curves", count, shown=False),
        Column("limited_decisions", "decisions between limits", count, shown=False),
        Column("narrow", "limits too near", count, shown=False),
        Column("outside", "outside the limits", count, shown=False),
    )

    def __init__(
        self,
        shares: Annotated[Sequence[Part], Field(min_length=1)] = (0.01, 0.05, 0.1, 0.2, 0.5),
        removals: Annotated[Sequence[Removal], Field(min_length=1)] = ("zero", "mean", "attention"),
        sentences: Count | None = None,
        curves: Natural = 100,
        limited: Natural = 200,
        draws: Seed = 0,
        beam: Few = 3,
    ) -> None:
        self.shares, self.removals = tuple(shares), tuple(removals)
        self.sentences, self.curves = sentences, curves
        self.limited, self.draws, self.beam = limited, draws, beam

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield the explainer's row under each removal."""
        for removal in self.removals:
            make = partial(self._evidence, job, removal)
            stages = partial(self._stages, job, removal)
            yield self.plan(job, make, stages, explained=True, removal=removal)
            # Limits are of curves, so without curves there is nothing to search.
            if min(self.limited, self.curves):
                yield self.plan(
                    job,
                    partial(self._search, job, removal),
                    partial(self._limits, job, removal),
                    partial(Further, facts={"ceiling": True}),
                    explainer=SEARCHED,
                    removal=removal,
                    seed="",
                )

    def _count(self, job: Job) -> tuple[int, int]:
        """Return how many sentences lose words, and how many of these have whole curves."""
        # The first sentences, so that a larger run holds those of a smaller one.
        sentences = job.explained.decisions.count(EVALUATED, self.sentences)
        return sentences, min(self.curves, sentences)

    def _limits(self, job: Job, removal: Removal) -> list[Stage]:
        """Return the stage of the limits, if curves have any."""
        _, curves = self._count(job)
        if not min(curves, self.limited):
            return []
        return [bound(job, curves, self.limited, self.draws, removal, self.beam)]

    def _stages(self, job: Job, removal: Removal) -> list[Stage]:
        sentences, curves = self._count(job)
        erased = erase_words(job, sentences, curves, removal, self.shares)
        return [erased, *self._limits(job, removal)]

    def _evidence(self, job: Job, removal: Removal) -> Evidence:
        """Return the sums of one explainer under one removal."""
        erased, *limits = self._stages(job, removal)
        columns, made_by = load_decisions(erased), {"erased": erased.fingerprint}
        flat = int(columns.pop("flat").sum())
        sums = {name: values for name, values in columns.items() if name not in KEYS}
        if self.curves:
            # Its own denominator: fewer decisions have a curve than lose words.
            sums["curve_decisions"] = ~np.isnan(columns["deletion"])
        for bounds in limits:
            made_by["limits"] = bounds.fingerprint
            sums |= _normalise(load_decisions(bounds), columns)
        # Columns are NaN where a decision has no curve, or no limits.
        numbers = {name: np.nan_to_num(values) for name, values in sums.items()}
        units = by_unit(columns["sentence"], **numbers)
        return evidence_of_sentences(job, *units, made_by, self._settings(job), {"flat": flat})

    def _search(self, job: Job, removal: Removal) -> Evidence:
        """Return the sums of the best orders that a search finds, the same for every explainer."""
        [bounds] = self._limits(job, removal)
        columns = load_decisions(bounds)
        lower_N, upper_N = columns["lower"], columns["upper"]
        # Between limits that are nearly equal, rounding would decide the share.
        usable_N = upper_N - lower_N >= NARROW
        units = by_unit(
            columns["sentence"],
            deletion=lower_N,
            insertion=upper_N,
            curve_decisions=np.ones(len(lower_N)),
            # By definition: it is what the others are measured by.
            normalised_deletion=usable_N,
            normalised_insertion=usable_N,
            limited_decisions=usable_N,
            narrow=~usable_N,
            outside=np.zeros(len(lower_N)),
        )
        made_by = {"limits": bounds.fingerprint}
        return evidence_of_sentences(job, *units, made_by, self._settings(job))

    def _settings(self, job: Job) -> dict[str, Any]:
        sentences, curves = self._count(job)
        split = job.texts.split(EVALUATED)
        # Of all that lose words; the best orders were searched for fewer of them.
        number_U = split.number[:sentences]
        decisions = sum(len(range(*current_span(split.target[i]))) for i in range(curves))
        return {
            "test sentences": name_sentences(np.sort(number_U)),
            "shares": ", ".join(f"{share:g}" for share in self.shares),
            "sentences with curves": curves,
            "decisions with limits": drawn_of(self.limited, decisions, self.draws),
        }

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return means over decisions, and over the shares of words."""
        decisions_R = sums_R["rows"]
        results = {"decisions": decisions_R}
        if "whole" in sums_R:
            results["whole"] = ratio(sums_R["whole"], decisions_R)
        for name in ("comprehensiveness", "sufficiency"):
            # One number for all shares, as ERASER's is over its bins.
            columns = [column for column in sums_R if column.startswith(f"{name} ")]
            if by_share := [ratio(sums_R[column], decisions_R) for column in columns]:
                results[name] = np.mean(by_share, axis=0)
        if "curve_decisions" in sums_R:
            results["curve_decisions"] = sums_R["curve_decisions"]
            for name in CURVES:
                results[name] = ratio(sums_R[name], sums_R["curve_decisions"])
        if "limited_decisions" in sums_R:
            for name in ("limited_decisions", "narrow", "outside"):
                results[name] = sums_R[name]
            for name in CURVES:
                column = f"normalised_{name}"
                results[column] = ratio(sums_R[column], sums_R["limited_decisions"])
        return results

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return where relevance has no order, and what the best orders reach."""
        rows = [row for row in scored if row.measurement.ok]
        without_order = {
            f"{row.measurement.identity['explainer']}: in {flat:,} decisions all words of a side "
            "are as relevant; their order is that of the sentence."
            for row in rows
            if (flat := row.measurement.facts.of_metric.get("flat"))
        }
        searched = {
            f"Normalised areas are of {row.measurement.settings['decisions with limits']}."
            for row in rows
            if row.measurement.facts.ceiling
        }
        return sorted(without_order) + sorted(searched) + [SEARCH_NOTE] * bool(searched)

    def figures(self, measurements: Sequence[Measurement]) -> Iterator[tuple[str, Figure]]:
        """Yield the curves of each system and removal."""
        groups: dict[tuple[str, str, str, str], list[Measurement]] = {}
        for m in measurements:
            if m.ok and point("deletion", 0.0) in m.units().columns:
                names = [m.identity[name] for name in ("corpus", "nmt", "removal")]
                # Axes for each removal: what replaces a word changes every curve. Systems
                # of one name, or other test sentences, are not seeds of one another.
                apart = f"{family(m)[:6]} {m.settings.get('test sentences', '')}"
                groups.setdefault((*names, apart), []).append(m)
        if groups:
            yield f"{self.name}_curves", draw_curves(groups)


def drawn_of(limited: int, decisions: int, draws: int) -> str:
    """Return how many decisions are drawn of how many, and by which seed."""
    if not min(limited, decisions):
        return "none"
    if limited >= decisions:
        return f"all {decisions:,} decisions with curves"
    return f"{limited:,} of {decisions:,} decisions with curves, drawn at random (seed {draws})"


def _by_decision(columns: Columns) -> Iterator[tuple[int, ...]]:
    return zip(*(columns[name].tolist() for name in KEYS), strict=True)


def _normalise(bounds: Columns, columns: Columns) -> Columns:
    """Return areas between their limits, NaN where there are none, (N,)."""
    row_of = {key: row for row, key in enumerate(_by_decision(columns))}
    # By sentence and step, since limits are of fewer decisions and in an order of their own.
    rows = [row_of[key] for key in _by_decision(bounds)]
    lower_N, upper_N = (np.full(len(columns["step"]), np.nan) for _ in range(2))
    lower_N[rows], upper_N[rows] = bounds["lower"], bounds["upper"]
    narrow_N = upper_N - lower_N < NARROW  # False without limits
    usable_N = ~np.isnan(lower_N) & ~narrow_N
    lower_N, upper_N = (np.where(usable_N, x_N, np.nan) for x_N in (lower_N, upper_N))
    areas = {
        # Of deletion the least area is the best.
        "normalised_deletion": (upper_N - columns["deletion"]) / (upper_N - lower_N),
        "normalised_insertion": (columns["insertion"] - lower_N) / (upper_N - lower_N),
    }
    outside_N = np.any([(x < -ROUNDING) | (x > 1 + ROUNDING) for x in areas.values()], axis=0)
    return areas | {
        "limited_decisions": usable_N,
        "narrow": narrow_N,
        "outside": outside_N,
    }
