"""How often do the rules of an explainer come back? (Li et al. 2020, Table 2)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.metric import Row
from xnmt_bench.report.figure import legend_below
from xnmt_bench.report.panels import Panel, told_apart
from xnmt_bench.report.summary import Cell, Line, Summary
from xnmt_bench.rules.density import BINS, density
from xnmt_bench.rules.table import read_rules, shards

SYSTEM = ("corpus", "lang_pair", "nmt", "model", "learned_from")
BIN_COLUMNS = tuple(f"frequency_bin_{n}" for n in range(1, len(BINS) + 2))
BIN_NAMES = [
    *(f"{low + 1}-{high}" if high - low > 1 else str(high) for low, high in pairwise((0, *BINS))),
    f"> {BINS[-1]}",
]
# Of one hue, from rare to frequent: told apart by lightness alone.
SHADES = ("#c6dbef", "#9ecae1", "#6baed6", "#2171b5", "#08306b")
NOTE = (
    "Unique rules of the training set at k = 1 (source word, prefix word and label), and how many "
    "of them come how often. Fewer unique rules: denser patterns."
)


class Density(Analysis):
    """Counts unique rules in every store of training rules, once each."""

    name = "density"

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """One line an explainer; the densest first."""
        # k, scenario of the test and size of a proxy's training do not change the stored rules.
        drawn: dict[tuple[str, ...], dict[str, tuple[Any, Panel]]] = {}
        for panel in panels:
            for name, m in panel.measurements():
                if folder := m.files.get("training_rules"):
                    folders = drawn.setdefault((*_system(panel.condition), name), {})
                    folders.setdefault(folder, (m.identity["seed"], panel))
        stores = {
            # Of an explainer that draws, each seed has rules of its own.
            (*who, f"{name} (seed {seed})" if len(folders) > 1 else name, folder): panel
            for (*who, name), folders in drawn.items()
            for folder, (seed, panel) in folders.items()
        }
        if not stores:
            raise NotApplicable("no explainer has rules of training sentences")
        rows = sorted(map(_row, stores), key=lambda row: (*_system(row), row["unique"]))
        systems = {_system(panel.condition): panel for panel in stores.values()}
        told = told_apart(list(systems.values()), but=("k", "scenario", "train_sentences"))
        texts = dict(zip(systems, told.texts, strict=True))
        measured, lines = ("rules", "unique", *BIN_COLUMNS), []
        for row in rows:
            system = _system(row)
            counts = (f"{row[column]:,}" for column in measured)
            cells = [Cell(text) for text in (*texts[system], row["explainer"], *counts)]
            lines.append(Line(system, cells))
        words = [*told.varying, "explainer"]
        heads = [*words, "rules", "unique", *BIN_NAMES]
        summary = Summary(told.title("Rule density"), heads, lines, [NOTE], len(words))
        figure = _figure(rows, dict(zip(systems, told.phrases, strict=True)))
        return Result(rows, (*SYSTEM, "explainer", "rules_id"), measured, summary, figure)


def _system(columns: Row) -> tuple[str, ...]:
    return tuple(columns[c] for c in SYSTEM)


def _row(key: tuple[str, ...]) -> Row:
    *who, folder = key
    paths = shards(Path(folder), "train")
    total = sum(pq.read_metadata(path).num_rows for path in paths)
    counted = density((read_rules(path, 1) for path in paths), total)
    names = (*SYSTEM, "explainer", "rules_id", "rules", "unique", *BIN_COLUMNS)
    counts = (counted.rules, counted.unique, *counted.bins)
    return dict(zip(names, (*who, Path(folder).name, *counts), strict=True))


def _figure(rows: Sequence[Row], titles: dict[tuple[str, ...], str]) -> Figure:
    """Unique rules by how often they come, one bar an explainer, one axes a system."""
    figure, axes = plt.subplots(len(titles), 1, squeeze=False, sharex=True,
                                figsize=(7.5, 1.2 + 1.9 * len(titles)))  # fmt: skip
    for ax, (system, title) in zip(axes[:, 0], titles.items(), strict=True):
        own = [row for row in rows if _system(row) == system]
        names = [row["explainer"].replace("_", " ") for row in own]
        left = np.zeros(len(own))
        for column, name, shade in zip(BIN_COLUMNS, BIN_NAMES, SHADES, strict=True):
            counts = np.array([row[column] for row in own])
            ax.barh(names, counts, left=left, color=shade, label=name, height=0.7)
            left += counts
        ax.invert_yaxis()  # the densest above
        ax.set_title(title, fontsize=10)
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.grid(axis="x", linewidth=0.3, alpha=0.6)
    axes[-1, 0].set_xlabel("unique rules, by how often they come (fewer: denser)")
    legend_below(figure, axes[:, 0])
    return figure
