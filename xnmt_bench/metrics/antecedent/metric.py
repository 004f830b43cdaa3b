"""Weights on antecedents and right decisions, as a metric (Dinarelli et al. 2024, section 6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from xnmt_bench.corpora.suites.contrastive.group import ContrastiveSet
from xnmt_bench.corpora.suites.contrastive.reading import as_read, find_sets
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.measuring.measurement import EXPLAINED, Evidence, PlannedRow
from xnmt_bench.measuring.metric import Column, Further, Key, Metric, count, hundredths, ratio
from xnmt_bench.measuring.units import Bounds, Units, by_unit, side_by_side
from xnmt_bench.metrics.antecedent.logistic import slope
from xnmt_bench.metrics.antecedent.weights import AntecedentWeights
from xnmt_bench.nmt.comparing import compare, parts
from xnmt_bench.options import Text
from xnmt_bench.parquet import read_table, write_table
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.texts import name_sentences
from xnmt_bench.rules.extract import GOLDEN
from xnmt_bench.store import Stage

SUMS = ("rows", "right", "looked", "looked_right")
WEIGHT, RIGHT = "weight_", "right_"  # of a unit's first decision, its second, ...


class AntecedentWeight(Metric):
    """Whether a system decides right where an explainer says that it looked at the antecedent.

    A unit is a source with its context; its sums are of decisions, by whether the antecedent has a
    significant weight and whether they are right; each decision's weight is stored with them.

    Args:
        set: `corpus`, or the path of a contrastive set whose antecedents are annotated, such as
            ContraPro's `contrapro.json`.
        data: the folder of published sets.
    """

    name = "antecedent"
    papers = ("dinarelli2024",)
    setting_options = ()
    needs = "a contrastive set with annotated antecedents (metric.antecedent.set)"
    reads_relevance = True
    title = "Weight of the antecedent, and right decisions"
    note = (
        "Accuracy on the groups of a contrastive set where the antecedent's words have a "
        "significant weight for the pronoun (looking) and where they have none (not looking); "
        "difference in points; slope: of the log-odds of a right decision in the antecedent's "
        "weight from 0 to 1 (logistic regression). With 95 % bootstrap intervals over sources. "
        "Antecedents beyond what the system reads are left out."
    )
    keys = (Key("part", "part", usual="all"), Key("explainer", "explainer"), Key("seed", "seed"))
    unit_bounds: ClassVar[Mapping[str, Bounds]] = {
        "rows": Bounds(1),
        "right": Bounds(0, 1, of="rows"),
        "looked": Bounds(0, 1, of="rows"),
        "looked_right": Bounds(0, 1, of="looked"),
        # A unit may have fewer decisions than another.
        f"{WEIGHT}*": Bounds(0, 1, nan=True),
        f"{RIGHT}*": Bounds(0, 1, nan=True),
    }
    columns = (
        Column.higher("difference", "difference", "{:+.1f}".format).means(
            "accuracy with a significant weight on the antecedent, less without"
        ),
        Column("looking", "accuracy % looking", hundredths).means(
            "share of right decisions where the antecedent has a significant weight"
        ),
        Column("not_looking", "not looking", hundredths).means(
            "share of right decisions where it has none"
        ),
        Column("looked", "looking %", hundredths).means(
            "share of the groups whose antecedent has a significant weight"
        ),
        Column.higher("slope", "slope", "{:+.2f}".format).means(
            "log-odds of a right decision at weight 1, less at weight 0"
        ),
        Column("groups", "groups", count).means("groups that were measured"),
    )

    def __init__(self, set: Text = "corpus", data: Text | None = None) -> None:
        self.set, self.data = set, data

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield a row for the whole, and one for each distance and pronoun."""
        sets = find_sets([self.set], job.corpus, EVALUATED, self.data)
        annotated = [
            contrastive_set
            for contrastive_set in sets
            if any(group.antecedent for group in contrastive_set.groups)
        ]
        # A name may mean several sets, some without antecedents; one with them will do.
        if not annotated:
            raise XnmtError(
                f"metric.antecedent.set={self.set}: the set has no annotated antecedents"
            )
        for contrastive_set in annotated:
            measured = MeasuredSet(job, contrastive_set)
            where: dict[str, Any] = {
                "corpus": contrastive_set.name,
                "lang_pair": contrastive_set.lang_pair,
            }
            for part, member_G in parts(contrastive_set.groups):
                make = partial(measured.evidence, member_G)
                further = partial(_further, measured)
                yield self.plan(
                    job, make, measured.stages, further, True, of_corpus=False, **where, part=part
                )

    def score(self, units: Units, weights_RU: np.ndarray) -> Mapping[str, np.ndarray]:
        """Return accuracy where the explainer looks and where not, and the slope; see `note`."""
        # Sums decide all but the slope, which needs each decision; so `SumMetric` is not enough.
        sums = {name: weights_RU @ units[name] for name in SUMS}
        looked, right = sums["looked"], sums["looked_right"]
        looking = ratio(right, looked)
        not_looking = ratio(sums["right"] - right, sums["rows"] - looked)
        numbers = range(sum(name.startswith(WEIGHT) for name in units.columns))
        weight_MU, right_MU = (
            np.stack([units[f"{name}{n}"] for n in numbers]) for name in (WEIGHT, RIGHT)
        )
        # Decisions of one unit are drawn together: they share its weight in each sample.
        place_D, unit_D = np.nonzero(~np.isnan(weight_MU))
        decisions = weight_MU[place_D, unit_D], right_MU[place_D, unit_D]
        return {
            "difference": 100 * (looking - not_looking),
            "looking": looking,
            "not_looking": not_looking,
            "looked": ratio(looked, sums["rows"]),
            "slope": slope(*decisions, weights_RU[:, unit_D]),
            "groups": sums["rows"],
        }


