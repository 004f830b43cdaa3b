"""One self-contained HTML page: every table and figure of a report, and sentences to browse."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from omegaconf import DictConfig, OmegaConf

from xnmt_bench.errors import StoreError
from xnmt_bench.report.fidelity import FidelityFragment, scenario_text
from xnmt_bench.report.fragments import FOLDER, Fragment
from xnmt_bench.report.panels import read_sample
from xnmt_bench.report.summary import Shown, to_html
from xnmt_bench.rules.table import all_rules
from xnmt_bench.store import write_atomically

log = logging.getLogger(__name__)
PAGE = "report.html"


def write_page(shown: Sequence[Shown], config: DictConfig, results: Path) -> Path:
    """Writes `report.html`: it needs no network and no other file.

    Args:
        shown: tables and figures, in reading order.
        config: the report's own configuration.
        results: the folder of the fragments, where the page goes.
    """
    environment = Environment(loader=PackageLoader("xnmt_bench.report", "."), autoescape=True)
    fragments = _fragments(results)
    page = environment.get_template("page.html.jinja").render(
        sections=[
            {"name": s.name, "table": Markup(to_html(s.summary)), "figure": _embedded(s.figure)}
            for s in shown
        ],
        # `<` could end the script that holds the data.
        browsed=Markup(
            json.dumps(_browsed(fragments, config), ensure_ascii=False).replace("<", "\\u003c")
        ),
        config=OmegaConf.to_yaml(config, resolve=True),
        signatures=sorted(_signatures(results)),
    )
    write_atomically(results / PAGE, page)
    return results / PAGE


def _embedded(figure: Path | None) -> str | None:
    """A figure as a data URL, so that its identifiers cannot collide with another's."""
    if figure is None:
        return None
    return "data:image/svg+xml;base64," + base64.b64encode(figure.read_bytes()).decode()


def _fragments(results: Path) -> list[FidelityFragment]:
    folder = results / FOLDER / FidelityFragment.METRIC
    return FidelityFragment.read(results) if folder.is_dir() else []


def _signatures(results: Path) -> list[str]:
    """Fingerprints of everything that the numbers were made from."""
    found = set()
    for path in sorted((results / FOLDER).glob("*/*.json")):
        described: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        parts = {
            **described["identity"],
            "model": described["model"],
            **(described["made_by"] or {}),
        }
        found.add(
            f"{path.parent.name}|" + "|".join(f"{k}:{v}" for k, v in parts.items() if v != "")
        )
    return list(found)


def _browsed(fragments: Sequence[FidelityFragment], config: DictConfig) -> list[dict[str, Any]]:
    """Each system's sample of sentences, with the words that each explainer picked."""
    systems = []
    for sample in (f for f in fragments if f.sample is not None):
        try:
            sentences = read_sample(sample.sample)
        except StoreError as error:
            log.warning("not on the page: %s", error)
            continue
        if not sentences:
            continue
        rules = {
            _name(f): f.made_by["judged"]
            for f in fragments
            if f.made_by and "judged" in f.made_by and _system(f) == _system(sample)
            and f.identity["k"] == config.k
        }  # fmt: skip
        for name, identifier in sorted(rules.items()):
            _pick(sentences, name, Path(config.store) / "rules" / identifier, config.k)
        who = sample.identity
        where = f"{who['corpus']} {who['lang_pair']}, {who['nmt']}, {scenario_text(who)}"
        title = f"{where}, k = {config.k}"
        systems.append({"title": title, "sentences": sentences})
    return systems


def _name(fragment: Fragment) -> str:
    seed = fragment.identity["seed"]
    drawn = fragment.identity["explainer"] == "random" and seed != ""
    return fragment.identity["explainer"] + (f" (seed {seed})" if drawn else "")


def _system(fragment: Fragment) -> tuple[Any, ...]:
    columns = ("corpus", "lang_pair", "nmt", "scenario")
    return (*(fragment.identity[c] for c in columns), fragment.model)


def _pick(sentences: list[dict[str, Any]], name: str, folder: Path, k: int) -> None:
    """Adds an explainer's words to each sentence: their positions, most relevant first."""
    try:
        rules = all_rules(folder, "test", k)
    except StoreError:  # of another store; the tables do not need it
        return
    for sentence in sentences:
        mine = rules.take(np.flatnonzero(rules.sentence_N == sentence["number"]))
        order = np.argsort(mine.step_N)
        source, prefix = mine.source_position_NK[order], mine.prefix_position_NK[order]
        sentence.setdefault("picked", {})[name] = {
            "source": [[int(p) for p in row if p >= 0] for row in source],
            "prefix": [[int(p) for p in row if p >= 0] for row in prefix],
        }
