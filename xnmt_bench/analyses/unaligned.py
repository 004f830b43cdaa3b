"""Target words that no annotator links to anything, and what each explainer says of them.

AER cannot judge them; fidelity can (Li et al. 2020, section 4.4 and Figure 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xnmt_bench.analyses.analysis import Analysis, Result, pivoted
from xnmt_bench.analyses.facets import NMT, Kinds, kinds_of
from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.metric import Row
from xnmt_bench.report.panels import Panel, told_apart
from xnmt_bench.report.summary import Cell
from xnmt_bench.rules.facets import GOLD_LINKS
from xnmt_bench.rules.sample import read_sample
from xnmt_bench.rules.table import Rules, all_rules

MEASURED = ("target", "label", "source_words", "prefix_words")
NOTE = (
    "Decisions on target words without any gold link, from the first sentences of the test set; of "
    "each explainer the most relevant source word and, behind the bar, word of the prefix."
)


class Unaligned(Analysis):
    """Lists decisions on words without a gold link.

    Args:
        examples: decisions of each system.
    """

    name = "unaligned"

    def __init__(self, examples: int = 12) -> None:
        self.examples = examples

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """One line a decision, one column an explainer."""
        usable = []
        for panel in panels:
            kinds = kinds_of(panel)
            if kinds is not None and (kinds["link"] == GOLD_LINKS[-1]).any():
                usable.append((panel, kinds))
        if not usable:
            raise NotApplicable("no results of a corpus with gold word alignment")
        found = [panel for panel, _ in usable]
        by_panel, notes = [], [NOTE]
        for (panel, kinds), phrase in zip(usable, told_apart(found).phrases, strict=True):
            none_N, judged_N = kinds["link"] == GOLD_LINKS[-1], kinds["link"] != ""
            share = f"{none_N.sum():,} of {judged_N.sum():,} decisions are on words without a gold"
            notes.append(f"{phrase + ': ' if phrase else ''}{share} link.")
            sample = read_sample(panel.references[NMT].measurement.files["sample"])
            rules = self._rules(panel)
            by_panel.append(
                [
                    _row(panel, name, rules[name], sentence, step)
                    for sentence, step in _decisions(sample, kinds)[: self.examples]
                    for name in rules
                ]
            )
        words = {"sentence": "sentence", "target": "target", "label": "label", "step": "step"}
        summary = pivoted(
            "Words that AER cannot judge", found, by_panel, words, "explainer",
            lambda row: Cell(f"{row['source_words']} | {row['prefix_words']}"), notes,
        )  # fmt: skip
        rows = [row for own in by_panel for row in own]
        return Result(
            rows, (*found[0].condition, "sentence", "step", "explainer"), MEASURED, summary
        )

    def _rules(self, panel: Panel) -> dict[str, Rules]:
        """Each explainer's rules of the test set; of several seeds the first one's."""
        folders: dict[str, str] = {}
        for name, m in panel.measurements():
            if "rules" in m.files:
                folders.setdefault(name, m.files["rules"])
        k = panel.condition["k"]
        return {name: all_rules(Path(folders[name]), "test", k) for name in sorted(folders)}


def _decisions(sample: Sequence[dict[str, Any]], kinds: Kinds) -> list[tuple[dict[str, Any], int]]:
    """The sample's sentences and steps whose word has no link."""
    none_N = kinds["link"] == GOLD_LINKS[-1]
    sentences, steps = (kinds[name][none_N].tolist() for name in ("sentence", "step"))
    wanted = set(zip(sentences, steps, strict=True))
    return [(s, step) for s in sample for step in s["steps"] if (s["number"], step) in wanted]


def _row(panel: Panel, name: str, rules: Rules, sentence: Mapping[str, Any], step: int) -> Row:
    place = sentence["steps"].index(step)
    [row] = np.flatnonzero((rules.sentence_N == sentence["number"]) & (rules.step_N == step))

    def words(pieces: list[str], positions_K: np.ndarray) -> str:
        return " ".join(_plain(pieces[p]) for p in positions_K if p >= 0) or "-"

    return {
        **panel.condition,
        "sentence": sentence["number"],
        "step": step,
        "target": _plain(sentence["target"][step]),
        "label": _plain(sentence["labels"][place]),
        "explainer": name,
        "source_words": words(sentence["source"], rules.source_position_NK[row]),
        "prefix_words": words(sentence["target"], rules.prefix_position_NK[row]),
    }


def _plain(piece: str) -> str:
    return piece.replace("▁", "")
