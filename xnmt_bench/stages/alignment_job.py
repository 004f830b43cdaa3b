"""Alignment error rate as a job: what `train.py` makes for it and what `evaluate.py` reports."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from xnmt_bench.corpora.alignment import AlignmentFile
from xnmt_bench.corpora.gold import read_pairs
from xnmt_bench.errors import MissingError, NotApplicable, XnmtError
from xnmt_bench.fitting import TrainerOptions
from xnmt_bench.metrics.aer import LinkCounts
from xnmt_bench.metrics.symmetrise import METHODS
from xnmt_bench.report.agreement import Agreement, agreements
from xnmt_bench.report.alignment import COLUMNS, AlignmentFragment
from xnmt_bench.report.alignment_table import write_tables
from xnmt_bench.report.fidelity import FidelityFragment
from xnmt_bench.report.summary import Shown, show
from xnmt_bench.report.tracking import Tracker
from xnmt_bench.stages.alignment import FORWARD, WordAlignment
from xnmt_bench.store import Artefact

log = logging.getLogger(__name__)


def train(config: DictConfig, options: TrainerOptions, tracker: Tracker) -> None:
    """Aligns the test set by the configured explainer, and by what needs no model."""
    stages, results = WordAlignment(config, options), Path(config.results)
    try:
        fragments = list(_fragments(stages))
    except Exception as error:
        if "model" in stages.__dict__:
            status = f"failed: {type(error).__name__}: {error}"
            job = stages.job() | {"alignment": FORWARD}
            AlignmentFragment(job, stages.model_id, status=status).write(results)
        raise
    for fragment in fragments:
        fragment.write(results)
        settings = config.metric.aer
        row = fragment.score(settings.bootstrap_samples, settings.bootstrap_seed)
        number = row["status"] if row["aer"] == "" else f"AER {100 * row['aer']:.1f} %"
        log.info("%s, %s links: %s", row["explainer"], row["alignment"], number)


def _fragments(stages: WordAlignment) -> Iterator[AlignmentFragment]:
    job = stages.job()
    try:
        yield from _of(stages.alignment, job, stages.model_id)
    except NotApplicable as error:
        log.warning("%s: n/a: %s", stages.explainer_name, error)
        yield AlignmentFragment(job | {"alignment": FORWARD}, stages.model_id, status="n/a")
    for name in ("diagonal", "eflomal"):
        try:
            yield from _of(getattr(stages, name), job | {"nmt": "", "explainer": name, "seed": ""})
        except NotApplicable as error:
            log.info("%s: n/a: %s", name, error)


def _of(artefact: Artefact, job: dict[str, Any], model: str = "") -> Iterator[AlignmentFragment]:
    """A fragment for each direction and symmetrisation."""
    for method in artefact.facts["methods"]:
        yield AlignmentFragment(
            job | {"alignment": method},
            model,
            scores=str(artefact.path / f"{method}.parquet"),
            made_by={"alignment": artefact.id},
            unaligned=artefact.facts["unaligned"],
        )


def report(config: DictConfig, tracker: Tracker) -> list[Shown]:
    """Collects the rows, or scores one alignment file; prints the table or the line.

    Raises:
        StoreError: there are no results yet.
        XnmtError: a gold file without a hypothesis, or the other way round.
    """
    settings = config.metric.aer
    if settings.gold or settings.hypothesis:
        print(score_files(settings))
        return []
    results = Path(config.results)
    samples, seed = settings.bootstrap_samples, settings.bootstrap_seed
    fragments = AlignmentFragment.read(results)
    rows = [fragment.score(samples, seed) for fragment in fragments]
    whole = [f for f, row in zip(fragments, rows, strict=True) if row["status"] == "ok"]
    summary = write_tables(rows, _agreements(config, whole), results)
    tracker.table("aer", rows, COLUMNS)
    show(summary)
    return [Shown("aer", summary)]


def _agreements(config: DictConfig, fragments: list[AlignmentFragment]) -> list[Agreement]:
    """Fidelity beside AER, where fidelity has been measured."""
    settings = config.metric.aer
    try:
        fidelity = FidelityFragment.read(Path(config.results))
    except MissingError:
        return []
    return agreements(
        fidelity, fragments, config.k, settings.bootstrap_samples, settings.bootstrap_seed
    )


def score_files(settings: DictConfig) -> LinkCounts:
    """Scores an alignment file of any tool against a gold file.

    Args:
        settings: the configuration `metric.aer`.

    Raises:
        XnmtError: a file that is missing from the pair, or an unknown symmetrisation.
        DataError: a malformed file, with file and line.
    """
    if not (settings.gold and settings.hypothesis):
        raise XnmtError("metric.aer.gold and metric.aer.hypothesis go together")
    lengths = None
    if settings.text:
        pairs = read_pairs([Path(path) for path in settings.text])
        lengths = [(len(x.split()), len(y.split())) for x, y in pairs]
    gold = AlignmentFile(
        Path(settings.gold),
        settings.gold_base,
        settings.gold_reverse,
        settings.gold_all_sure,
        settings.gold_ignore_possible,
        settings.gold_form,
    ).read(lengths)
    file = AlignmentFile(
        Path(settings.hypothesis),
        settings.hypothesis_base,
        settings.hypothesis_reverse,
        form=settings.hypothesis_form,
    )
    hypotheses = [links.possible for links in file.read(lengths, len(gold))]
    if settings.backward:
        if settings.symmetrisation not in METHODS:
            raise XnmtError(
                f"no symmetrisation {settings.symmetrisation!r}; there are {', '.join(METHODS)}"
            )
        other = AlignmentFile(
            Path(settings.backward), settings.hypothesis_base, True, form=settings.hypothesis_form
        )
        method = METHODS[settings.symmetrisation]
        backward = [links.possible for links in other.read(lengths, len(gold))]
        hypotheses = [method(f, b) for f, b in zip(hypotheses, backward, strict=True)]
    return LinkCounts.count(hypotheses, gold)
