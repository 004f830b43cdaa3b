"""What a job will make, what is in the store already, and how long it may take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from xnmt_bench.errors import DataError, MissingError, NotApplicable
from xnmt_bench.measuring.metric import Metric
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.settings import Settings, read_settings
from xnmt_bench.pipeline.training import training_work
from xnmt_bench.progress import duration
from xnmt_bench.registry import instantiate
from xnmt_bench.store import PARTIAL, Artefact, Store, Work

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


def configured_metrics(settings: Settings) -> dict[str, Metric]:
    """Return the configured metrics by name, in their order."""
    return {n: instantiate(f"metric {n!r}", node) for n, node in settings.metric.items()}


def makers(job: Job, metrics: Iterable[Metric]) -> Iterator[Callable[[], Any]]:
    """Yield what makes a job's artefacts, in order: each row of a metric, or stages for `until`."""
    if until := job.settings.until:
        yield from _stages(job, until)
        return
    rows = 0
    for metric in metrics:
        # A metric that does not apply to the job has no rows; measuring says why.
        with suppress(NotApplicable):
            for row in metric.measure(metric.measured_job(job)):
                rows += 1
                yield row.make
    # Metrics that have no row here still need the system.
    if not rows:
        yield lambda: job.system.path


def _stages(job: Job, until: str) -> Iterator[Callable[[], Any]]:
    yield lambda: job.system.path
    if until == "system":
        return
    settings, decisions = job.settings, job.explained.decisions
    taught = [s for s in [settings.learned_from] if job.explained.teachable]
    splits = [*(("train", scenario) for scenario in taught), (EVALUATED, settings.scenario)]
    for split, scenario in splits:
        if until == "labels":
            yield partial(decisions.labels, split, scenario)
        else:
            yield partial(job.explained.rules, scenario, split)


class _FoundError(BaseException):
    """The work of the wanted artefact was found.

    Not an Exception, so that a row that goes on after failures ends here too.
    """

    def __init__(self, work: Callable[[Path], Any]) -> None:
        super().__init__()
        self.work = work


class _SeekingStore(Store):
    """A store that makes nothing, and stops where a wanted artefact would be made."""

    def __init__(self, root: str, folder: Path) -> None:
        super().__init__(root, may_make=False)
        self._folder = folder.resolve()

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
        """Return the artefact of a recipe, or raise `_FoundError` where it is the wanted one."""
        path = self.path(stage, version=version, **made_from)
        if path.with_suffix(PARTIAL).resolve() == self._folder:
            raise _FoundError(work)
        return super().make(stage, work, version=version, cheap=cheap, **made_from)


_latest: Job | None = None  # of this process; its model stays open for the next one


def find_work(config: Mapping[str, Any], folder: Path) -> Callable[[Path], Any]:
    """Return what fills an unfinished artefact's folder, in another process than the job's own.

    The job is gone through as its own process does, up to the artefact. All that was made before is
    in the store.

    Args:
        config: the job's configuration.
        folder: of the unfinished artefact.

    Raises:
        MissingError: the job does not come to this artefact.
    """
    global _latest
    settings = read_settings(OmegaConf.create(dict(config)))
    job = Job(settings, store=_SeekingStore(settings.store, folder))
    read = attrgetter("nmt", "corpus", "device")
    if _latest and read(_latest.settings) == read(settings):
        job.system.keep_model(_latest.system)
    _latest = job
    try:
        for make in makers(job, configured_metrics(settings).values()):
            try:
                make()
            # As in the job's own process, where a row that fails is followed by others.
            except Exception:
                continue
    except _FoundError as found:
        return found.work
    raise MissingError(f"{folder}: no row of the job needs this artefact")


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
        error: the first thing that is wrong with the data, if it was met before any step.
    """

    steps: tuple[Step, ...]
    later: int
    error: DataError | None = None

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
    planning = Job(job.settings, job.options, store=store)
    rows, error = list(makers(planning, metrics := [*metrics])), None
    for make in rows:
        try:
            make()
        except DataError as problem:
            # Behind a first step it may be of an empty artefact; before it, it is of the user's.
            error = error or (None if store.steps else problem)
        # An artefact that is yet to be made is empty, so a row ends where it is read. A row that
        # fails for another reason fails again, with its message, when it is made.
        except Exception:
            continue
    job.system.keep_model(planning.system)
    steps, stages = list(store.steps.values()), {step.stage for step in store.steps.values()}
    if not any(not step.made and step.stage in FOUNDATIONS for step in steps):
        return Plan(tuple(steps), 0, error)
    # What stands on a missing vocabulary has no fingerprint yet, and so no step.
    absent = [stage for stage in FOUNDATIONS if stage not in stages]
    if job.settings.nmt.path or job.settings.nmt.initial:  # which brings its vocabularies
        absent = [stage for stage in absent if stage != "subwords"]
    if job.settings.nmt.path:
        absent = [stage for stage in absent if stage != "nmt"]
    steps += [_unnamed(stage, job) for stage in absent]
    return Plan(tuple(steps), len(rows) if metrics and not job.settings.until else 0, error)


def _unnamed(stage: str, job: Job) -> Step:
    """Return the step of an artefact that is missing and has no recipe yet."""
    work = training_work(job.settings.nmt, job.system.name) if stage == "nmt" else None
    return Step(stage, False, work, None)
