"""Accuracy on contrastive test sets as a metric (Voita et al. 2019, Müller et al. 2018)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xnmt_bench.corpora.contrastive import (
    BUILT,
    OWN,
    ContrastiveSet,
    find_sets,
    read_groups,
    to_lines,
)
from xnmt_bench.corpora.sentence import lang_pair, languages
from xnmt_bench.errors import XnmtError
from xnmt_bench.metrics.contrastive.curve import curve_figure
from xnmt_bench.metrics.contrastive.groups import (
    ALL,
    Compared,
    Ties,
    compared,
    part_order,
    parts,
)
from xnmt_bench.metrics.measurement import BLIND, Evidence, Measurement, Planned, Scored
from xnmt_bench.metrics.metric import Column, Key, Row, SumMetric, count, hundredths, ratio
from xnmt_bench.metrics.units import Units, by_unit
from xnmt_bench.options import Text
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.store import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)
CHANCE = "chance"


class Contrastive(SumMetric):
    """How often a system gives the true translation a better score than every variant.

    A unit is a source with its context, since its groups depend on each other; its sums are of
    groups, of right ones, and of what chance gives.

    Args:
        sets: `corpus` (the corpus's own), `voita`, `contrapro`, `build` (made from the corpus's
            test documents), or paths of files.
        data: the folder that holds `voita/` and `contrapro/`.
        groups: a file with the numbers of the groups that are compared, one a line, of one set.
        lowercase: the sets are read in small letters.
        normalise: a score is the mean over the variant's ids, not their sum.
        ties: `wrong`, or `first`: of the best variants the first one is chosen.
        exchanged: the table of forms that `build` exchanges; this project's own for the target
            language, if not given.
    """

    name = "contrastive"
    title = "Contrastive test sets: accuracy in %"
    note = (
        "Share of the groups whose true translation has a strictly better score than every "
        "variant, with its 95 % bootstrap interval over sources; higher is better. Distance: "
        "sentences back to what decides. Chance: the mean of 1/n over groups of n variants."
    )
    keys = (Key("part", "part"),)
    columns = (
        Column("accuracy", "accuracy %", hundredths, "higher", interval=True),
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
        if not sets:
            raise XnmtError("metric.contrastive.sets: name a set, or there is nothing to compare")
        self.sets, self.data, self.groups = tuple(sets), data, groups
        self.lowercase, self.normalise, self.ties = lowercase, normalise, ties
        self.exchanged = exchanged

    def measured_from_files(self, job: Job) -> bool:
        """Scores of somebody else's need no model."""
        return job.door("scores") is not None

    def measure(self, job: Job) -> Iterator[Planned]:
        """Each set's accuracy, whole and by its parts, and that of chance.

        Raises:
            DataError: a set is not in its format.
            XnmtError: it is of another language pair, or there is nothing to compare.
        """
        sets = [one for name in self.sets for one in self._sets(job, name)]
        every = Scores(job, sets, self.normalise)
        for number, one in enumerate(sets):
            what = compared(one, self.ties)
            if what.emptied:
                log.warning(
                    "%s: groups %s have no variant but the true one and are left out",
                    one.name, ", ".join(map(str, what.emptied)),
                )  # fmt: skip
            measured = Measured(what, every, number, self)
            where = {"corpus": one.name, "lang_pair": one.lang_pair}
            for part, member_G in parts(what.groups):
                identity: dict[str, Any] = where | {"part": part}
                yield self.plan(job, partial(measured.evidence, member_G), **identity)
                by_chance = partial(measured.chance, member_G)
                yield Planned(identity | {"nmt": CHANCE}, "", by_chance, {BLIND: True})

    def _sets(self, job: Job, name: str) -> list[ContrastiveSet]:
        """Those of one name, as they are compared."""
        sets = find_sets([name], job.corpus, EVALUATED, self.data, self.exchanged)
        if name == BUILT:  # others may want them too
            path = Path(job.config.results) / self.name / f"{job.corpus.name}.jsonl"
            write_atomically(path, to_lines(sets))
            made = sum(len(one.groups) for one in sets)
            log.info("%s: %d contrastive groups are made, in %s", job.corpus.name, made, path)
        other = {one.lang_pair for one in sets} - {lang_pair(job.corpus)}
        if other and job.door("scores") is None:
            own = lang_pair(job.corpus)
            raise XnmtError(f"contrastive set {name} is {min(other)}, the system's corpus {own}")
        if self.groups is not None:
            sets = [_chosen(one, Path(self.groups)) for one in sets]
        return [one.map(str.lower, str.lower) for one in sets] if self.lowercase else sets

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Shares of the groups."""
        groups_R = sums_R["rows"]
        return {
            "accuracy": ratio(sums_R["right"], groups_R),
            "chance": ratio(sums_R["chance"], groups_R),
            "groups": groups_R,
        }

    def heading(self, value: str) -> str:
        """A part, as the table's columns say it."""
        return "total" if value == ALL else value

    def pivot_order(self, value: str) -> tuple[Any, ...]:
        """All, the distances, then the pronouns."""
        return part_order(value)

    def ranking(self, by_pivot: Mapping[str, float]) -> float:
        """By the whole set."""
        return by_pivot.get(ALL, min(by_pivot.values()))

    def about_system(self, row: Row) -> str | None:
        """Its accuracy stands under other tables of the system, beside its BLEU."""
        if row["status"] != "ok" or row["part"] != ALL:
            return None
        accuracy = self.headline.form(row[self.headline.name])
        return f"accuracy {accuracy} % on the contrastive set {row['corpus']}"

    def notes(self, scored: Sequence[Scored]) -> list[str]:
        """How many groups each part has, and which systems do not read a set's context."""
        sizes: dict[str, dict[str, str]] = {}
        found: list[str] = []
        for one in (s for s in scored if s.measurement.ok):
            row, facts = one.row, one.measurement.facts
            if facts.get(BLIND):
                size = f"{count(row['groups'])} ({hundredths(row['chance'])} % by chance)"
                sizes.setdefault(f"{row['corpus']} {row['lang_pair']}", {})[row["part"]] = size
            elif row["part"] == ALL:
                found += [f"{row['corpus']} {row['nmt']}: {text}." for text in facts["told"]]
        for where, by_part in sizes.items():
            told = (f"{self.heading(p)} {by_part[p]}" for p in sorted(by_part, key=part_order))
            found.append(f"{where}: groups {', '.join(told)}.")
        return list(dict.fromkeys(found))

    def figures(self, measurements: Sequence[Measurement]) -> Iterator[tuple[str, Figure]]:
        """What training looked at, epoch by epoch, of the systems that were stopped by it."""
        curves = {
            f"{m.identity['nmt']} {m.model[:6]}": m.facts["curve"]
            for m in measurements
            if m.facts.get("curve")
        }
        for name, curve in curves.items():
            yield f"training_{name.replace(' ', '_')}", curve_figure(name, curve)


