"""The density of each explainer's rules as a table (Li et al. 2020, Table 2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
from omegaconf import DictConfig

from xnmt_bench.metrics.density import BINS, Density, density
from xnmt_bench.report.analyses.result import Result
from xnmt_bench.report.panels import Panel, told_apart
from xnmt_bench.report.summary import Cell, Line, Row, Summary
from xnmt_bench.rules.table import read_rules, shards

SYSTEM = ("corpus", "lang_pair", "nmt", "model", "learned_from")
BIN_COLUMNS = tuple(f"frequency_bin_{n}" for n in range(1, len(BINS) + 2))
COLUMNS = (*SYSTEM, "explainer", "rules_id", "rules", "unique", *BIN_COLUMNS)
NOTE = (
    "Unique rules of the training set at k = 1 (source word, prefix word and label), and how many "
    "of them come how often. Fewer unique rules: denser patterns."
)


def analyse(found: Sequence[Panel], settings: DictConfig) -> Result:
    """Counts every explainer's rules, each store once."""
    rows: list[Row] = []
    first: dict[tuple[str, ...], Panel] = {}
    for panel in found:  # k and the number of training sentences are not the rules' own
        first.setdefault(tuple(panel.condition[c] for c in SYSTEM), panel)
    for system, panel in first.items():
        for name in panel.explainers():
            rules_id = panel.made_by[name]["rules"]
            counted = _count(Path(settings.store) / "rules" / rules_id)
            rows.append(
                {**dict(zip(SYSTEM, system, strict=True)), "explainer": name, "rules_id": rules_id,
                 "rules": counted.rules, "unique": counted.unique,
                 **dict(zip(BIN_COLUMNS, counted.bins, strict=True))}
            )  # fmt: skip
    rows.sort(key=lambda row: (*(row[c] for c in SYSTEM), row["unique"]))
    varying, said, texts = told_apart(list(first.values()), but=("sentences", "k"))
    text_of = dict(zip(first, texts, strict=True))
    lines = [
        Line(
            tuple(row[c] for c in SYSTEM),
            [Cell(text_of[tuple(row[c] for c in SYSTEM)][name]) for name in varying]
            + [Cell(row["explainer"]), Cell(f"{row['rules']:,}"), Cell(f"{row['unique']:,}")]
            + [Cell(f"{row[column]:,}") for column in BIN_COLUMNS],
        )
        for row in rows
    ]
    heads = [*varying, "explainer", "rules", "unique", *_bins()]
    return Result(rows, COLUMNS, Summary(", ".join(["Rule density", *said]), heads, lines, [NOTE]))


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
