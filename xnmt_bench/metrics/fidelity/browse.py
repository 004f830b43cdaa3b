"""Sentences to browse on the page: which words did each explainer pick for each decision?"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xnmt_bench.errors import StoreError
from xnmt_bench.metrics.measurement import Measurement
from xnmt_bench.metrics.metric import SYSTEM, Section
from xnmt_bench.rules.sample import read_sample
from xnmt_bench.rules.table import Rules, all_rules

log = logging.getLogger(__name__)


def browse(measurements: Sequence[Measurement]) -> list[Section]:
    """One section in which every system's sample can be browsed, at each k that has rules."""
    systems = []
    for sampled in (m for m in measurements if "sample" in m.files):
        explained = [
            m for m in measurements if "rules" in m.files and _system(m) == _system(sampled)
        ]
        for k in sorted({m.identity["k"] for m in explained}):
            try:
                sentences = read_sample(sampled.files["sample"])
            except StoreError as error:
                log.warning("not on the page: %s", error)
                continue
            for name, folder in _named([m for m in explained if m.identity["k"] == k]):
                _pick(sentences, name, Path(folder), k)
            corpus, lang_pair, nmt, scenario, _ = _system(sampled)
            scenario = scenario.replace("_", " ")
            title = f"{corpus} {lang_pair}, {nmt}, {scenario}, k = {k}"
            systems.append({"title": title, "sentences": sentences})
    if not systems:
        return []
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("xnmt_bench.metrics.fidelity", "."))
    # `<` could end the script that holds the data.
    data = json.dumps(systems, ensure_ascii=False).replace("<", "\\u003c")
    html = environment.get_template("browse.html.jinja").render(browsed=data)
    return [Section("browse", "Sentences: which words did each explainer pick?", html)]


def _system(measurement: Measurement) -> tuple[Any, ...]:
    columns = (*SYSTEM, "scenario")
    return (*(measurement.identity[c] for c in columns), measurement.model)


def _named(measurements: Sequence[Measurement]) -> list[tuple[str, str]]:
    """Explainers and the folders of their rules; of one that draws, each seed has its own."""
    folders: dict[str, dict[str, Any]] = {}
    for m in measurements:
        seeds = folders.setdefault(m.identity["explainer"], {})
        # A proxy's seed is its own; Base's is the explainer's.
        if m.files["rules"] not in seeds or m.identity["instantiation"] == "base":
            seeds[m.files["rules"]] = m.identity["seed"]
    return sorted(
        (f"{name} (seed {seed})" if len(seeds) > 1 else name, folder)
        for name, seeds in folders.items()
        for folder, seed in seeds.items()
    )


def _pick(sentences: list[dict[str, Any]], name: str, folder: Path, k: int) -> None:
    """Adds an explainer's words to each sentence: their positions, most relevant first."""
    try:
        rules = all_rules(folder, "test", k)
    except StoreError:  # of another store; the tables do not need it
        return
    for sentence in sentences:
        own: Rules = rules.take(np.flatnonzero(rules.sentence_N == sentence["number"]))
        own = own.take(np.argsort(own.step_N))
        sides = {"source": own.source_position_NK, "prefix": own.prefix_position_NK}
        sentence.setdefault("picked", {})[name] = {
            side: [row[row >= 0].tolist() for row in positions_NK]
            for side, positions_NK in sides.items()
        }
