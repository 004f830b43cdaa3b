"""The dial for leaks: does a judge credit a code that hides the label in the choice of words?

`explainer=diluted` replaces an honest explanation at a share of the decisions, by a code or by
random draws. Neither is chosen for what words mean, so a judge that reads only words says the same
of both. What it says differently stands as a share of the judge's own range, from the honest
explanation to random draws at every decision.

Shapes: R draws, after the whole test set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from xnmt_bench.analyses.analysis import Analysis, Result, estimate
from xnmt_bench.analyses.tables import (
    beside,
    if_known,
    lines_of,
    listed,
    varying_words,
    written,
    yes_or_no,
)
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.alike import same_decisions
from xnmt_bench.measuring.bootstrap import Draws, JointBootstrap
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.metric import Column, TableRow, hundredths
from xnmt_bench.options import Count, Part, Seed
from xnmt_bench.registry import load, options
from xnmt_bench.report.panels import Panel
from xnmt_bench.report.standing import about_unranked

EXPLAINER = "diluted"
RANDOM = "random"  # the replacement that hides nothing
CODES = {"code": "words", "place_code": "places", "frequency_code": "frequencies"}
CAUSAL = "causal_source"  # of `metric=[causes]`: both dials name causes equally seldom
# In the title, where all rows share them.
WORDS = {"nmt": "{}", "k": "k = {}", "honest": "{}", "draws": "seed {} of the draws"}
NO_RANGE = 0.025  # of the samples may have no range, at most
TAKES = (
    "it takes explainer=diluted with explainer.phi.by=code,random, at explainer.phi.share=0.0,1.0 "
    "and at shares between"
)
NOTE = (
    "An honest explanation is replaced at a share of the decisions, by a code of the label or by "
    "random draws. Difference: log PPL of the code less that of random draws, in % of the judge's "
    "own range (log PPL of random draws at every decision less that of the honest explanation), "
    "with its 95 % bootstrap interval over sentences ({samples:,} samples). Below 0 the judge "
    "credits the code. Holds: all intervals lie within {limit:g} %."
)
CAUSES_NOTE = (
    "Causal@k: the greatest difference between code and random draws of causal@k, source words, in "
    "points. It has to be small for both to deserve the same."
)
# Explainers by replacement and share, of one honest explainer.
Dials = dict[tuple[str, float], list[Measurement]]


class Dial(Analysis):
    """Asks whether judges credit a code more than random draws at the same share of decisions.

    Args:
        samples: bootstrap samples.
        seed: of the draws.
        limit: of the difference, as a share of the judge's range.
    """

    name = "dial"

    def __init__(self, samples: Count = 1000, seed: Seed = 0, limit: Part = 0.05) -> None:
        self._draws, self._limit = Draws(samples, seed), limit

    def results(self, by_metric: Mapping[str, Sequence[Panel]]) -> Iterator[tuple[str, Result]]:
        """Yield one result, of fidelity's judges, with the causes where there are any."""
        of_panel = [(panel, [*self._judge(panel)]) for panel in by_metric.get("fidelity", ())]
        rows = [row for _, of_one in of_panel for row in of_one]
        if not rows:
            raise NotApplicable(TAKES)
        _add_causes(rows, by_metric.get("causes", ()))
        unranked = about_unranked([panel for panel, of_one in of_panel if of_one])
        yield f"fidelity_{self.name}", self._lay_out(rows, unranked)

    def _judge(self, panel: Panel) -> Iterator[TableRow]:
        """Yield a row for each judge, honest explainer, code and share."""
        column = panel.metric.headline
        for pivot, by_name in panel.by_pivot(blind=True).items():
            for (honest, seed), dials in _dials_of(by_name).items():
                for (by, share), measurements in sorted(dials.items()):
                    if by == RANDOM or share == 0 or (RANDOM, share) not in dials:
                        continue
                    start = next((dials[b, s] for b, s in dials if s == 0), by_name.get(honest))
                    if start is None or (RANDOM, 1.0) not in dials:
                        continue
                    groups = [start, dials[RANDOM, 1.0], measurements, dials[RANDOM, share]]
                    yield {
                        **panel.condition,
                        "judge": pivot,
                        "heading": panel.heading(pivot),
                        "honest": honest,
                        "draws": seed,
                        "by": by,
                        "share": share,
                        **self._difference(panel, column, groups),
                    }

    def _difference(
        self, panel: Panel, column: Column, groups: Sequence[Sequence[Measurement]]
    ) -> TableRow:
        """Return the difference as a share of the range, of the honest one, random, and a pair."""
        joint = JointBootstrap([panel.metric] * len(groups), groups, self._draws)
        honest_R, random_R, code_R, drawn_R = np.log(joint.values(column.name))
        range_R = random_R - honest_R
        # A judge that does not prefer the honest explanation has no range to measure by.
        range_R = np.where(range_R > 0, range_R, np.nan)
        shares_R = (code_R - drawn_R) / range_R
        difference, low, high = estimate(shares_R)
        # Of too few samples with a range the interval would be that of the favourable ones.
        has_range = not np.isnan(difference) and np.isnan(shares_R).mean() <= NO_RANGE
        return {
            "difference": difference,
            "low": low,
            "high": high,
            "nats": float(code_R[0] - drawn_R[0]),
            "range": float(random_R[0] - honest_R[0]),
            "holds": bool(has_range and low > -self._limit and high < self._limit),
        }

    def _lay_out(self, rows: Sequence[TableRow], unranked: Sequence[str]) -> Result:
        words, title = varying_words("The dial for leaks: who credits a code?", rows, WORDS)
        condition = [n for n in rows[0] if n in ("corpus", *WORDS)]
        shares = sorted({row["share"] for row in rows})
        causal = any(not np.isnan(row["causal_difference"]) for row in rows)
        lines: list[TableRow] = []
        for by_share in beside(rows, ("corpus", *words, "heading", "by"), "share").values():
            members = list(by_share.values())
            # The whole line; NaN where the causes of one share are not known.
            causal_difference = np.max(np.abs([row["causal_difference"] for row in members]))
            summed = {"causal": causal_difference, "holds": all(r["holds"] for r in members)}
            code = CODES.get(members[0]["by"], members[0]["by"])
            lines.append(members[0] | summed | {"code": code, "shares": by_share})
        causes = ("causal@k", written(if_known(hundredths), "causal"))
        notes = [*unranked, NOTE.format(samples=self._draws.samples, limit=100 * self._limit)]
        notes += [CAUSES_NOTE] if causal else []
        summary = listed(
            title,
            ["judges learn from", *words, "judge", "code of"],
            lines_of(lines, condition, ("corpus", *words, "heading", "code")),
            [
                *((f"{100 * share:g} %", partial(_cell, share)) for share in shares),
                *([causes] if causal else []),
                ("holds", written(yes_or_no, "holds")),
            ],
            notes,
        )
        measured = ("difference", "low", "high", "nats", "range", "holds", "causal_difference")
        identity = tuple(n for n in rows[0] if n not in (*measured, "heading"))
        return Result(rows, identity, measured, summary)


