"""Target words that no annotator links to anything, and what each explainer says of them.

AER cannot judge them; fidelity can (Li et al. 2020, section 4.4 and Figure 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig

from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.facets import LINKS
from xnmt_bench.report.analyses.result import Result
from xnmt_bench.report.panels import CONDITION, Panel, named, told_apart
from xnmt_bench.report.summary import Cell, Line, Row, Summary
from xnmt_bench.rules.table import Rules

IDENTITY = (*CONDITION, "sentence", "step", "explainer")
MEASURED = ("target", "label", "source_words", "prefix_words")
NOTE = (
    "Decisions on target words without any gold link, from the first sentences of the test set; of "
    "each explainer the most relevant source word and, behind the bar, word of the prefix."
)


def analyse(found: Sequence[Panel], settings: DictConfig) -> Result:
    """Lists the first such decisions of every panel.

    Raises:
        NotApplicable: there are none.
    """
    usable = [p for p in found if p.sample and p.facets is not None and _none(p.facets).any()]
    if not usable:
        raise NotApplicable("no results of a corpus with gold word alignment")
    rows: list[Row] = []
    lines, notes = [], [NOTE]
    varying, said, texts = told_apart(usable)
    names = list(dict.fromkeys(name for panel in usable for name in panel.explainers()))
    for panel, text in zip(usable, texts, strict=True):
        who = named(text, varying)
        notes.append(f"{who + ': ' if who else ''}{_share(panel)}")
        rules = {name: panel.rules(name, Path(settings.store)) for name in panel.explainers()}
        for sentence, step in _decisions(panel)[: settings.examples] if rules else ():
            mine = _rows(panel, rules, sentence, step)
            rows += mine
            of = {
                row["explainer"]: f"{row['source_words']} | {row['prefix_words']}" for row in mine
            }
            head = [
                *(text[c] for c in varying),
                str(sentence["number"]),
                mine[0]["target"],
                mine[0]["label"],
            ]
            cells = [*head, *(of.get(name, "") for name in names)]
            lines.append(Line(tuple(panel.condition.values()), [Cell(c) for c in cells]))
    title = ", ".join(["Words that AER cannot judge", *said])
    headings = [*varying, "sentence", "target", "label", *names]
    return Result(rows, IDENTITY, MEASURED, Summary(title, headings, lines, notes))


def _none(facets: dict[str, np.ndarray]) -> np.ndarray:
    return facets["link"] == LINKS[-1]


def _share(panel: Panel) -> str:
    assert panel.facets is not None
    judged = panel.facets["link"] != ""
    count = int(_none(panel.facets).sum())
    return f"{count:,} of {int(judged.sum()):,} decisions are on words without a gold link."


def _decisions(panel: Panel) -> list[tuple[dict[str, Any], int]]:
    """The sample's sentences and steps whose word has no link."""
    assert panel.facets is not None
    none = _none(panel.facets)
    steps = set(
        zip(
            panel.facets["sentence"][none].tolist(),
            panel.facets["step"][none].tolist(),
            strict=True,
        )
    )
    return [
        (sentence, step)
        for sentence in panel.sample or ()
        for step in sentence["steps"]
        if (sentence["number"], step) in steps
    ]


def _rows(
    panel: Panel, rules_of: Mapping[str, Rules], sentence: dict[str, Any], step: int
) -> list[Row]:
    place = sentence["steps"].index(step)
    rows = []
    for name, rules in rules_of.items():
        [row] = np.flatnonzero((rules.sentence_N == sentence["number"]) & (rules.step_N == step))
        rows.append(
            {**panel.condition, "sentence": sentence["number"], "step": step,
             "target": _plain(sentence["target"][step]), "label": _plain(sentence["labels"][place]),
             "explainer": name,
             "source_words": _words(sentence["source"], rules.source_position_NK[row]),
             "prefix_words": _words(sentence["target"], rules.prefix_position_NK[row])}
        )  # fmt: skip
    return rows


def _words(pieces: list[str], positions_K: np.ndarray) -> str:
    return " ".join(_plain(pieces[p]) for p in positions_K if p >= 0) or "-"


def _plain(piece: str) -> str:
    return piece.replace("▁", "")
