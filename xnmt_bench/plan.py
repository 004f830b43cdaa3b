"""What a job will make, what is in the store already, and how long it may take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from xnmt_bench.errors import MissingError, NotApplicable, XnmtError
from xnmt_bench.measuring.measurement import PlannedRow
from xnmt_bench.measuring.metric import Metric
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.settings import Settings
from xnmt_bench.pipeline.system import System
from xnmt_bench.progress import duration
from xnmt_bench.registry import instantiate
from xnmt_bench.store import Stage, Store, Work

FOUNDATIONS = ("subwords", "encoded", "nmt")  # all that is behind them depends on what is in them


@dataclass(frozen=True)
class Step:
    """A stage that a job needs.

    Attributes:
        stage: the kind of artefact.
        made: whether it is in the store.
        amount: how much work it is, where that is known.
        seconds: what it may take at most, by what such work took before; None where it never ran.
    """

    stage: str
    made: bool
    amount: Work | None
    seconds: float | None

    @classmethod
    def of(cls, stage: Stage) -> Step:
        """Return the step of a stage, whose time follows from the times of others."""
        amount, seconds = stage.amount, None
        if amount and not stage.is_made:
            # By the step: the artefact that was timed may have been of another size.
            rate = stage.store.seconds_a_step(stage.name, amount.kind)
            seconds = rate * amount.steps if rate else None
        return cls(stage.name, stage.is_made, amount, seconds)

    def __str__(self) -> str:
        parts = [self.stage]
        if self.amount:
            parts.append(f"{self.amount.kind}, {self.amount.steps:,} {self.amount.unit}")
        if self.seconds is not None:
            parts.append(f"at most {duration(self.seconds)}")
        return ": ".join([parts[0], ", ".join(parts[1:])] if parts[1:] else parts)


def configured_metrics(settings: Settings) -> dict[str, Metric]:
    """Return the configured metrics by name, in their order."""
    return {n: instantiate(f"metric {n!r}", node) for n, node in settings.metric.items()}


def makers(job: Job) -> Iterator[Callable[[], Stage | System]]:
    """Yield what names the system, or the stages that `until` names, in their order."""
    settings, decisions = job.settings, job.explained.decisions
    yield lambda: job.system
    taught = [s for s in [settings.learned_from] if job.explained.teachable]
    splits = [*(("train", scenario) for scenario in taught), (EVALUATED, settings.scenario)]
    for split, scenario in splits:
        if settings.until == "labels":
            yield partial(decisions.labels, split, scenario)
        elif settings.until == "rules":
            yield partial(job.explained.rules, scenario, split)


@dataclass(frozen=True)
class Plan:
    """The artefacts that a job needs, in the order in which they are made.

    Attributes:
        steps: all that can be named.
        later: rows of results that can be planned only once the system is trained.
        error: the first thing that is wrong with data, system or store, where listing met any.
    """

    steps: tuple[Step, ...]
    later: int
    error: XnmtError | None = None

    @property
    def missing(self) -> list[Step]:
        """What is to be made."""
        return [step for step in self.steps if not step.made]

    @property
    def headline(self) -> str:
        """Such as `4 stages from the store, 3 to make, about 12 min left`."""
        missing = self.missing
        timed = [s for s in missing if s.seconds is not None]
        in_store = len(self.steps) - len(missing)
        parts = [f"{in_store} stages from the store", f"{len(missing)} to make"]
        if self.later:
            parts.append(f"then {self.later} rows of results")
        if timed:
            # Small stages take moments, so that only large ones are measured.
            all_timed = not self.later and all(s.seconds is not None for s in missing if s.amount)
            seconds = duration(sum(step.seconds or 0.0 for step in timed))
            parts.append(f"{'about' if all_timed else 'more than'} {seconds} left")
        elif any(step.amount for step in missing):
            parts.append("time unknown, since nothing like it was made in this store")
        return ", ".join(parts)

    def lines(self) -> Iterator[str]:
        """Yield the headline, and a line for each kind of thing that is to be made."""
        yield self.headline
        # Both sides of a corpus have subwords of their own: one line for steps that read alike.
        for step, count in Counter(map(str, self.missing)).items():
            yield f"  to make: {step}" + (f" ({count} times)" if count > 1 else "")


def plan_job(job: Job, metrics: Iterable[Metric]) -> Plan:
    """Return what a job needs; nothing is made.

    The system that this opens, if it is there, is kept for the job.

    Args:
        job: the job.
        metrics: what it measures.
    """
    # A reader of its own, so that listing stages can make none of them.
    reader = Job(job.settings, job.options, store=Store(job.store.root, False, makes_cheap=False))
    steps, blocked, error = dict[Path, Step](), 0, None

    def add(stage: Stage) -> None:
        if stage.folder not in steps:  # several rows need it; it is made once, for the first
            for needed in stage.needs:
                add(needed)
            steps[stage.folder] = Step.of(stage)

    lists: list[Callable[[], Iterable[Stage]]]
    if job.settings.until:
        lists = [partial(_stages_of, make) for make in makers(reader)]
    else:
        lists = [row.stages for row in _rows(reader, metrics)] or [reader.system.stages]
    for stages in lists:
        try:
            for stage in stages():
                add(stage)
        except NotApplicable:  # such a row has no stages
            continue
        except MissingError as missing:  # what comes behind it has no name before it is made
            blocked += 1
            if isinstance(missing.stage, Stage):
                add(missing.stage)
        except XnmtError as problem:
            error = error or problem
    named = {step.stage for step in steps.values() if not step.made}
    if named.isdisjoint(FOUNDATIONS):
        blocked = 0
    else:
        before, steps = steps, {}
        for stage in reader.system.stages():
            add(stage)
        steps |= before
    unnamed = reader.system.unnamed(step.stage for step in steps.values()) if blocked else ()
    later = [Step(name, False, reader.system.work_of(name), None) for name in unnamed]
    job.system.keep_model(reader.system)
    return Plan((*steps.values(), *later), 0 if job.settings.until else blocked, error)


def _rows(job: Job, metrics: Iterable[Metric]) -> Iterator[PlannedRow]:
    for metric in metrics:
        # A metric that does not apply to the job has no rows; measuring says why.
        with suppress(NotApplicable):
            yield from metric.measure(metric.measured_job(job))


def _stages_of(make: Callable[[], Stage | System]) -> Iterable[Stage]:
    named = make()
    return [named] if isinstance(named, Stage) else named.stages()
