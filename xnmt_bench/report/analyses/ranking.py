"""Two instantiations' rankings side by side, and where they disagree (Li et al. 2020, Table 6)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from omegaconf import DictConfig

from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.ranking import ranks
from xnmt_bench.report.analyses.result import Result
from xnmt_bench.report.fidelity_table import HEADINGS
from xnmt_bench.report.panels import CONDITION, Panel, told_apart
from xnmt_bench.report.summary import Cell, Line, Row, Summary, digits

IDENTITY = (*CONDITION, "explainer", "instantiation")
MEASURED = ("ppl", "rank", "agrees")
NOTE = (
    "PPL of each explainer and its rank, 1 the most faithful. Ranks in brackets are not those of "
    "the last column, whose predictor was trained on rules and so has no mismatch to suffer from."
)


def analyse(found: Sequence[Panel], settings: DictConfig) -> Result:
    """Ranks the explainers by each instantiation.

    Raises:
        NotApplicable: no panel has all of the instantiations.
    """
    wanted = list(settings.instantiations)
    usable = [panel for panel in found if set(wanted) <= set(panel.scores)]
    if not usable:
        raise NotApplicable(f"no results have all of {', '.join(wanted)}")
    rows: list[Row] = []
    lines = []
    varying, said, texts = told_apart(usable)
    for panel, text in zip(usable, texts, strict=True):
        names = [name for name in settings.explainers if name in panel.explainers()]
        ppl_IE = np.array(
            [[np.mean([s.perplexity for s in panel.scores[i][n]]) for n in names] for i in wanted]
        )
        rank_IE = ranks(ppl_IE)
        agrees_IE = rank_IE == rank_IE[-1]
        for e in np.argsort(ppl_IE[-1], kind="stable") if names else ():
            cells = [Cell(text[name]) for name in varying] + [Cell(names[e])]
            for i, instantiation in enumerate(wanted):
                ppl, rank, agrees = float(ppl_IE[i, e]), int(rank_IE[i, e]), bool(agrees_IE[i, e])
                cells += [Cell(digits(ppl)), Cell(str(rank) if agrees else f"({rank})")]
                rows.append({**panel.condition, "explainer": names[e], "ppl": ppl, "rank": rank,
                             "instantiation": instantiation, "agrees": agrees})  # fmt: skip
            lines.append(Line(tuple(panel.condition.values()), cells))
    if not rows:
        raise NotApplicable("no results of any of the explainers")
    heads = [*varying, "explainer"]
    heads += [head for i in wanted for head in (f"{HEADINGS[i]} PPL", "rank")]
    title = ", ".join(["Rankings by " + " and ".join(HEADINGS[i] for i in wanted), *said])
    return Result(rows, IDENTITY, MEASURED, Summary(title, heads, lines, [NOTE]))
