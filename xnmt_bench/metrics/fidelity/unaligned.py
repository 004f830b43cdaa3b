"""Target words that no annotator links to anything, and their rules under each explainer.

AER cannot judge them; fidelity can (Li et al. 2020, section 4.4 and Figure 3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice, product
from typing import Any

import numpy as np

from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.analyses.tables import pivoted
from xnmt_bench.corpora.vocabulary.subwords import WORD_START
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.alike import origin
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.metric import TableRow
from xnmt_bench.metrics.fidelity.facets import NMT, kinds_of
from xnmt_bench.options import Natural
from xnmt_bench.report.panels import Panel, distinguish
from xnmt_bench.report.summary import Cell
from xnmt_bench.rules.decision_kinds import GOLD_LINKS
from xnmt_bench.rules.sample import read_sample
from xnmt_bench.rules.table import Rules, read_rules

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

    def __init__(self, examples: Natural = 12) -> None:
        self.examples = examples

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return one line a decision, one column an explainer."""
        kinds = [
            (panel, system, panel_kinds)
            for panel in panels
            # The first training of several: their words without a gold link are the same.
            for system, panel_kinds in islice(kinds_of(panel).items(), 1)
            # Without gold links every kind is empty, and the table would be.
            if (panel_kinds["link"] == GOLD_LINKS[-1]).any()
        ]
        if not kinds:
            raise NotApplicable("no results of a corpus with gold word alignment")
        usable = [panel for panel, *_ in kinds]
        # Each system on its own, since its words without a link are counted in the note.
        by_panel, notes = [], [NOTE]
        phrases = distinguish(usable).phrases
        for (panel, system, panel_kinds), phrase in zip(kinds, phrases, strict=True):
            # The empty kind is of sentences without annotation, and of EOS.
            none_N, judged_N = panel_kinds["link"] == GOLD_LINKS[-1], panel_kinds["link"] != ""
            share = f"{none_N.sum():,} of {judged_N.sum():,} decisions are on words without a gold"
            notes.append(f"{phrase + ': ' if phrase else ''}{share} link.")
            places = (panel_kinds[column][none_N].tolist() for column in ("sentence", "step"))
            unlinked = set(zip(*places, strict=True))
            references = (s.measurement for s in panel.references[NMT])
            # The same system may have a failed row too.
            sampled = (m for m in references if origin(m) == system and "sample" in m.files)
            sample = read_sample(next(sampled).file("sample"))
            # Only the sampled sentences have texts to be shown.
            decisions = [(s, t) for s in sample for t in s["steps"] if (s["number"], t) in unlinked]
            shown = product(decisions[: self.examples], _rules(panel, system).items())
            rows = (_row(panel, *explained, *decision) for decision, explained in shown)
            by_panel.append([row for row in rows if row is not None])
        words = {name: name for name in ("sentence", "target", "label", "step")}

        def cell(row: TableRow) -> Cell:
            return Cell(f"{row['source_words']} | {row['prefix_words']}")

        title = "Words that AER cannot judge"
        summary = pivoted(title, usable, by_panel, words, "explainer", cell, notes)
        identity = (*usable[0].condition, "sentence", "step", "explainer")
        measured = ("target", "label", "source_words", "prefix_words")
        return Result(list(chain(*by_panel)), identity, measured, summary)


def _rules(panel: Panel, system: str) -> dict[str, Rules]:
    """Return each explainer's rules of the browsed sentences, the first seed's of several."""
    rows: dict[str, Measurement] = {}
    for name, m in panel.measurements():
        if "browsed_rules" in m.files and origin(m) == system:
            # Any row will do: judges and sizes of training sets do not change the browsed rules.
            rows.setdefault(name, m)
    k = panel.condition["k"]
    return {name: read_rules(rows[name].file("browsed_rules"), k) for name in sorted(rows)}


def _row(
    panel: Panel, name: str, rules: Rules, sentence: Mapping[str, Any], step: int
) -> TableRow | None:
    """Return an explainer's words of a decision; None where it has no rule of that decision.

    Another `browsed` has fewer sentences, and relevance that comes from a file fewer decisions.
    """
    row_numbers = np.flatnonzero((rules.sentence_N == sentence["number"]) & (rules.step_N == step))
    if not len(row_numbers):
        return None
    [row] = row_numbers

    def words(pieces: Sequence[str], positions: Iterable[int]) -> str:
        # A short rule is padded with -1, and ▁ only marks where a word begins.
        return " ".join(pieces[p].replace(WORD_START, "") for p in positions if p >= 0)

    return {
        **panel.condition,
        "sentence": sentence["number"],
        "step": step,
        "explainer": name,
        "target": words(sentence["target"], [step]),
        "label": words(sentence["labels"], [sentence["steps"].index(step)]),
        "source_words": words(sentence["source"], rules.source_position_NK[row]) or "-",
        "prefix_words": words(sentence["target"], rules.prefix_position_NK[row]) or "-",
    }
