"""Attention over coreference links as a job: what `train.py` makes and `evaluate.py` reports."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from omegaconf import DictConfig

from xnmt_bench.corpora.parcorfull import ParCorFull
from xnmt_bench.errors import NotApplicable
from xnmt_bench.fitting import TrainerOptions
from xnmt_bench.report.coref_heatmap import Example, save_heatmaps, save_page
from xnmt_bench.report.coreference import COLUMNS, SUBSETS, CorefFragment
from xnmt_bench.report.coreference_table import write_tables
from xnmt_bench.report.summary import Shown, show
from xnmt_bench.report.tracking import Tracker
from xnmt_bench.stages.coreference import EXAMPLES, SIDES, Coreference
from xnmt_bench.store import Artefact

log = logging.getLogger(__name__)


def train(config: DictConfig, options: TrainerOptions, tracker: Tracker) -> None:
    """Weighs the links of the test set by the configured explainer, and by none."""
    stages, results = Coreference(config, options), Path(config.results)
    if isinstance(stages.corpus, ParCorFull):
        _say_counts(stages.corpus)
    try:
        fragments = list(_fragments(stages))
    except Exception as error:
        if "model" in stages.__dict__:
            status = f"failed: {type(error).__name__}: {error}"
            for fragment in _without_numbers(stages, status):
                fragment.write(results)
        raise
    for fragment in fragments:
        fragment.write(results)
        settings = config.metric.coref_attention
        if fragment.identity["links_of"] == "all":
            row = fragment.score(settings.bootstrap_samples, settings.bootstrap_seed)
            number = f"{100 * row['nonzero']:.1f} %" if row["nonzero"] != "" else row["status"]
            log.info("%s, %s side: non-zero weight %s", row["explainer"], row["side"], number)


def _say_counts(corpus: ParCorFull) -> None:
    """Counts beside those of Dinarelli et al. (2024), Table 1."""
    paper = {"en": (2280, 42798, 4206, 425), "de": (2280, 40261, 3377, 306)}
    for language, found in corpus.statistics.items():
        log.info(
            "%s: %d sentences, %d tokens, %d mentions, %d chains (Table 1 of the paper: %s); "
            "%.1f %% of the mentions' tokens are unchanged in the tokenised raw text",
            language,
            found.sentences,
            found.tokens,
            found.mentions,
            found.chains,
            ", ".join(map(str, paper.get(language, ("not there",)))),
            100 * found.matched / max(1, found.mention_tokens),
        )


def _fragments(stages: Coreference) -> Iterator[CorefFragment]:
    job = stages.job()
    try:
        yield from _of(stages, stages.coreference, job)
        rate = 100 * stages.match_rate
        log.info("%.1f %% of the mentions' words are in the system's own translation", rate)
        floor = job | {"explainer": job["explainer"].replace(stages.explainer_name, "uniform")}
        yield from _of(stages, stages.uniform, floor | {"seed": ""})
    except NotApplicable as error:
        log.warning("%s on %s: n/a: %s", stages.explainer_name, stages.config.nmt.name, error)
        yield from _without_numbers(stages, "n/a")


def _without_numbers(stages: Coreference, status: str) -> Iterator[CorefFragment]:
    for side in SIDES:
        job = stages.job() | {"side": side, "links_of": "all"}
        yield CorefFragment(job, stages.model_id, status=status)


def _of(stages: Coreference, artefact: Artefact, job: dict[str, str]) -> Iterator[CorefFragment]:
    for side in SIDES:
        for subset in SUBSETS:
            yield CorefFragment(
                job | {"side": side, "links_of": subset},
                stages.model_id,
                scores=str(artefact.path / f"{side}.parquet"),
                made_by={"coreference": artefact.id},
                facts=artefact.facts[side] if subset == "all" else None,
                quality=stages.quality,
                match_rate=stages.match_rate,
            )


def report(config: DictConfig, tracker: Tracker) -> list[Shown]:
    """Collects the rows and prints the table.

    Raises:
        StoreError: there are no results yet.
    """
    results, settings = Path(config.results), config.metric.coref_attention
    fragments = CorefFragment.read(results)
    rows = [f.score(settings.bootstrap_samples, settings.bootstrap_seed) for f in fragments]
    summary = write_tables(rows, results)
    tracker.table("coref_attention", rows, COLUMNS)
    _draw(fragments, results)
    show(summary)
    return [Shown("coref_attention", summary)]


def _draw(fragments: Sequence[CorefFragment], results: Path) -> None:
    """Heatmaps of each explainer's first links, as files and on one page."""
    examples: dict[str, Example] = {}
    for fragment in fragments:
        if fragment.identity["links_of"] != "all" or fragment.scores is None:
            continue
        path = Path(fragment.scores).parent / EXAMPLES
        if path.exists():  # uniform weights have nothing to show
            described = json.loads(path.read_text(encoding="utf-8"))[fragment.identity["side"]]
            columns = ("corpus", "nmt", "explainer", "seed", "side")
            who = [str(fragment.identity[c]) for c in columns] + [fragment.model[:6]]
            name = re.sub(r"\W+", "_", "_".join(part for part in who if part))
            examples |= {f"{name}_{n}": Example(**e) for n, e in enumerate(described)}
    if examples:
        save_heatmaps(list(examples.items()), results / "coref_attention")
        save_page(list(examples.values()), results / "coref_attention.html")
        log.info("heatmaps are in %s and coref_attention.html", results / "coref_attention")
