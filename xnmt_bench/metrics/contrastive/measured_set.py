"""One contrastive set as one system scores it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from xnmt_bench.corpora.passage import Passage
from xnmt_bench.corpora.suites.contrastive.group import ContrastiveSet
from xnmt_bench.corpora.suites.contrastive.reading import as_read
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.measurement import Evidence
from xnmt_bench.measuring.units import Units, by_unit
from xnmt_bench.metrics.contrastive.groups import FILE as GROUPS
from xnmt_bench.metrics.contrastive.groups import write_groups
from xnmt_bench.nmt.comparing import Comparison, Ties
from xnmt_bench.pipeline.job import Job
from xnmt_bench.store import Stage


@dataclass(frozen=True)
class Options:
    """How scores become decisions; see the metric's arguments."""

    normalise: bool
    lowercase: bool
    ties: Ties
    groups: str | None

    def named(self, name: str) -> str:
        """Return a set's name in results, with what of these is not usual."""
        # In the name, by which tables and analyses join rows: other options make another set.
        changes = [] if self.groups is None else [f"groups of {Path(self.groups).name}"]
        # A list times False is empty.
        changes += ["mean over ids"] * self.normalise + ["lower-cased"] * self.lowercase
        changes += [] if self.ties == "wrong" else [f"ties: {self.ties}"]
        return f"{name} ({', '.join(changes)})" if changes else name


class Scores:
    """The scores of all sets of a job; a file has those of all of them, one set after the other."""

    def __init__(self, job: Job, sets: Sequence[ContrastiveSet], normalise: bool) -> None:
        self.job, self._sets, self._normalise = job, sets, normalise
        self._passages: dict[int, list[Passage]] = {}

    @cached_property
    def _ends(self) -> list[int]:
        sizes = [
            sum(len(group.variants) for group in contrastive_set.groups)
            for contrastive_set in self._sets
        ]
        # A file has a score a line for all variants of all sets, in order.
        return [0, *np.cumsum(sizes).tolist()]

    @cached_property
    def _of_files(self) -> np.ndarray:
        passages = [
            p
            for contrastive_set in self._sets
            for group in contrastive_set.groups
            for p in group.passages()
        ]
        return self.job.log_probability(passages)

    def of(self, number: int) -> np.ndarray:
        """Return the scores of a set's variants, (N,); the greater the better."""
        if self.job.input_file("scores"):
            # One file holds all sets, in the order of `metric.contrastive.sets`.
            start, end = list(pairwise(self._ends))[number]
            return self._of_files[start:end]
        return self.job.log_probability(self.passages(number), self._normalise)

    def passages(self, number: int) -> list[Passage]:
        """Return a set's variants as the system's corpus is written."""
        if number not in self._passages:  # tokenising takes a while, and each part asks
            read = as_read(self._sets[number], self.job.corpus)
            self._passages[number] = [p for group in read.groups for p in group.passages()]
        return self._passages[number]


