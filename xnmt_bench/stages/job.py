"""What the two commands do: `train` makes what is missing, `evaluate` reads, scores and reports."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import hydra
import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.fitting import TrainerOptions
from xnmt_bench.report.fragments import COLUMNS, Fragment, collect
from xnmt_bench.report.table import to_rich, write_tables
from xnmt_bench.report.tracking import Tracker
from xnmt_bench.stages.fidelity import SCORES, Fidelity
from xnmt_bench.stages.systems import plain
from xnmt_bench.store import Artefact

log = logging.getLogger(__name__)


def _start(config: DictConfig, job_type: str) -> Tracker:
    if config.threads:
        torch.set_num_threads(config.threads)
    # Lightning's own greetings say nothing that a user of this tool needs.
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    folder = Path(HydraConfig.get().runtime.output_dir)
    sweep = HydraConfig.get().mode == hydra.types.RunMode.MULTIRUN
    group = folder.parent.name if sweep else folder.name
    tracker = hydra.utils.instantiate(config.logger)
    return tracker.start(job_type, group, folder, plain(config))


def train(config: DictConfig) -> None:
    """Makes every artefact of the configured job and writes its fragments."""
    with _start(config, "train") as tracker:
        options = TrainerOptions(**plain(config.trainer), logger=tracker.lightning())
        if not 1 <= config.k <= config.rules.largest_k:
            raise XnmtError(
                f"k={config.k} is not within 1 and {config.rules.largest_k}, the largest k"
            )
        stages = Fidelity(config, options)
        name = stages.proxy_name
        try:
            _say_quality(stages)
            fragments = _fragments(stages, name)
        except NotApplicable as error:
            log.warning("%s on %s: n/a: %s", config.explainer.name, config.nmt.name, error)
            fragments = [_fragment(stages, i, status="n/a") for i in ("base", name)]
        except Exception as error:
            if "model_id" in stages.__dict__:  # the NMT system is there, so the row has a place
                status = f"failed: {type(error).__name__}: {error}"
                _fragment(stages, name, status=status).write(Path(config.results))
            raise
        for fragment in fragments:
            fragment.write(Path(config.results))
        _show(fragments, config, tracker)


def _say_quality(stages: Fidelity) -> None:
    facts = stages.translation.facts
    log.info("%s: BLEU %s, chrF %s", stages.config.nmt.name, facts["BLEU"], facts["chrF2"])


def _fragments(stages: Fidelity, name: str) -> list[Fragment]:
    hit = stages.base.facts["hit"]
    shared = {"hit_at_k": hit["both"] if hit else None}
    return [
        _fragment(stages, "base", stages.base, **shared),
        _fragment(
            stages, name, stages.proxy, valid_loss=stages.proxy.facts["valid_loss"], **shared
        ),
        *(_reference(stages, kind) for kind in ("unigram", "nmt")),
    ]


def _fragment(
    stages: Fidelity, instantiation: str, artefact: Artefact | None = None, **more: Any
) -> Fragment:
    job = stages.job()
    model = job.pop("model")
    job["instantiation"] = instantiation
    if instantiation == "base" and "seed" not in stages.config.explainer.phi:
        job["seed"] = ""  # nothing in it is drawn
    if artefact is None:
        return Fragment(job, model, **more)
    made_by = {"rules": stages.rules.id, "scores": artefact.id}
    return Fragment(job, model, scores=str(artefact.path / SCORES), made_by=made_by, **more)


def _reference(stages: Fidelity, kind: str) -> Fragment:
    artefact = stages.reference(kind)
    job = stages.job() | {"explainer": "", "k": "", "seed": "", "instantiation": kind}
    model = job.pop("model")
    quality = None
    if kind == "nmt":
        job["train_sentences"] = ""
        quality = stages.translation.facts
    scores = str(artefact.path / SCORES)
    return Fragment(job, model, scores=scores, made_by={"scores": artefact.id}, quality=quality)


def _show(fragments: list[Fragment], config: DictConfig, tracker: Tracker) -> None:
    settings = config.metric
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


def evaluate(config: DictConfig) -> None:
    """Collects every fragment and reports; or, with `explain`, shows one sentence's relevance."""
    with _start(config, "evaluate") as tracker:
        if config.explain:
            from xnmt_bench.stages.explain import explain

            explain(config)
            return
        _report(config, tracker)


def _report(config: DictConfig, tracker: Tracker) -> None:
    from xnmt_bench.report.figure import fidelity_figure, save_figure

    results, settings = Path(config.results), config.metric
    rows = collect(results, settings.bootstrap_samples, settings.bootstrap_seed)
    summary = write_tables(rows, results)
    tracker.table("fidelity", rows, COLUMNS)
    if any(row["ppl"] != "" for row in rows):
        _, png = save_figure(fidelity_figure(rows), results / "fidelity")
        tracker.figure("fidelity", png)
    Console(width=None if os.isatty(1) else 140).print(to_rich(summary))
    log.info("tables and figure are in %s", results)