def _chosen(one: ContrastiveSet, path: Path) -> ContrastiveSet:
    numbers = read_groups(path)
    if numbers and max(numbers) >= len(one.groups):
        raise XnmtError(f"{path}: group {max(numbers)} of the {len(one.groups)} of {one.name}")
    return one.taken(numbers)


class Scores:
    """The scores of all sets of a job; a file has those of all of them, one set after the other."""

    def __init__(self, job: Job, sets: Sequence[ContrastiveSet], normalise: bool) -> None:
        self.job, self._sets, self._normalise = job, sets, normalise

    @cached_property
    def _ends(self) -> list[int]:
        sizes = [sum(len(group.variants) for group in one.groups) for one in self._sets]
        return [0, *np.cumsum(sizes).tolist()]

    @cached_property
    def _of_files(self) -> np.ndarray:
        passages = [p for one in self._sets for group in one.groups for p in group.passages()]
        return self.job.log_probability(passages)

    def of(self, number: int) -> np.ndarray:
        """Those of a set's variants, (N,); the greater the better."""
        if self.job.door("scores"):
            start, end = list(pairwise(self._ends))[number]
            return self._of_files[start:end]
        source, target = (
            partial(self.job.corpus.words, language=language)
            for language in languages(self.job.corpus)
        )
        read = self._sets[number].map(source, target)
        passages = [p for group in read.groups for p in group.passages()]
        return self.job.log_probability(passages, self._normalise)


@dataclass(frozen=True)
class Measured:
    """One set, as one system scores it."""

    what: Compared
    scores: Scores
    number: int
    metric: Contrastive

    @cached_property
    def right_G(self) -> np.ndarray:
        """Which groups are right."""
        return self.what.right_G(self.scores.of(self.number), self.metric.ties)

    def evidence(self, member_G: np.ndarray) -> Evidence:
        """The groups of a part, by source."""
        made_by = {"set": self.what.whole.fingerprint}
        options = {"normalise": self.metric.normalise, "lowercase": self.metric.lowercase}
        made_by |= {name: "true" for name, value in options.items() if value}
        made_by |= {} if self.metric.ties == "wrong" else {"ties": self.metric.ties}
        facts = {"generated": self.what.whole.generated, "told": self._told}
        job = self.scores.job
        if door := job.door("scores"):
            made_by["scores"] = door.fingerprint
        elif curve := job.system.curve:
            facts["curve"] = curve
        return Evidence(self._units(member_G, self.right_G), made_by, facts)

    def chance(self, member_G: np.ndarray) -> Evidence:
        """The same by chance."""
        facts = {"generated": self.what.whole.generated}
        made_by = {"set": self.what.whole.fingerprint}
        return Evidence(self._units(member_G, self.what.chance_G), made_by, facts)

    def _units(self, member_G: np.ndarray, right_G: np.ndarray) -> Units:
        columns = {"right": right_G, "chance": self.what.chance_G}
        unit_U, sums = by_unit(
            self.what.units_G[member_G], **{name: c[member_G] for name, c in columns.items()}
        )
        whole = self.what.whole
        return Units(f"{whole.lang_pair} {whole.name} {whole.fingerprint}", unit_U, sums)

    @property
    def _told(self) -> list[str]:
        """What stands under the table of the set and the system."""
        told = []
        if self.what.left_out:
            told.append(f"{self.what.left_out} variants are written as the true one and left out")
        if self.what.emptied:
            groups = ", ".join(map(str, self.what.emptied))
            told.append(f"nothing is left to compare in groups {groups}")
        job = self.scores.job
        if not job.door("scores") and any(g.source_context for g in self.what.groups):
            read = job.system.context
            if not read.sentences:
                told.append("it reads the current sentence alone")
            elif not read.target:
                told.append("it reads no context on the target side")
        return told
