"""What the two commands do: `train` measures, `evaluate` reads what was measured and reports."""

from __future__ import annotations

import logging
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import hydra
import torch
from hydra.core.hydra_config import HydraConfig

from xnmt_bench import progress
from xnmt_bench.bundles.paths import bundle_paths
from xnmt_bench.device import free_memory
from xnmt_bench.engine import Crew, employ
from xnmt_bench.errors import ConfigError, MissingError, NotApplicable, StoreError, XnmtError
from xnmt_bench.measuring.bootstrap import Draws, score
from xnmt_bench.measuring.listing import Listing
from xnmt_bench.measuring.measurement import (
    FAILED,
    NOT_APPLICABLE,
    Evidence,
    ScoredRow,
    write,
)
from xnmt_bench.measuring.metric import Metric, TableRow
from xnmt_bench.pipeline.inputs import READERS
from xnmt_bench.pipeline.job import Job, trainer_options
from xnmt_bench.pipeline.settings import Settings, leaves
from xnmt_bench.plan import configured_metrics, makers, plan_job
from xnmt_bench.registry import instantiate
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import about_systems, collect, report, writable
from xnmt_bench.report.selection import Selection
from xnmt_bench.report.standing import Standings, keep_unranked
from xnmt_bench.report.summary import ShownTable
from xnmt_bench.report.table import csv_columns
from xnmt_bench.report.tracking import Tracker
from xnmt_bench.report.verdict import definitions, verdict
from xnmt_bench.rerun import rerun_command
from xnmt_bench.store import fingerprint, repair
from xnmt_bench.sweep import log_once, name_lines

log = logging.getLogger(__name__)
Scored = dict[str, tuple[Metric, Sequence[ScoredRow]]]  # by name of the metric
TABLES = ("csv", "txt", "md")  # files of a table that a bundle holds


def train(settings: Settings) -> None:
    """Measure every configured metric of the job, making what is missing.

    With `metric=[]` it ends with the trained system.

    Raises:
        Exception: what went wrong first, once every other row has been written.
    """
    if settings.explain is not None:
        raise ConfigError(["explain= works with evaluate.py only"])
    if settings.sheet.node:
        raise ConfigError(["sheet= works with evaluate.py only"])
    if bundle_paths(settings.results):
        raise ConfigError(["results= takes bundles with evaluate.py only; give a folder"])
    if settings.bundle is not None:
        raise ConfigError(["bundle= works with evaluate.py only"])
    if settings.rows is not None:
        raise ConfigError(["rows= works with evaluate.py only"])
    if settings.cite:
        raise ConfigError(["cite= works with evaluate.py only"])
    if settings.repair:
        repair(Path(settings.store))
        return
    with _start(settings, "train") as tracker:
        _warn_of_usual_corpus(settings)
        job = Job(settings, trainer_options(settings, tracker.lightning))
        metrics = configured_metrics(settings)
        check_inputs(metrics.values(), job)
        plan = plan_job(job, metrics.values())
        if settings.dry_run and plan.error:
            raise plan.error
        # Not before an error: work that cannot begin needs no count.
        if plan.steps and not plan.error:
            for line in plan.lines():
                log.info("%s", line)
            for omission in settings.omissions:
                log_once(log, logging.INFO, f"left out to be quick: {omission}")
        if settings.dry_run:
            return
        with employ(_crew(job)):
            errors = _make_all(job, metrics.values(), tracker)
        if errors:
            raise errors[0]


def _warn_of_usual_corpus(settings: Settings) -> None:
    """Warn where a system of the user's is measured on the corpus that nothing chose."""
    chosen = any(option.startswith("corpus") for option in HydraConfig.get().overrides.task)
    usual = HydraConfig.get().runtime.choices.get("corpus") == "toy"
    if settings.nmt.path and usual and not chosen:
        line = (
            "nmt.path is given and corpus is not: the system is measured on generated sentences "
            "(corpus=toy); give corpus=text corpus.root=DIR"
        )
        log_once(log, logging.WARNING, line)


def _make_all(job: Job, metrics: Iterable[Metric], tracker: Tracker) -> list[Exception]:
    """Measure all metrics, or make what `until` names; return what went wrong."""
    until, metrics = job.settings.until, [*metrics]
    if metrics and not until:
        return measure_all(metrics, job, tracker)
    for make in makers(job):
        try:
            log.info("made: %s", make().path)
        except NotApplicable as error:
            log.warning("until=%s: n/a: %s", until, error)
    return []