class MeasuredSet:
    """One set, with a system's decisions and an explainer's weights."""

    def __init__(self, job: Job, contrastive_set: ContrastiveSet) -> None:
        self._job, self._set = job, as_read(contrastive_set, job.corpus)

    def stages(self) -> list[Stage]:
        """Return the stage behind its rows."""
        return [self.made]

    @cached_property
    def weights(self) -> AntecedentWeights:
        """The explainer's weights on the antecedents."""
        return AntecedentWeights(self._job, self._set)

    @cached_property
    def made(self) -> Stage:
        """The weight of each group's antecedent.

        Raises:
            NotApplicable: no antecedent is in a sentence that the system reads.
        """
        weights = self.weights
        if not weights.placed:
            raise NotApplicable("no antecedent is in a sentence that the system reads")

        def work(folder: Path) -> None:
            weight_of_group = dict(weights.weights())
            columns = {
                "group": pa.array(list(weight_of_group), pa.int64()),
                "weight": pa.array(list(weight_of_group.values()), pa.float64()),
            }
            table = pa.table(columns)
            write_table(table, folder / "weights.parquet")

        # Golden: the true translation is what the decision is about, also where the system errs.
        relevance = self._job.relevance(GOLDEN, corpus=weights.corpus, source_alone=True)
        return self._job.store.stage(
            "antecedent",
            work,
            version=2,
            cheap=True,
            relevance=relevance,
            set=self._set.fingerprint,
        )

    def doubts(self) -> list[str]:
        """Return why the system's numbers on the set mean little, and what is left out."""
        true = (group.passages()[group.true] for group in self._set.groups)
        doubts = self._job.doubts_of([(passage.source, passage.target) for passage in true])
        if lost := self.weights.not_found:
            doubts.append(f"{lost} antecedents are not found among the words of their sentence")
        return doubts

    def evidence(self, member_G: np.ndarray) -> Evidence:
        """Return the groups of a part, by source."""
        comparison, table = compare(self._set), read_table(self.made.path / "weights.parquet")
        passages = [p for group in self._set.groups for p in group.passages()]
        # Scores are of all groups, weights of those whose antecedent was placed.
        scores_N = self._job.log_probability(passages)
        decisions = zip(
            comparison.groups_G,
            comparison.right_G(scores_N, "wrong"),
            comparison.scored_G(scores_N),
            strict=True,
        )
        right_of = {group: right for group, right, scored in decisions if scored}
        # Groups of one source share words and context, so they are drawn together.
        unit_of = dict(zip(comparison.groups_G, comparison.units_G, strict=True))
        pairs = zip(table["group"].to_pylist(), table["weight"].to_pylist(), strict=True)
        # Groups without a choice have no right decision to compare with the weight.
        rows = [(g, w) for g, w in pairs if g in right_of and member_G[g]]
        if not rows:
            raise NotApplicable(
                "no explained antecedent of this part is in a sentence that the system reads"
            )
        right = np.array([right_of[g] for g, _ in rows], dtype=np.float64)
        weight = np.array([w for _, w in rows])
        unit_G = np.array([unit_of[g] for g, _ in rows])
        unit_U, sums = by_unit(
            unit_G, right=right, looked=weight > 0, looked_right=(weight > 0) * right
        )
        sums |= side_by_side(unit_G, unit_U, {WEIGHT: weight, RIGHT: right})
        made_by = {"weights": self.made.fingerprint, "set": self._set.fingerprint}
        # Fewer may be explained than there are (rules.test_sentences).
        explained = name_sentences(np.sort(table["group"].to_numpy()))
        facts, settings = {"generated": self._set.generated}, {EXPLAINED: explained}
        return Evidence(Units(self._set.test_set, unit_U, sums), made_by, facts, settings=settings)


def _further(measured: MeasuredSet) -> Further:
    """Return what a set adds to its rows."""
    return Further(facts={"doubts": measured.doubts()})
