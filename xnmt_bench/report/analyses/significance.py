"""Which differences between explainers are differences: a paired bootstrap, beside the seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from omegaconf import DictConfig

from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.significance import holm, paired, spread
from xnmt_bench.metrics.stability import ordered
from xnmt_bench.report.analyses.result import Result
from xnmt_bench.report.fidelity_table import HEADINGS
from xnmt_bench.report.panels import CONDITION, Panel, told_apart
from xnmt_bench.report.summary import Cell, Line, Row, Summary, digits

IDENTITY = (*CONDITION, "instantiation", "first", "second")
MEASURED = (
    *("ratio", "ratio_low", "ratio_high", "p", "p_corrected"),
    *("samples", "seeds", "seed_spread", "verdict"),
)
NOTE = (
    "Perplexity of the first explainer over that of the second, with its 95 % interval by a paired "
    "bootstrap over sentences (at least {samples:,} samples): below 1 the first is more faithful. "
    "n.s.: not significant at {level:g}, p-values corrected for the number of pairs (Holm). seeds: "
    "smaller than the spread of the proxies' own seeds, so not called a difference."
)
ONE_SEED = (
    "These proxies were trained with one seed, so nothing is known of the spread of seeds; sweep "
    "seed=0,1,2 to know it."
)


def analyse(found: Sequence[Panel], settings: DictConfig) -> Result:
    """Compares every two explainers of every panel, within each instantiation.

    Raises:
        NotApplicable: there are no two.
    """
    rows = [row for panel in found for row in _rows(panel, settings)]
    if not rows:
        raise NotApplicable("no system has results of two explainers")
    varying, said, texts = told_apart(found)
    lines = []
    for panel, text in zip(found, texts, strict=True):
        mine = [r for r in rows if all(r[c] == panel.condition[c] for c in CONDITION)]
        pairs = dict.fromkeys((r["first"], r["second"]) for r in mine)
        for pair in pairs:
            of = {r["instantiation"]: r for r in mine if (r["first"], r["second"]) == pair}
            cells = [Cell(text[name]) for name in varying] + [Cell(name) for name in pair]
            cells += [_cell(of.get(i)) for i in _instantiations(found)]
            lines.append(Line(tuple(panel.condition.values()), cells))
    heads = [*varying, "explainer", "than", *(HEADINGS[i] for i in _instantiations(found))]
    notes = [NOTE.format(samples=settings.samples, level=settings.level)]
    if any(row["seeds"] == 1 and row["instantiation"] != "base" for row in rows):
        notes.append(ONE_SEED)
    title = ", ".join(["Significance of differences in perplexity", *said])
    return Result(rows, IDENTITY, MEASURED, Summary(title, heads, lines, notes))


def _instantiations(found: Sequence[Panel]) -> list[str]:
    return list(dict.fromkeys(i for panel in found for i in panel.scores))


def _rows(panel: Panel, settings: DictConfig) -> list[Row]:
    """Every pair of explainers; the more faithful by the last instantiation stands first."""
    names = panel.explainers()
    last = list(panel.scores.values())[-1]
    pairs = list(combinations(ordered({name: last[name] for name in names}), 2))
    # The least p-value there can be, corrected for all pairs, has to be able to pass.
    samples = max(settings.samples, math.ceil(4 * len(pairs) / settings.level))
    rows: list[Row] = []
    for instantiation, of in panel.scores.items():
        differences = [paired(of[a], of[b], samples, settings.seed) for a, b in pairs]
        corrected = holm([d.p for d in differences])
        for (a, b), d, p in zip(pairs, differences, corrected, strict=True):
            widest = max(spread(of[a]), spread(of[b]))
            drowned = max(d.ratio, 1 / d.ratio) <= widest
            verdict = "n.s." if p >= settings.level else "seeds" if drowned else "different"
            rows.append(
                {**panel.condition, "instantiation": instantiation, "first": a, "second": b,
                 "ratio": d.ratio, "ratio_low": d.low, "ratio_high": d.high, "p": d.p,
                 "samples": samples, "p_corrected": float(p), "seeds": min(len(of[a]), len(of[b])),
                 "seed_spread": widest, "verdict": verdict}
            )  # fmt: skip
    return rows


def _cell(row: Row | None) -> Cell:
    if row is None:
        return Cell("")
    mark = "" if row["verdict"] == "different" else f" {row['verdict']}"
    low, high = digits(row["ratio_low"]), digits(row["ratio_high"])
    return Cell(f"{digits(row['ratio'])} [{low}, {high}]{mark}")
