"""The density of each explainer's rules as a table (Li et al. 2020, Table 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq
from matplotlib.figure import Figure
from omegaconf import DictConfig

from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.density import BINS, Density, density
from xnmt_bench.report.analyses.result import Result
from xnmt_bench.report.figure import legend_below
from xnmt_bench.report.panels import Panel, named, told_apart
from xnmt_bench.report.summary import Cell, Line, Row, Summary
from xnmt_bench.rules.table import read_rules, shards

SYSTEM = ("corpus", "lang_pair", "nmt", "model", "learned_from")
BIN_COLUMNS = tuple(f"frequency_bin_{n}" for n in range(1, len(BINS) + 2))
IDENTITY, MEASURED = (*SYSTEM, "explainer", "rules_id"), ("rules", "unique", *BIN_COLUMNS)
# Of one hue, from rare to frequent: told apart by lightness alone.
SHADES = ("#c6dbef", "#9ecae1", "#6baed6", "#2171b5", "#08306b")
NOTE = (
    "Unique rules of the training set at k = 1 (source word, prefix word and label), and how many "
    "of them come how often. Fewer unique rules: denser patterns."
)


def analyse(found: Sequence[Panel], settings: DictConfig) -> Result:
    """Counts every store of training rules once.

    Raises:
        NotApplicable: no explainer has any.
    """
    store = Path(settings.store) / "rules"
    # k, the scenario of the test and the proxies' number of sentences are not the rules' own.
    panel_of = {
        (*_system(panel), name, made_by["rules"]): panel
        for panel in found
        for name, made_by in panel.made_by.items()
        if "rules" in made_by
    }
    learnable = {key: p for key, p in panel_of.items() if (store / key[-1] / "train").is_dir()}
    if not learnable:
        raise NotApplicable("no explainer has rules of training sentences")
    rows = sorted(
        (_row(key, _count(store / key[-1])) for key in learnable),
        key=lambda row: (*(row[c] for c in SYSTEM), row["unique"]),
    )
    systems = {_system(panel): panel for panel in learnable.values()}
    varying, said, texts = told_apart(list(systems.values()), but=("sentences", "k", "scenario"))
    text_of = dict(zip(systems, texts, strict=True))
    lines = []
    for row in rows:
        system = tuple(row[c] for c in SYSTEM)
        counts = [row["rules"], row["unique"], *(row[column] for column in BIN_COLUMNS)]
        cells = [*(text_of[system][name] for name in varying), row["explainer"]]
        lines.append(Line(system, [Cell(c) for c in (*cells, *(f"{n:,}" for n in counts))]))
    heads = [*varying, "explainer", "rules", "unique", *_bins()]
    summary = Summary(", ".join(["Rule density", *said]), heads, lines, [NOTE])
    titles = {system: named(text, varying) for system, text in text_of.items()}
    return Result(rows, IDENTITY, MEASURED, summary, _figure(rows, titles))


def _figure(rows: Sequence[Row], titles: Mapping[tuple[str, ...], str]) -> Figure:
    """Unique rules by how often they come, one bar an explainer, one panel a system."""
    systems = list(dict.fromkeys(tuple(row[c] for c in SYSTEM) for row in rows))
    figure, axes = plt.subplots(len(systems), 1, squeeze=False, sharex=True,
                                figsize=(7.5, 1.2 + 1.9 * len(systems)))  # fmt: skip
    for ax, system in zip(axes[:, 0], systems, strict=True):
        mine = [row for row in rows if tuple(row[c] for c in SYSTEM) == system]
        names = [row["explainer"].replace("_", " ") for row in mine]
        left = np.zeros(len(mine))
        for column, name, shade in zip(BIN_COLUMNS, _bins(), SHADES, strict=True):
            counts = np.array([row[column] for row in mine])
            ax.barh(names, counts, left=left, color=shade, label=name, height=0.7)
            left += counts
        ax.invert_yaxis()  # the densest above
        ax.set_title(titles[system], fontsize=10)
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.grid(axis="x", linewidth=0.3, alpha=0.6)
    axes[-1, 0].set_xlabel("unique rules, by how often they come (fewer: denser)")
    legend_below(figure, axes[:, 0])
    return figure


def _system(panel: Panel) -> tuple[str, ...]:
    return tuple(panel.condition[c] for c in SYSTEM)


def _row(key: tuple[str, ...], counted: Density) -> Row:
    return {
        **dict(zip(IDENTITY, key, strict=True)),
        "rules": counted.rules,
        "unique": counted.unique,
        **dict(zip(BIN_COLUMNS, counted.bins, strict=True)),
    }


def _bins() -> list[str]:
    """The bins' headings, such as `2-10`."""
    edges = [0, *BINS]
    names = [
        str(high) if high - low == 1 else f"{low + 1}-{high}"
        for low, high in zip(edges, BINS, strict=False)
    ]
    return [*names, f"> {BINS[-1]}"]


def _count(folder: Path) -> Density:
    paths = shards(folder, "train")
    total = sum(pq.read_metadata(path).num_rows for path in paths)
    return density((read_rules(path, 1) for path in paths), total)