def _dials_of(by_name: Mapping[str, list[Measurement]]) -> dict[tuple[str, str], Dials]:
    """Return the dials among rows, by the explanation that they replace, and the draws' seed."""
    defaults = options(load("explainers", EXPLAINER))
    dials: dict[tuple[str, str], Dials] = {}
    for name, measurements in by_name.items():
        # As names are written: `diluted[by=random, share=0.25]`, the defaults left out.
        match = re.fullmatch(rf"{EXPLAINER}(?:\[(.*)\])?", name)
        if match is None:
            continue
        changed = dict(part.split("=", 1) for part in (match[1] or "").split(", ") if part)
        # Such as the precision of all relevance, which a name has too and the dial does not.
        shared = ", ".join(f"{o}={v}" for o, v in changed.items() if o not in defaults)
        chosen = defaults | changed
        honest = chosen["of"] + (f"[{shared}]" if shared else "")
        # Draws of another seed replace other decisions, so they are another dial.
        dial = (honest, str(chosen["seed"]))
        dials.setdefault(dial, {})[chosen["by"], float(chosen["share"])] = measurements
    return dials


def _add_causes(rows: Sequence[TableRow], causes: Sequence[Panel]) -> None:
    """Set the difference of causal@k of code and random draws, in place; NaN if not measured."""
    measured = [
        (panel, dial, dials)
        for panel in causes
        for by_name in panel.by_pivot(blind=True).values()
        for dial, dials in _dials_of(by_name).items()
    ]
    for row in rows:
        keys = [(by, row["share"]) for by in (row["by"], RANDOM)]
        differences = []
        for panel, dial, dials in measured:
            fits = dial == (row["honest"], row["draws"]) and same_decisions(panel.condition, row)
            if fits and dials.keys() >= {*keys}:
                pair = [dials[key] for key in keys]
                joint = JointBootstrap([panel.metric] * 2, pair, Draws(0, 0))
                code, drawn = joint.values(CAUSAL)[:, 0]
                differences.append(float(code - drawn))
        # Causes may be measured with several settings; the one that differs most decides.
        known = (difference for difference in differences if not np.isnan(difference))
        row["causal_difference"] = max(known, key=abs, default=float("nan"))


def _cell(share: float, line: TableRow) -> str:
    row = line["shares"].get(share)
    if row is None:
        return ""
    if np.isnan(row["difference"]):
        return "no range"
    return written(lambda x: f"{100 * x:+.1f}", "difference", "low", "high")(row)
