"""Accuracy on contrastive test sets as a metric (Voita et al. 2019, Müller et al. 2018)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xnmt_bench.corpora.suites.contrastive.group import ContrastiveSet, to_lines
from xnmt_bench.corpora.suites.contrastive.published import read_groups
from xnmt_bench.corpora.suites.contrastive.reading import BUILT, OWN, find_sets, require_pair
from xnmt_bench.errors import ConfigError, DataError, XnmtError
from xnmt_bench.measuring.listing import Listing
from xnmt_bench.measuring.measurement import Measurement, PlannedRow, ScoredRow
from xnmt_bench.measuring.metric import (
    Column,
    Further,
    Key,
    PivotValue,
    SumMetric,
    TableRow,
    count,
    hundredths,
    ratio,
)
from xnmt_bench.measuring.units import Bounds
from xnmt_bench.metrics.contrastive.curve import curve_figure
from xnmt_bench.metrics.contrastive.groups import listings
from xnmt_bench.metrics.contrastive.measured_set import MeasuredSet, Options, Scores
from xnmt_bench.nmt.comparing import ALL, Ties, compare, part_order, parts
from xnmt_bench.options import Text
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.store import fingerprint, write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)
CHANCE = "chance"


class Contrastive(SumMetric):
    """How often a system gives the true translation a better score than every variant.

    A unit is a source with its context, since its groups depend on each other; its sums are of
    groups, of right ones, and of what chance gives.

    Args:
        sets: `corpus` (the corpus's own), `voita`, `contrapro`, `disc_eval_mt`, `build` (made from
            the corpus's test documents), or paths of files, behind their languages where a file
            does not say them: `en-fr:FILE`.
        data: the folder that holds `voita/`, `contrapro/` and `disc_eval_mt/`.
        groups: a file with the numbers of the groups that are compared, one a line, of one set.
        lowercase: the sets are read in small letters.
        normalise: a score is the mean over the variant's ids, not their sum.
        ties: `wrong`, or `first`: of the best variants the first one is chosen.
        exchanged: the table of forms that `build` exchanges; this project's own for the target
            language, if not given.
    """

    name = "contrastive"
    papers = ("muller2018", "voita2019")
    setting_options = ()
    inputs = ("scores",)
    needs = "contrastive sets (metric.contrastive.sets)"
    title = "Contrastive test sets: accuracy in %"
    note = (
        "Share of the groups whose true translation has a strictly better score than every "
        "variant, with its 95 % bootstrap interval over sources; higher is better. Distance: "
        "sentences back to what decides. Chance: the mean of 1/n over groups of n variants."
    )
    keys = (Key("part", "part"),)
    unit_bounds: ClassVar[Mapping[str, Bounds]] = {
        "rows": Bounds(1),
        "right": Bounds(0, 1, of="rows"),
        "chance": Bounds(0, 1, of="rows"),
    }
    columns = (
        Column.higher("accuracy", "accuracy %", hundredths).means(
            "share of the groups in which the true variant has the greatest score"
        ),
        Column("chance", "chance %", hundredths, shown=False),
        Column("groups", "groups", count, shown=False),
    )
    compared = "nmt"
    pivot = "part"

    def __init__(
        self,
        sets: Sequence[Text] = (OWN,),
        data: Text | None = None,
        groups: Text | None = None,
        lowercase: bool = False,
        normalise: bool = False,
        ties: Ties = "wrong",
        exchanged: Text | None = None,
    ) -> None:
        # An empty list is valid to the schema, and would give an empty table without a word.
        if not sets:
            raise XnmtError("metric.contrastive.sets: name at least one set")
        self.sets, self.data = tuple(sets), data
        self.options = Options(normalise, lowercase, ties, groups)
        self.exchanged = exchanged

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield each set's accuracy, whole and by its parts, and that of chance.

        Raises:
            DataError: a set is not in its format.
            XnmtError: it is of another language pair, or there is nothing to compare.
            ConfigError: means over ids are wanted of a file's scores, whose ids are not known.
        """
        if job.input_file("scores") is not None and self.options.normalise:
            problem = "a file of scores has no ids to take means over; set normalise=false"
            raise ConfigError([f"metric.contrastive.normalise: {problem}"])
        sets = [contrastive_set for name in self.sets for contrastive_set in self._sets(job, name)]
        if self.options.groups is not None and len(sets) > 1:
            named = ", ".join(contrastive_set.name for contrastive_set in sets)
            raise ConfigError(
                [f"metric.contrastive.groups is of one set, but several are measured: {named}"]
            )
        # One object for all sets, since a file of scores is cut by the sizes of all of them.
        every = Scores(job, sets, self.options.normalise)
        for number, contrastive_set in enumerate(sets):
            comparison = compare(contrastive_set, self.options.ties)
            if comparison.emptied:
                log.warning(
                    "%s: groups %s have only the true variant and are left out",
                    contrastive_set.name,
                    ", ".join(map(str, comparison.emptied)),
                )
            measured = MeasuredSet(comparison, every, number, self.options)
            where = {
                "corpus": self.options.named(contrastive_set.name),
                "lang_pair": contrastive_set.lang_pair,
            }
            for part, member_G in parts(comparison.groups):
                identity: dict[str, Any] = where | {"part": part}
                content = {"set": comparison.contrastive_set.fingerprint}
                make = partial(measured.evidence, member_G)
                further = partial(_further, measured, content)
                yield self.plan(job, make, measured.stages, further, of_corpus=False, **identity)
                by_chance = partial(measured.chance, member_G)
                chance_identity = identity | {"nmt": CHANCE}
                # Each part has its chance: sets have unlike numbers of variants.
                yield PlannedRow.without_system(chance_identity, by_chance, content, blind=True)

    def _sets(self, job: Job, name: str) -> list[ContrastiveSet]:
        """Return the sets of one name, in the form that is compared."""
        sets = find_sets([name], job.corpus, EVALUATED, self.data, self.exchanged)
        if name == BUILT and not job.settings.dry_run:  # others may want them too
            # The content too: another test set may have the same name.
            digest = fingerprint({"sets": [each.fingerprint for each in sets]})[:6]
            file_name = f"{job.corpus.name}-{digest}.jsonl"
            path = job.settings.results_folder / self.name / file_name
            write_atomically(path, to_lines(sets))
            group_count = sum(len(contrastive_set.groups) for contrastive_set in sets)
            log.info(
                "%s: %d contrastive groups are written to %s", job.corpus.name, group_count, path
            )
        if job.input_file("scores") is None:  # a file of scores may be of any system
            for contrastive_set in sets:
                require_pair(contrastive_set, job.corpus)
        if self.options.groups is not None:
            sets = [_chosen(contrastive_set, Path(self.options.groups)) for contrastive_set in sets]
        return (
            # Lower-cased behind the choice of groups, whose numbers are those of the set as
            # published.
            [contrastive_set.map(str.lower, str.lower) for contrastive_set in sets]
            if self.options.lowercase
            else sets
        )

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return shares of the groups."""
        groups_R = sums_R["rows"]
        return {
            "accuracy": ratio(sums_R["right"], groups_R),
            "chance": ratio(sums_R["chance"], groups_R),
            "groups": groups_R,
        }

    def pivot_value(self, measurement: Measurement) -> PivotValue:
        """Return how tables show a part: the whole set first, then distances and pronouns.

        Lines are sorted by the whole set.
        """
        part = measurement.identity["part"]
        # Parts are small and noisy, so that they never order the lines.
        return PivotValue(_heading(part), list(part_order(part)), precedence=int(part == ALL))

    def about_system(self, row: TableRow) -> str | None:
        """Return the accuracy, which other tables of the system show under them, with its BLEU."""
        if row["status"] != "ok" or row["part"] != ALL:
            return None
        accuracy = self.headline.form(row[self.headline.name])
        return f"accuracy {accuracy} % on the contrastive set {row['corpus']}"

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return how many groups each part has, and which systems do not read a set's context."""
        sizes: dict[str, dict[str, str]] = {}
        notes: list[str] = []
        for scored_row in (s for s in scored if s.measurement.ok):
            row, facts = scored_row.row, scored_row.measurement.facts
            if facts.blind:
                where = f"{row['corpus']} {row['lang_pair']}"
                # Read off the rows of chance, of which each part has just one.
                sizes.setdefault(where, {})[row["part"]] = count(row["groups"])
            elif row["part"] == ALL:
                notes += [
                    f"{row['corpus']} {row['nmt']}: {text}." for text in facts.of_metric["told"]
                ]
        for where, by_part in sizes.items():
            part_sizes = (f"{_heading(p)}: {by_part[p]}" for p in sorted(by_part, key=part_order))
            notes.append(f"Groups of {where}: {'; '.join(part_sizes)}.")
        # Seeds of one system give the same note.
        return list(dict.fromkeys(notes))

    def listings(self, measurements: Sequence[Measurement]) -> Iterator[Listing]:
        """Yield the groups of each set and system."""
        return listings(measurements, self.identity)

    def figures(self, measurements: Sequence[Measurement]) -> Iterator[tuple[str, Figure]]:
        """Yield the curve of each system that contrastive accuracy stopped, by epoch."""
        curves = {
            # Rows of all parts carry the curve of their system, which is drawn once.
            f"{m.identity['nmt']} {m.model[:6]}": m.facts.of_metric["curve"]
            for m in measurements
            if m.facts.of_metric.get("curve")
        }
        for name, curve in curves.items():
            yield f"training_{name.replace(' ', '_')}", curve_figure(name, curve)


def _heading(part: str) -> str:
    """Return a part's heading."""
    return "total" if part == ALL else part


def _chosen(contrastive_set: ContrastiveSet, path: Path) -> ContrastiveSet:
    numbers = read_groups(path)
    if not numbers:
        raise DataError(path, None, "the file lists no group")
    # By their numbers in the published set, as the page and `groups.parquet` name them.
    index_of = {contrastive_set.number(n): n for n in range(len(contrastive_set.groups))}
    if lacking := [number for number in numbers if number not in index_of]:
        problem = f"{contrastive_set.name} has no group {lacking[0]}, among {len(index_of)}"
        raise XnmtError(f"{path}: {problem}")
    return contrastive_set.taken([index_of[number] for number in numbers])


def _further(measured: MeasuredSet, content: Mapping[str, str]) -> Further:
    """Return what a set adds to its rows."""
    return Further(content=content, facts={"doubts": measured.doubts})
