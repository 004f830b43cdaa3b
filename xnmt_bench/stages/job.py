"""What the two commands do: `train` makes what is missing, `evaluate` reads, scores and reports."""

from __future__ import annotations

import logging
from pathlib import Path
from types import ModuleType

import hydra
import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from xnmt_bench.fitting import TrainerOptions
from xnmt_bench.report.analyses.run import run as run_analyses
from xnmt_bench.report.page import write_page
from xnmt_bench.report.summary import quality_text
from xnmt_bench.report.tracking import Tracker
from xnmt_bench.stages import alignment_job, coreference_job, fidelity_job
from xnmt_bench.stages.systems import plain
from xnmt_bench.stages.translations import Translations

log = logging.getLogger(__name__)

# Each has `train(config, options, tracker)` and `report(config, tracker)`.
METRICS: dict[str, ModuleType] = {
    "fidelity": fidelity_job,
    "aer": alignment_job,
    "coref_attention": coreference_job,
}


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
    """Makes every artefact of the configured job and writes its fragments.

    With `metric=[]` it ends with the trained system.
    """
    with _start(config, "train") as tracker:
        options = TrainerOptions(**plain(config.trainer), logger=tracker.lightning())
        systems = Translations(config, options)
        what = f"{config.nmt.name} in {systems.nmt_path}"
        log.info("%s: %s", what, quality_text(systems.quality))
        for name in config.get("metric") or ():
            METRICS[name].train(config, options, tracker)


def evaluate(config: DictConfig) -> None:
    """Collects every fragment and reports; or, with `explain`, shows one sentence's relevance."""
    with _start(config, "evaluate") as tracker:
        if config.explain:
            from xnmt_bench.stages.explain import explain

            explain(config)
            return
        shown = [
            s for name in config.get("metric") or () for s in METRICS[name].report(config, tracker)
        ]
        shown += run_analyses(config, tracker)
        if shown:
            log.info(
                "everything is on one page: %s", write_page(shown, config, Path(config.results))
            )
