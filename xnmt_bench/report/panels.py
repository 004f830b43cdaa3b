"""Stored log-likelihoods by system, condition, instantiation and explainer, for the analyses."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from xnmt_bench.errors import StoreError
from xnmt_bench.metrics.facets import FACETS
from xnmt_bench.metrics.perplexity import DecisionScores
from xnmt_bench.parquet import read_table
from xnmt_bench.report.fidelity import FAMILY, FidelityFragment, scenario_text, unusual
from xnmt_bench.report.summary import Row, common, system_name
from xnmt_bench.rules.table import Rules, all_rules
from xnmt_bench.store import verified

log = logging.getLogger(__name__)
CONDITION = (
    *("corpus", "lang_pair", "nmt", "model"),
    *("scenario", "learned_from", "train_sentences", "k"),
)
INSTANTIATIONS = ("base", *FAMILY)
# How a panel's columns are said in a title, where all panels agree.
FORMS = {
    "corpus": "{}",
    "NMT": "{}",
    "sentences": "{} training sentences",
    "k": "k = {}",
    "scenario": "{}",
}


@dataclass
class Panel:
    """One system's explainers under one condition, which are compared with each other.

    Attributes:
        condition: the columns of CONDITION.
        scores: instantiation to explainer to the scores of each seed.
        made_by: explainer to the fingerprints of the artefacts behind its scores.
        nmt: the NMT model's scores with its whole context, where they are there.
        facets: of the decisions, by name, with their sentence and step; where they are there.
        sample: some of the sentences in pieces, where they are there.
    """

    condition: dict[str, Any]
    scores: dict[str, dict[str, list[DecisionScores]]] = field(default_factory=dict)
    made_by: dict[str, dict[str, str]] = field(default_factory=dict)
    nmt: DecisionScores | None = None
    facets: dict[str, np.ndarray] | None = None
    sample: list[dict[str, Any]] | None = None

    def rules(self, explainer: str, store: Path) -> Rules:
        """An explainer's rules of the test set, at this panel's k."""
        made_by = self.made_by[explainer]  # older results say nothing of the scenario judged
        folder = store / "rules" / made_by.get("judged", made_by["rules"])
        return all_rules(folder, "test", self.condition["k"])

    def explainers(self) -> list[str]:
        """Those that have every instantiation there is, in alphabetical order."""
        return sorted(set.intersection(*(set(found) for found in self.scores.values())))

    def texts(self, panels: Sequence[Panel]) -> dict[str, str]:
        """What tells the panel from others, by heading."""
        rows: list[Row] = [panel.condition for panel in panels]
        c = self.condition
        return {
            "corpus": f"{c['corpus']} {c['lang_pair']}",
            "NMT": system_name(c["nmt"], c["model"], rows),
            "sentences": f"{c['train_sentences']:,}",
            "k": str(c["k"]),
            "scenario": unusual(c),
        }


def panels(fragments: Sequence[FidelityFragment]) -> list[Panel]:
    """Every system and condition of which something is stored.

    Left out with a warning: a damaged file, and scores of other decisions than the first ones of
    the same condition, which nothing can be compared with.
    """
    found: dict[tuple[Any, ...], Panel] = {}
    nmt: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    decisions: dict[tuple[Any, ...], DecisionScores] = {}
    for fragment in fragments:
        if fragment.scores is None:
            continue
        row = {**fragment.identity, "model": fragment.model}
        try:
            scores = DecisionScores.load(verified(Path(fragment.scores)))
            more = _facets(fragment.facets), read_sample(fragment.sample)
        except StoreError as error:
            log.warning("left out: %s", error)
            continue
        if row["instantiation"] == "nmt":
            nmt[_system(row), row["scenario"]] = (scores, *more)
        elif row["instantiation"] in INSTANTIATIONS:
            condition = {column: row[column] for column in CONDITION}
            first = decisions.setdefault((_system(row), row["scenario"]), scores)
            if not scores.same_decisions(first):
                log.warning("left out: %s: scores of other decisions than others", fragment.scores)
                continue
            panel = found.setdefault(tuple(condition.values()), Panel(condition))
            of = panel.scores.setdefault(row["instantiation"], {})
            of.setdefault(row["explainer"], []).append(scores)
            panel.made_by[row["explainer"]] = fragment.made_by or {}
    for panel in found.values():
        key = (_system(panel.condition), panel.condition["scenario"])
        panel.nmt, panel.facets, panel.sample = nmt.get(key, (None, None, None))
        if panel.nmt and not panel.nmt.same_decisions(decisions[key]):
            panel.nmt = panel.facets = panel.sample = None
        panel.scores = {i: panel.scores[i] for i in INSTANTIATIONS if i in panel.scores}
    # Strings and numbers stand in their own order: 900 before 8,000.
    return [found[key] for key in sorted(found)]


def _system(row: Row) -> tuple[Any, ...]:
    return tuple(row[c] for c in ("corpus", "lang_pair", "nmt", "model"))


def _facets(path: str | None) -> dict[str, np.ndarray] | None:
    if path is None:
        return None
    table = read_table(verified(Path(path)), ("sentence", "step", *FACETS))
    return {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}


def read_sample(path: str | None) -> list[dict[str, Any]] | None:
    """Some sentences in pieces.

    Raises:
        StoreError: they are not readable.
    """
    if path is None:
        return None
    try:
        verified(Path(path))
        return json.loads(Path(path).read_text(encoding="utf-8"))  # type: ignore[no-any-return]
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: not a readable sample: {error}") from None


def told_apart(
    found: Sequence[Panel], but: Iterable[str] = ()
) -> tuple[list[str], list[str], list[dict[str, str]]]:
    """Headings in which panels differ, the phrases of the others, and each panel's texts.

    Args:
        found: the panels.
        but: headings that are not told.
    """
    texts = [panel.texts(found) for panel in found]
    forms = {name: form for name, form in FORMS.items() if name not in set(but)}
    varying, said = common(texts, forms)
    if "scenario" in varying:
        for panel, text in zip(found, texts, strict=True):
            text["scenario"] = scenario_text(panel.condition)
    return varying, said, texts


def named(text: Mapping[str, str], varying: Iterable[str]) -> str:
    """What tells one panel from the others, such as `transformer, k = 2`."""
    return ", ".join(FORMS[name].format(text[name]) for name in varying)