def check_launcher(workers: int, launcher: str) -> None:
    """Refuse workers inside of jobs that a launcher runs at once.

    Args:
        workers: of each job.
        launcher: the class of Hydra's launcher.

    Raises:
        ConfigError: several jobs would each want several workers.
    """
    name = next((n for n in ("joblib", "Slurm", "Local") if n in launcher), None)
    if name and workers > 1:
        remedy = "make the rules first, by workers and until=rules; then sweep with workers=1"
        raise ConfigError(
            [f"workers={workers}: the launcher already runs several jobs at once; {remedy}"]
        )


def _crew(job: Job) -> Crew:
    """Return the processes that work for a job, as configured."""
    settings, where = job.settings, job.options.device
    check_launcher(settings.workers, HydraConfig.get().launcher._target_)
    process = str(Path.cwd()), settings.threads or 1, free_memory(where)
    ranks = settings.trainer.devices, settings.trainer.nodes
    return Crew(*process, settings.workers, *ranks, on_gpu=where.type == "cuda")


def evaluate(settings: Settings) -> None:
    """Report what was measured; with `explain`, show one sentence's relevance; or make a sheet.

    What files of other tools hold needs no training, so it is measured here too. Bundles in the
    place of a results folder are checked and pooled first.

    Raises:
        MissingError: nothing was measured yet.
    """
    if settings.repair:
        raise ConfigError(["repair= works with train.py only"])
    if settings.dry_run:
        raise ConfigError(["dry_run= works with train.py only"])
    if settings.until is not None:
        raise ConfigError(["until= works with train.py only"])
    check_report_options(settings)
    paths = bundle_paths(settings.results)
    if not paths:
        _evaluate(settings)
        return
    from xnmt_bench.bundles.pool import pool

    if settings.cite:
        _log_to_stderr()
    pool(paths, Path(settings.pooled))
    try:
        _evaluate(settings.changed({"results": settings.pooled}))
    except (XnmtError, OSError):
        raise
    # What a stranger put into a row's file can be any error to the code that reads it.
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise StoreError(
            f"{', '.join(map(str, paths))}: a file in the bundle cannot be read: {problem}"
        ) from error