@dataclass(frozen=True)
class MeasuredSet:
    """One set, as one system scores it."""

    comparison: Comparison
    scores: Scores
    number: int
    options: Options

    @cached_property
    def right_G(self) -> np.ndarray:
        """Which groups are right."""
        return self.comparison.right_G(self.scores.of(self.number), self.options.ties)

    @cached_property
    def _scored_G(self) -> np.ndarray:
        """Which groups the system can read."""
        return self.comparison.scored_G(self.scores.of(self.number))

    def stages(self) -> list[Stage]:
        """Return the stage behind the scores; none of a file's."""
        job = self.scores.job
        if job.input_file("scores") is not None:
            return []
        return [job.scored(self.scores.passages(self.number))]

    @cached_property
    def _made_by(self) -> str:
        """The fingerprint of the scores."""
        job = self.scores.job
        if input_file := job.input_file("scores"):
            return input_file.fingerprint
        return job.scored(self.scores.passages(self.number)).fingerprint

    @cached_property
    def doubts(self) -> list[str]:
        """Why the system's numbers on the set mean little."""
        job = self.scores.job
        # A file's system is unknown, and so is what it was trained on.
        if job.from_files:
            return []
        read = as_read(self.comparison.contrastive_set, job.corpus)
        true = (group.passages()[group.true] for group in read.groups)
        return job.doubts_of([(passage.source, passage.target) for passage in true])

    def evidence(self, member_G: np.ndarray) -> Evidence:
        """Return the groups of a part, by source.

        Raises:
            NotApplicable: the system can read no group of the part.
        """
        member_G = member_G & self._scored_G
        if not member_G.any():
            raise NotApplicable("every group has a variant that is longer than the system reads")
        made_by = {"set": self.comparison.contrastive_set.fingerprint, "scores": self._made_by}
        facts = {"generated": self.comparison.contrastive_set.generated, "told": self._remarks}
        job = self.scores.job
        if not job.input_file("scores"):
            facts |= {"capped": job.system.capped, "curve": job.system.curve}
        # The part that is the whole set carries the file; the others would repeat its groups.
        files = {GROUPS: self._groups} if member_G.sum() == self._scored_G.sum() else {}
        return Evidence(self._units(member_G, self.right_G), made_by, facts, files)

    @cached_property
    def _groups(self) -> Path:
        """The file of all groups with their scores, to be read one by one."""

        def work(folder: Path) -> dict[str, Any]:
            write_groups(self.comparison, self.scores.of(self.number), self.right_G, folder)
            return {}

        artefact = self.scores.job.store.stage(
            "contrastive_groups",
            work,
            version=1,
            cheap=True,
            set=self.comparison.contrastive_set.fingerprint,
            scores=self._made_by,
            number=self.number,
            options=vars(self.options),
        )
        return artefact.path / f"{GROUPS}.parquet"

    def chance(self, member_G: np.ndarray) -> Evidence:
        """Return the evidence of choosing by chance."""
        facts = {"generated": self.comparison.contrastive_set.generated}
        made_by = {"set": self.comparison.contrastive_set.fingerprint}
        return Evidence(self._units(member_G, self.comparison.chance_G), made_by, facts)

    def _units(self, member_G: np.ndarray, right_G: np.ndarray) -> Units:
        # Chance for each: its number depends on how many variants the drawn groups have.
        columns = {"right": right_G, "chance": self.comparison.chance_G}
        unit_U, sums = by_unit(
            self.comparison.units_G[member_G], **{name: c[member_G] for name, c in columns.items()}
        )
        return Units(self.comparison.contrastive_set.test_set, unit_U, sums)

    @cached_property
    def _remarks(self) -> list[str]:
        """What stands under the table of the set and the system."""
        remarks = []
        if self.comparison.left_out:
            remarks.append(
                f"{self.comparison.left_out} variants are equal to the true one and left out"
            )
        if self.comparison.emptied:
            groups = ", ".join(map(str, self.comparison.emptied))
            remarks.append(f"groups {groups} have no other variant left")
        if unread := int((~self._scored_G).sum()):
            groups = f"{unread:,} of {len(self._scored_G):,} groups"
            remarks.append(
                f"{groups} have a variant longer than the system reads, and are left out"
            )
        scores_N = self.scores.of(self.number)
        if self.options.ties == "wrong" and (tied := int(self.comparison.tied_G(scores_N).sum())):
            remarks.append(
                f"in {tied:,} groups the true variant ties with the best, which counts as wrong"
            )
        # Files of losses and of log-probabilities look alike; accuracy tells which way they go.
        turned = self.comparison.right_G(-scores_N, self.options.ties).mean()
        job, has_context = self.scores.job, any(g.source_context for g in self.comparison.groups)
        from_file = job.input_file("scores") is not None
        if from_file and self.right_G.mean() < self.comparison.chance_G.mean() < turned:
            remarks.append(
                f"accuracy is below chance, but {100 * turned:.1f} % if lower scores are better "
                "(scores.higher_is_better=false)"
            )
        if from_file or not has_context:
            return remarks
        context = job.system.context
        # Variants of a group have contexts of one length, so the first shows it for all.
        read = [group.passages()[0].read(context) for group in self.comparison.groups]
        if not any(passage.source_context or passage.following for passage in read):
            remarks.append("it reads the current sentence only")
        elif not context.target:
            remarks.append("it reads no context on the target side")
        return remarks
