"""One static page of all bundles of a folder; rows stand only beside rows of the same system."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from xnmt_bench.bundles.paths import ENDING
from xnmt_bench.bundles.pool import PooledBundle, pool
from xnmt_bench.errors import MissingError
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.measurement import FOLDER, ScoredRow
from xnmt_bench.measuring.metric import Metric
from xnmt_bench.registry import load
from xnmt_bench.report.overview import System, by_system, describe_system, explain_words
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import collect
from xnmt_bench.report.standing import standings_of
from xnmt_bench.report.summary import to_html
from xnmt_bench.report.table import tables
from xnmt_bench.report.verdict import NOTHING_BLIND, definitions, explains_system, verdict
from xnmt_bench.store import write_atomically

log = logging.getLogger(__name__)
DRAWS = Draws(1000, 0)


def write_leaderboard(folder: Path, page: Path, draws: Draws = DRAWS) -> dict[Path, str]:
    """Write the page of all bundles of a folder.

    Args:
        folder: holds bundles, `*.zip`; other files are passed over.
        page: where the page goes; it needs no network and no other file.
        draws: of the intervals.

    Returns:
        What is wrong with each bundle that was left out.

    Raises:
        MissingError: the folder has no bundle that can be read.
    """
    paths = sorted(folder.glob(f"*{ENDING}"))
    if not paths:
        raise MissingError(f"{folder}: no bundle, {ENDING}, is here")
    refused: dict[Path, str] = {}
    with TemporaryDirectory(prefix="leaderboard-") as place:
        pooled = pool(paths, Path(place), refused)
        if not pooled:
            raise MissingError(f"{folder}: no bundle could be read: {next(iter(refused.values()))}")
        scored, left_out = _scored(Path(place), draws)
        origins = {row: p.bundle.path.name for p in pooled for row in p.rows}
        sections = []
        for system, of_system in by_system(scored):
            try:
                sections.append(_section(system, of_system, origins, draws))
            # A bundle can say anything of a row, and the others are shown without it.
            except Exception as error:
                name = " ".join(filter(None, system))
                left_out.append(f"{name}: {type(error).__name__}: {error}")
    loaders = [PackageLoader(f"xnmt_bench.{room}", ".") for room in ("bundles", "report")]
    environment = Environment(loader=ChoiceLoader(loaders), autoescape=True)
    text = environment.get_template("leaderboard.html.jinja").render(
        sections=sections,
        words=explain_words(scored),
        definitions=definitions(scored),
        pooled=sorted(pooled, key=_file_name),
        refused=[
            *(f"{path.name}: {why.removeprefix(f'{path}: ')}" for path, why in refused.items()),
            *left_out,
        ],
        samples=draws.samples,
    )
    page.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(page, text)
    return refused


def _file_name(pooled: PooledBundle) -> str:
    return pooled.bundle.path.name


def _scored(results: Path, draws: Draws) -> tuple[list[tuple[Metric, list[ScoredRow]]], list[str]]:
    """Return every metric of a results folder with its rows, and what was left out, and why."""
    scored, left_out = [], []
    for path in sorted((results / FOLDER).iterdir()):
        metric = load("metrics", path.name)()
        try:
            scored.append((metric, collect(metric, results, draws)))
        # Each bundle makes its tables; what rows of several make together can still be any error.
        except Exception as error:
            problem = f"rows of the bundles do not go together: {type(error).__name__}: {error}"
            log.warning("left out: %s: %s", metric.name, problem)
            left_out.append(f"{metric.name}: {problem}")
    return scored, left_out


def _section(
    system: System,
    scored: list[tuple[Metric, list[ScoredRow]]],
    origins: dict[str, str],
    draws: Draws,
) -> dict[str, Any]:
    """Return what the page shows of one system on one corpus.

    Returns:
        `title`, and `anchor` of it; `system`, what is known of it; `model`, the fingerprint of the
        system or of its family of trainings; `bundles`, the files that its rows come from;
        `verdicts`; `tables` as HTML; `blind`, whether a row that never asks the model stands among
        them; `explained`, whether explainers are compared at all.
    """
    corpus, pair, name, model = system
    blind = any(row.measurement.facts.blind for _, rows in scored for row in rows)
    compared = [(metric, rows, standings_of(metric, rows, draws)) for metric, rows in scored]
    # Without any blind row, one sentence of the page stands for the verdicts of all judges.
    verdicts = [
        sentence
        for metric, rows, standings in compared
        for sentence in verdict(metric, rows, standings)
        if blind or NOTHING_BLIND not in sentence
    ]
    blocks = [
        # Its own heading stands one level below that of the section.
        Markup(to_html(summary).replace("<h2>", "<h3>", 1).replace("</h2>", "</h3>", 1))
        for metric, of_metric, standings in compared
        for _, summary in tables(metric, of_metric, [], standings)
    ]
    files = {
        origin
        for metric, of_metric in scored
        for row in of_metric
        if (origin := origins.get(_row_file(metric, row)))
    }
    return {
        "system": describe_system(system, scored),
        "title": f"{name or 'Without a system'} on {corpus} {pair}".strip(),
        "anchor": re.sub(r"\W+", "-", "-".join(filter(None, (name, corpus, pair, model)))),
        "model": model,
        "bundles": sorted(files),
        "verdicts": verdicts,
        "tables": blocks,
        "blind": blind,
        "explained": any(
            explains_system(panel)
            for metric, rows in scored
            if metric.compared == "explainer"
            for panel in panels(metric, rows)
        ),
    }


def _row_file(metric: Metric, row: ScoredRow) -> str:
    """Return the name of the file that describes a row, as `PooledBundle.rows` has it."""
    path = row.measurement.path
    return f"{metric.name}/{path.with_suffix('.json').name}" if path else ""