def _log_to_stderr() -> None:
    """Keep messages out of what is printed, such as BibTeX that a shell writes into a file."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout:
            handler.setStream(sys.stderr)


# Options of jobs, which no report reads.
JOB_OPTIONS = (
    *("corpus", "nmt", "judge", "proxy", "rules", "trainer"),
    *("k", "prefix", "scenario", "learned_from", "seed", "train_sentences"),
)


def _typed(names: Sequence[str]) -> list[str]:
    """Return the arguments of the command line that set some options, or options inside them."""
    overrides = HydraConfig.get().overrides.task if HydraConfig.initialized() else []
    return [o for o in overrides if re.split(r"[.@=]", o.lstrip("+~"))[0] in names]


def check_report_options(settings: Settings) -> None:
    """Refuse options of `evaluate.py` that would change nothing.

    Raises:
        ConfigError: one of them is given.
    """
    reports = not settings.explain and not settings.sheet.node
    if settings.rows is not None and not reports:
        raise ConfigError(["rows= chooses rows of a report; leave explain= and sheet= out"])
    if settings.cite and not reports:
        raise ConfigError(["cite= is of the rows of a report; leave explain= and sheet= out"])
    if settings.bundle is not None and (settings.cite or not reports):
        raise ConfigError(["bundle= is of a report; leave cite, explain= and sheet= out"])
    if settings.rows is not None and settings.bundle is not None:
        # Who reads it would test against the blind rows in it alone.
        raise ConfigError(["bundle= holds every row of a report; leave rows= out"])


def _refuse_explainer() -> None:
    """Raise a ConfigError where the command line has an explainer, and none runs.

    A reader may take it for a choice of rows.
    """
    if typed := _typed(["explainer"]):
        advice = 'rows="explainer=NAME" chooses rows of a report, explain=SENTENCE shows a sentence'
        raise ConfigError([f"{typed[0]}: no explainer runs here; {advice}"])


def _about_unused(settings: Settings) -> str:
    """Return which options of jobs on the command line change no report; empty for none."""
    names = set(JOB_OPTIONS)
    # `analysis.agreement.fixed.k` is the job's k.
    paths = (path.split(".") for path, _ in leaves(settings.analysis))
    names -= {option for *_, section, option in paths if section == "fixed"}
    if not (typed := _typed(sorted(names))):
        return ""
    reason = 'a report has every measured row; rows="COLUMN=VALUE" chooses rows'
    return f"not used: {', '.join(typed)}; {reason}"


def _evaluate(settings: Settings) -> None:
    """Explain a sentence, make a sheet, cite, or report; as `evaluate` says."""
    if settings.cite:
        from xnmt_bench.report.cite import cite

        _refuse_explainer()
        selection = Selection.parse(settings.rows or "")
        # Without a log or a tracker, whose messages would stand in the BibTeX.
        if unused := _about_unused(settings):
            print(f"% {unused}.\n")
        print(cite(configured_metrics(settings).values(), settings.results_folder, selection))
        return
    from xnmt_bench.report.figure import drawn_as  # heavy, and train draws none

    with drawn_as(settings.figures), _start(settings, "evaluate") as tracker:
        if settings.explain:
            from xnmt_bench.explain import explain

            explain(settings)
            return
        if settings.sheet.node:
            from xnmt_bench.sheets.make import make_sheet

            _refuse_explainer()
            make_sheet(settings.sheet, settings.results_folder)
            return
        metrics, results = configured_metrics(settings), settings.results_folder
        selection = Selection.parse(settings.rows or "")
        job = Job(settings, may_make=False)
        check_inputs(metrics.values(), job)
        from_files = [metric for metric in metrics.values() if metric.measured_from_files(job)]
        if not from_files:  # which the configured explainer may explain
            _refuse_explainer()
            if unused := _about_unused(settings):
                log.warning("%s", unused)
        errors = measure_all(from_files, job, tracker)
        scored: Scored = {}
        missing: dict[str, MissingError] = {}
        # All are read before anything is printed: tables quote other metrics' numbers of a system.
        for name, metric in metrics.items():
            try:
                scored[name] = (metric, collect(metric, results, draws(settings)))
            except MissingError as error:
                # One metric without results must not hide the others.
                missing[name] = error
            except StoreError as error:  # nor a damaged row
                errors.append(error)
            except Exception as error:  # nor what a metric makes of rows that it did not write
                log.error("%s: failed: %s: %s", name, type(error).__name__, error)
                errors.append(error)
        if not scored and (nothing_read := [*errors, *missing.values()]):
            raise nothing_read[0]
        for name in missing:
            log.warning("%s: %s is not measured; train.py metric=[%s] does", results, name, name)
        every, scored = scored, _select(selection, scored)
        shown, listings, out = list[ShownTable](), list[Listing](), writable(results)
        failed, standings = list[str](), dict[str, Sequence[Standings]]()
        for name, (metric, rows) in scored.items():
            about = about_systems(scored, name)
            try:
                standings[name] = selection.standings(metric, every[name][1], draws(settings))
                tables, read = report(
                    metric, rows, about, standings[name], out, tracker, selection.notes
                )
            except OSError:  # of the disk, which stops the other metrics too
                raise
            except Exception as error:
                log.error("%s: failed: %s: %s", name, type(error).__name__, error)
                errors.append(error)
                failed.append(name)
                continue
            shown, listings = [*shown, *tables], [*listings, *read]
        for name in failed:  # what made no table makes no analysis
            del scored[name]
        shown += run_analyses(
            settings, scored, out, tracker, errors, selection.notes[:1], standings
        )
        # Doubts and agreement are of systems, so that every metric says the same of them.
        verdicts = [
            *dict.fromkeys(
                sentence
                for name, pair in scored.items()
                for sentence in verdict(*pair, standings[name])
            )
        ]
        if shown:
            from xnmt_bench.report.debug import write_debug_page
            from xnmt_bench.report.overview import overview
            from xnmt_bench.report.page import write_page

            signatures = sorted(s.signature for _, rows in scored.values() for s in rows)
            debug = write_debug_page(listings, out)
            # Rows of one command share it; rows that Python wrote are without one.
            reruns = sorted(
                {s.measurement.rerun for _, rows in scored.values() for s in rows} - {""}
            )
            # Behind the tables in the terminal, where they are still on the screen.
            for sentence in verdicts:
                log.info("%s", sentence)
            defined = definitions(scored.values())
            systems = overview(scored.values())
            page = write_page(systems, verdicts, defined, shown, signatures, reruns, out, debug)
            log.info("tables and figures are in %s, and all on one page: %s", out, page)
            if debug:
                log.info("sentences to be read one by one: %s", debug)
        # Last, so that the page of the other rows is there; an error, so that a script notices.
        if errors:
            raise errors[0]
        damaged = [s.measurement.status for _, rows in every.values() for s in rows if s.damaged]
        if damaged:
            raise StoreError(f"{len(damaged)} rows are damaged: {'; '.join(damaged)}")
        if settings.bundle is not None:
            from xnmt_bench.bundles.write import Report, write_bundle

            names = [*scored, *(table.name for table in shown)]
            files = [out / f"{n}.{ending}" for n in dict.fromkeys(names) for ending in TABLES]
            bundled = Report(
                scored,
                results,
                [file for file in files if file.exists()],
                verdicts,
                settings.bootstrap.samples,
                _rerun(settings),
                settings.bundle_author,
            )
            path = Path(settings.bundle)
            digest = write_bundle(bundled, path)
            log.info("the bundle is %s, sha256 %s", path, digest)
            tracker.artifact("bundle", path)


def _select(selection: Selection, scored: Scored) -> Scored:
    """Return the rows that a report shows; a metric without any is left out.

    Raises:
        ConfigError: the selection names what no row has.
    """
    selection.check([(metric, [s.measurement for s in rows]) for metric, rows in scored.values()])
    return {
        name: (metric, shown)
        for name, (metric, rows) in scored.items()
        if (shown := selection.shown(metric, rows))
    }


def _start(settings: Settings, job_type: str) -> Tracker:
    if settings.threads:
        torch.set_num_threads(settings.threads)
    hydra_config = HydraConfig.get()
    name_lines()
    # Other launchers run jobs at once, in one terminal.
    progress.shared_terminal = "basic" not in hydra_config.launcher._target_
    folder = Path(hydra_config.runtime.output_dir)
    sweep = hydra_config.mode == hydra.types.RunMode.MULTIRUN
    group = folder.parent.name if sweep else folder.name
    tracker: Tracker = instantiate("logger", settings.logger)
    return tracker.start(job_type, group, folder, settings.values)


def check_inputs(metrics: Iterable[Metric], job: Job) -> None:
    """Refuse a file that a metric does not read, since its name would stand on the metric's row.

    Raises:
        ConfigError: one line for each file and metric.
    """
    problems = [
        f"{kind}.path: the metric {metric.name} does not read a file of {kind}.format="
        f"{input_file.format}; choose metrics that do, another format, or leave {kind}.path out"
        for metric in metrics
        for kind in READERS
        if (input_file := job.input_file(kind)) is not None and not metric.reads(input_file)
    ]
    if job.settings.sheet.path and not any(metric.reads_sheets for metric in metrics):
        problems.append("sheet.path: no chosen metric reads it; choose metric=[annotation]")
    if problems:
        raise ConfigError(problems)


def draws(settings: Settings) -> Draws:
    """Return how intervals are drawn."""
    return Draws(settings.bootstrap.samples, settings.bootstrap.seed)


def measure_all(metrics: Sequence[Metric], job: Job, tracker: Tracker) -> list[Exception]:
    """Measure metrics of a job; return what went wrong.

    Raises:
        NotApplicable: none of them applies to the job.
    """
    errors, not_applicable = list[Exception](), list[NotApplicable]()
    for metric in metrics:
        try:
            errors += measure(metric, job, tracker)
        except NotApplicable as error:  # it plans no row; others may apply
            log.warning("%s: n/a: %s", metric.name, error)
            not_applicable.append(error)
    if not_applicable and len(not_applicable) == len(metrics):
        raise not_applicable[0]
    return errors


def measure(metric: Metric, job: Job, tracker: Tracker) -> list[Exception]:
    """Measure a metric of a job, each row written as it comes.

    Returns:
        What went wrong. A failed row has its status, and the others go on.

    Raises:
        NotApplicable: the metric plans no row of such a job.
    """
    results, errors, rows = job.settings.results_folder, [], []
    for planned in metric.measure(metric.measured_job(job)):
        # TableRow by row: an earlier row is on disk before the next is even identified.
        row = planned.identify()
        row_name = _describe(metric, row.columns)
        try:
            outcome: Evidence | str | None = planned.make()
            if isinstance(outcome, Evidence):
                outcome.units.require_within(metric.unit_bounds)
        except NotApplicable as error:
            outcome = NOT_APPLICABLE
            log.warning("%s: n/a: %s", row_name, error)
        # Any failure is the row's own: the rows behind it are still measured.
        except Exception as error:
            outcome = f"{FAILED}: {type(error).__name__}: {error}"
            log.error("%s: %s", row_name, outcome)
            errors.append(error)
        if outcome is None:  # the job has no such row
            continue
        # After `make`, which has opened every artefact behind the row.
        versions = {name: sorted(numbers) for name, numbers in job.store.versions.items()}
        facts = row.facts | ({"versions": versions} if versions else {})
        row = replace(row, facts=facts, rerun=_rerun(job.settings))
        # On disk before it is scored: an error in scoring loses no measurement.
        written = write(metric.name, row, outcome, results)
        scored = score(metric, written, draws(job.settings))
        rows.append(scored)
        # Each job of a sweep measures the reference rows, which are the same for all of them.
        if written.ok:
            log_once(log, logging.INFO, f"{row_name}: {_numbers(metric, scored)}")
    tracker.table(metric.name, [scored.row for scored in rows], csv_columns(metric))
    return errors


def _rerun(settings: Settings) -> str:
    """Return the command that makes this job's rows again; empty where Hydra started no job."""
    if not HydraConfig.initialized():
        return ""
    hydra_config = HydraConfig.get()
    written = [Path(folder) for folder in (settings.store, settings.results_folder)]
    return rerun_command(hydra_config.job.name, hydra_config.overrides.task, written)


