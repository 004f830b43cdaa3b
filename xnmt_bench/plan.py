"""What a job will make, what is in the store already, and how long it may take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xnmt_bench.measuring.metric import Metric
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.system import training_work
from xnmt_bench.progress import duration
from xnmt_bench.store import Artefact, Store, Work

# All that is behind these depends on what is in them, and cannot be named before they are made.
FOUNDATIONS = ("subwords", "encoded", "nmt")


@dataclass(frozen=True)
class Step:
    """An artefact that a job needs.

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

    def __str__(self) -> str:
        parts = [self.stage]
        if self.amount:
            parts.append(f"{self.amount.kind}, {self.amount.steps:,} {self.amount.unit}")
        if self.seconds is not None:
            parts.append(f"at most {duration(self.seconds)}")
        return ": ".join([parts[0], ", ".join(parts[1:])] if parts[1:] else parts)


class _PlanningStore(Store):
    """A store that makes nothing: what is missing is noted, and an empty artefact stands for it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, may_make=False)
        self.steps: dict[Path, Step] = {}

    def make(
        self,
        stage: str,
        work: Callable[[Path], dict[str, Any] | None],
        *,
        version: int,
        cheap: bool = False,
        amount: Work | None = None,
        **made_from: Any,
    ) -> Artefact:
        """Return the artefact of a recipe, or an empty one in its place."""
        path = self.path(stage, version=version, **made_from)
        if in_store := self.has(stage, version=version, **made_from):
            artefact = super().make(stage, work, version=version, **made_from)
        else:
            # Empty and not None, so that planning goes on as far as recipes need no contents.
            artefact = Artefact(path, {})
        # Several rows ask for the same artefact; it is made once, where it is first needed.
        if path not in self.steps:
            # By the step: the artefact that was timed may have been of another size.
            rate = self.seconds_a_step(stage, amount.kind) if amount and not in_store else None
            seconds = rate * amount.steps if rate and amount else None
            self.steps[path] = Step(stage, in_store, amount, seconds)
        return artefact


@dataclass(frozen=True)
class Plan:
    """The artefacts that a job needs, in the order in which they are made.

    Attributes:
        steps: all that can be named.
        later: rows of results that can be planned only once the system is trained.
    """

    steps: tuple[Step, ...]
    later: int

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
        """Yield the headline, and a line for each thing that is to be made."""
        yield self.headline
        yield from (f"  to make: {step}" for step in self.missing)


def plan_job(job: Job, metrics: Iterable[Metric]) -> Plan:
    """Return what a job needs; nothing is made.

    The system that this opens, if it is there, is kept for the job.

    Args:
        job: the job.
        metrics: what it measures.
    """
    store = _PlanningStore(job.store.root)
    # A job of its own: it keeps empty artefacts, which must not reach the job that does the work.
    planning = Job(job.config, job.options, store=store)
    rows = [row.make for metric in metrics for row in metric.measure(metric.measured_job(planning))]
    # Metrics that have no row here still need the system, so its stages are planned alone.
    makers: list[Callable[[], Any]] = [*rows] or [lambda: planning.system.path]
    for make in makers:
        try:
            make()
        # An artefact that is yet to be made is empty, so a row ends where it is read. A row that
        # fails for another reason fails again, with its message, when it is made.
        except Exception:
            continue
    job.system.keep_model(planning.system)
    steps, stages = list(store.steps.values()), {step.stage for step in store.steps.values()}
    if not any(not step.made and step.stage in FOUNDATIONS for step in steps):
        return Plan(tuple(steps), 0)
    # What stands on a missing vocabulary has no fingerprint yet, and so no step.
    absent = [stage for stage in FOUNDATIONS if stage not in stages]
    if job.config.nmt.path or job.config.nmt.initial:  # which brings its vocabularies
        absent = [stage for stage in absent if stage != "subwords"]
    if job.config.nmt.path:
        absent = [stage for stage in absent if stage != "nmt"]
    steps += [_unnamed(stage, job) for stage in absent]
    return Plan(tuple(steps), len(rows))


def _unnamed(stage: str, job: Job) -> Step:
    """Return the step of an artefact that is missing and has no recipe yet."""
    work = training_work(job.config.nmt, job.system.name) if stage == "nmt" else None
    return Step(stage, False, work, None)
