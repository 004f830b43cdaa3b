"""Fidelity as a job: what `train.py` makes for it and what `evaluate.py` reports."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.fitting import TrainerOptions
from xnmt_bench.report.fidelity import COLUMNS, FidelityFragment, collect
from xnmt_bench.report.fidelity_table import summarise_kl, write_tables
from xnmt_bench.report.summary import Shown, show
from xnmt_bench.report.tracking import Tracker
from xnmt_bench.rules.extract import LABELLING
from xnmt_bench.stages.fidelity import FACETS_FILE, KL_FILE, SAMPLE_FILE, SCORES, Fidelity
from xnmt_bench.store import Artefact

log = logging.getLogger(__name__)


def train(config: DictConfig, options: TrainerOptions, tracker: Tracker) -> None:
    """Makes the rules, the proxy and Base of the configured job, and writes its fragments.

    Raises:
        XnmtError: k is larger than what rules are extracted with, or there is no such scenario.
    """
    if not 1 <= config.k <= config.rules.largest_k:
        raise XnmtError(f"k={config.k} is not within 1 and {config.rules.largest_k}, the largest k")
    for name in ("scenario", "learned_from"):
        if config[name] not in LABELLING:
            raise XnmtError(f"{name}={config[name]} is none of {', '.join(LABELLING)}")
    stages = Fidelity(config, options)
    try:
        fragments = _fragments(stages)
    except Exception as error:
        if "model" in stages.__dict__:  # the NMT system is there, so the row has a place
            status = f"failed: {type(error).__name__}: {error}"
            _fragment(stages, stages.proxy_name, status=status).write(Path(config.results))
        raise
    for fragment in fragments:
        fragment.write(Path(config.results))
    _show(fragments, config, tracker)


def _fragments(stages: Fidelity) -> list[FidelityFragment]:
    """Base, the proxy and the reference rows; what has no meaning here is n/a."""
    fragments, name = [], stages.proxy_name
    shared: dict[str, Any] = {}
    try:
        hit = stages.base.facts["hit"]
        shared = {"hit_at_k": hit["both"] if hit else None}
        fragments.append(_fragment(stages, "base", stages.base, kl=_kl(stages, "base"), **shared))
    except NotApplicable:
        fragments.append(_fragment(stages, "base", status="n/a"))
    try:
        shared["valid_loss"] = stages.proxy.facts["valid_loss"]
        fragments.append(_fragment(stages, name, stages.tested, kl=_kl(stages, name), **shared))
        fragments += [_reference(stages, kind) for kind in ("unigram", "nmt")]
    except NotApplicable as error:
        log.warning("%s on %s: n/a: %s", stages.explainer_name, stages.config.nmt.name, error)
        fragments.append(_fragment(stages, name, status="n/a"))
    return fragments


def _kl(stages: Fidelity, instantiation: str) -> str | None:
    """Where the KL divergences of a predictor are, if they are asked for."""
    if stages.config.metric.fidelity.kl_words is None:
        return None
    return str(stages.kl(instantiation).path / KL_FILE)


def _fragment(
    stages: Fidelity, instantiation: str, artefact: Artefact | None = None, **more: Any
) -> FidelityFragment:
    job = stages.job() | {"instantiation": instantiation}
    if instantiation == "base" and "seed" not in stages.config.explainer.phi:
        job["seed"] = ""  # nothing in it is drawn
    if artefact is None:
        return FidelityFragment(job, stages.model_id, **more)
    made_by = {"rules": stages.rules.id, "judged": stages.judged.id, "scores": artefact.id}
    if kl := more.get("kl"):
        made_by["kl"] = f"{Path(kl).parent.name}@{stages.config.metric.fidelity.kl_words}"
    scores = str(artefact.path / SCORES)
    return FidelityFragment(job, stages.model_id, scores=scores, made_by=made_by, **more)


def _reference(stages: Fidelity, kind: str) -> FidelityFragment:
    artefact = stages.reference(kind)
    job = stages.job() | {"explainer": "", "k": "", "seed": "", "instantiation": kind}
    quality = facets = sample = None
    if kind == "nmt":
        job["train_sentences"] = job["learned_from"] = ""
        quality = stages.quality
        facets = str(stages.facets.path / FACETS_FILE)
        sample = str(stages.sample.path / SAMPLE_FILE)
    return FidelityFragment(
        job,
        stages.model_id,
        scores=str(artefact.path / SCORES),
        made_by={"scores": artefact.id},
        quality=quality,
        facets=facets,
        sample=sample,
    )


def _show(fragments: Sequence[FidelityFragment], config: DictConfig, tracker: Tracker) -> None:
    settings = config.metric.fidelity
    rows = [f.score(settings.bootstrap_samples, settings.bootstrap_seed) for f in fragments]
    tracker.table("fidelity", rows, COLUMNS)
    for row in rows:
        who = " ".join(str(row[c]) for c in ("explainer", "nmt", "instantiation") if row[c] != "")
        if row["ppl"] == "":
            log.info("%s: %s", who, row["status"])
        else:
            log.info(
                "%s: PPL %.2f [%.2f, %.2f], agreement %.3f",
                who,
                row["ppl"],
                row["ppl_low"],
                row["ppl_high"],
                row["agreement"],
            )


def report(config: DictConfig, tracker: Tracker) -> list[Shown]:
    """Collects the rows, writes table and figure, and prints the table.

    Raises:
        StoreError: there are no results yet.
    """
    from xnmt_bench.report.figure import fidelity_figure, save_figure

    results, settings = Path(config.results), config.metric.fidelity
    rows = collect(results, settings.bootstrap_samples, settings.bootstrap_seed)
    summary = write_tables(rows, results)
    tracker.table("fidelity", rows, COLUMNS)
    svg = None
    if any(row["ppl"] != "" for row in rows):
        svg, png = save_figure(fidelity_figure(rows), results / "fidelity")
        tracker.figure("fidelity", png)
    show(summary)
    log.info("tables and figure are in %s", results)
    kl = summarise_kl(rows)
    return [Shown("fidelity", summary, svg)] + ([Shown("kl", kl)] if kl else [])