def _describe(metric: Metric, row: TableRow) -> str:
    """Return a row in words, such as `fidelity of transformer, attention, k = 1, sa`."""
    parts = [str(row["nmt"])]
    for key in metric.keys:
        if row[key.name] not in ("", key.usual):
            phrase = "seed {}" if key.name == "seed" else key.phrase
            parts.append(phrase.format(key.text(row[key.name])))
    return f"{metric.name} of {', '.join(part for part in parts if part)}"


def _numbers(metric: Metric, scored: ScoredRow) -> str:
    """Return the numbers that a row has, in words."""
    parts = []
    for column in metric.columns:
        value, low, high = (scored.values.get(column.name + end) for end in ("", "_low", "_high"))
        # Many columns have a number in some rows only, such as of planted words.
        if value is not None and not math.isnan(value):
            parts.append(f"{column.heading} {column.cell(value, low, high)}")
    return ", ".join(parts) or "no number"


def run_analyses(
    settings: Settings,
    scored: Mapping[str, tuple[Metric, Sequence[ScoredRow]]],
    results: Path,
    tracker: Tracker,
    errors: list[Exception],
    notes: Sequence[str] = (),
    standings: Mapping[str, Sequence[Standings]] = MappingProxyType({}),
) -> list[ShownTable]:
    """Ask every configured analysis of what was measured; append what went wrong to `errors`.

    Each table has `notes` under it. `standings` are those of all rows, for the panels of the rows
    shown.
    """
    from xnmt_bench.analyses.analysis import Analysis, publish

    by_metric = {name: panels(metric, rows) for name, (metric, rows) in scored.items()}
    for name in standings.keys() & by_metric.keys():
        keep_unranked(by_metric[name], standings[name])
    by_metric = {name: metric_panels for name, metric_panels in by_metric.items() if metric_panels}
    signatures = sorted(s.signature for _, rows in scored.values() for s in rows)
    shown = []
    for name, node in settings.analysis.items():
        analysis: Analysis = instantiate(f"analysis {name!r}", node)
        options = {k: v for k, v in node.items() if k != "_target_"}
        # An analysis follows from its options and from the rows that it read.
        made_from = options | {"rows": fingerprint({"rows": signatures})}
        try:
            for title, result in analysis.results(by_metric):
                summary = replace(result.summary, notes=[*result.summary.notes, *notes])
                noted = replace(result, summary=summary)
                shown.append(publish(title, noted, by_metric, made_from, results, tracker))
        except NotApplicable as error:
            log.warning("%s: n/a: %s", name, error)
        except Exception as error:  # a failed analysis must not lose the others
            log.error("%s: failed: %s: %s", name, type(error).__name__, error)
            errors.append(error)
    return shown
