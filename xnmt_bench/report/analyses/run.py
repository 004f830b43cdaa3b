"""Runs the configured analyses of what is stored."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from omegaconf import DictConfig

from xnmt_bench.errors import NotApplicable, StoreError
from xnmt_bench.report.analyses.curves import by_k, by_scenario, by_train_sentences
from xnmt_bench.report.analyses.density import analyse as density
from xnmt_bench.report.analyses.facets import analyse as facets
from xnmt_bench.report.analyses.normalised import analyse as normalised
from xnmt_bench.report.analyses.rank_stability import analyse as rank_stability
from xnmt_bench.report.analyses.ranking import analyse as ranking
from xnmt_bench.report.analyses.result import Result
from xnmt_bench.report.analyses.significance import analyse as significance
from xnmt_bench.report.analyses.unaligned import analyse as unaligned
from xnmt_bench.report.fidelity import FidelityFragment
from xnmt_bench.report.panels import Panel, panels
from xnmt_bench.report.summary import Shown
from xnmt_bench.report.tracking import Tracker
from xnmt_bench.store import fingerprint

log = logging.getLogger(__name__)
ANALYSES: dict[str, Callable[[Sequence[Panel], DictConfig], Result]] = {
    "rank_stability": rank_stability,
    "significance": significance,
    "density": density,
    "normalised": normalised,
    "facets": facets,
    "unaligned": unaligned,
    "ranking": ranking,
    "scenario": by_scenario,
    "k": by_k,
    "train_sentences": by_train_sentences,
}


def run(config: DictConfig, tracker: Tracker) -> list[Shown]:
    """Makes and shows every configured analysis.

    Raises:
        MissingError: there are no fidelity results yet.
    """
    settings = config.get("analysis") or {}
    if not settings:
        return []
    results = Path(config.results)
    fragments = FidelityFragment.read(results)
    found = panels(fragments)
    scores = sorted(f.made_by["scores"] for f in fragments if f.made_by)
    shown = []
    for name in settings:
        options = {k: v for k, v in settings[name].items() if k != "store"}
        made_from = {**options, "scores": fingerprint({"scores": scores})}
        try:
            result = ANALYSES[name](found, settings[name])
        except NotApplicable as error:
            log.warning("%s: n/a: %s", name, error)
        except StoreError as error:  # one that fails is no reason to lose the others
            log.error("%s: failed: %s", name, error)
        else:
            shown.append(result.publish(name, made_from, results, tracker))
    return shown
