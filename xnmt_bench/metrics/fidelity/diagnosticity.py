"""Does a judge order explanations as the model's causes do (Chan et al. 2022, section 3)?

Of two explanations, the one whose words change the model's decision more is the more faithful one.
Diagnosticity is the share of such pairs that a judge orders alike. Pairs of a blind explanation and
one that asks the model are counted apart: a judge that puts the blind one first is deceived.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import mean
from typing import Any

from xnmt_bench.analyses.analysis import Analysis, Result, varying_words
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.measurement import ScoredRow
from xnmt_bench.measuring.metric import Row
from xnmt_bench.metrics.fidelity.evidence import LIKELIHOOD_OF, PLANTED
from xnmt_bench.report.panels import Panel, ends
from xnmt_bench.report.summary import Cell, Line, Summary

CAUSES = "causes"  # the metric whose order is the truth
PLANTED_CAUSE = "causal_planted"
# What orders a pair, and its column of causes.
TRUTHS = {"which": "causal_source", "that": "causal_that_source", "planted": PLANTED_CAUSE}
WORDS = {"nmt": "{}", "k": "k = {}"}  # in the title, where all rows share them
SHOWN = 3  # pairs that are named
NOTE = (
    "Right: of the pairs of explanations whose causal@k intervals do not meet, those that the "
    "judge orders alike. Blind pairs: those among them of a blind explanation and one that asks "
    "the model. Which, that: by all decisions, source words; planted: by the decisions of planted "
    "words alone. Put first wrongly: the explanation that the judge prefers, before the one with "
    "the stronger causes. Pairs of one table share their explanations, so their number says more "
    "than it seems."
)


class Diagnosticity(Analysis):
    """How many pairs of explanations each judge orders as interventions do."""

    name = "diagnosticity"

    def results(self, by_metric: Mapping[str, Sequence[Panel]]) -> Iterator[tuple[str, Result]]:
        """Yield one result, of fidelity's judges beside the causes."""
        judged, causes = by_metric.get("fidelity", ()), by_metric.get(CAUSES, ())
        rows = [row for panel in judged for row in self._rows(panel, causes)]
        if not rows:
            raise NotApplicable(
                "it takes metric=[fidelity,causes] of two explanations or more whose causal@k "
                "differs"
            )
        condition = dict.fromkeys(
            name for panel in judged for name in panel.condition if name in rows[0]
        )
        words, title = varying_words("Diagnosticity: judges and causes", rows, WORDS)
        heads = [
            "judges learn from",
            *words,
            "judge",
            "truth",
            "right %",
            "pairs",
            "blind pairs: right %",
            "pairs",
            "put first wrongly",
        ]
        lines = [Line(tuple(row[c] for c in condition), _cells(row, words)) for row in rows]
        summary = Summary(title, heads, lines, [NOTE], 3 + len(words))
        identity = (*condition, "judge", "truth")
        measured = tuple(n for n in rows[0] if n not in (*identity, "heading"))
        yield f"fidelity_{CAUSES}_{self.name}", Result(rows, identity, measured, summary)

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return nothing: it takes two metrics."""
        raise NotApplicable("diagnosticity is of judges beside causes")

    def _rows(self, panel: Panel, causes: Sequence[Panel]) -> Iterator[Row]:
        truth = _truth_of(panel, causes)
        if truth is None:
            return
        for judge in panel.rows:
            for name, column in TRUTHS.items():
                pairs = list(_pairs(panel, judge, truth, column))
                if not pairs:
                    continue
                blind = [right for *_, right, mixed in pairs if mixed]
                wrong = [f"{a} before {b}" for a, b, right, _ in pairs if not right]
                yield {
                    **panel.condition,
                    "judge": judge,
                    "heading": panel.heading(judge),
                    "truth": name,
                    "right": mean(right for *_, right, _ in pairs),
                    "pairs": len(pairs),
                    "blind_right": mean(blind) if blind else float("nan"),
                    "blind_pairs": len(blind),
                    "wrong": "; ".join(wrong),
                }


def _truth_of(panel: Panel, causes: Sequence[Panel]) -> Panel | None:
    """Return the causes in the same system, at the same k; of the same corpus, if there are any."""

    def same(other: Panel, *columns: str) -> bool:
        return all(other.condition[c] == panel.condition.get(c) for c in columns)

    # What judges learn from changes no cause, so causes on another corpus's name will do.
    alike = [other for other in causes if same(other, "lang_pair", "nmt", "k")]
    return next((o for o in alike if same(o, "corpus")), alike[0] if alike else None)


def _pairs(
    panel: Panel, judge: str, truth: Panel, column: str
) -> Iterator[tuple[str, str, bool, bool]]:
    """Yield pairs whose order is known, the judge's first choice first.

    With each, whether the judge is right, and whether one of both is blind.
    """
    [(_, by_name)] = truth.rows.items()
    scored = {}
    for name in panel.rows[judge]:
        score = _score(panel, judge, name, column)
        caused = [_interval(row, column) for row in by_name.get(name, ())]
        if score is not None and caused and None not in caused:
            lows, highs = zip(*caused, strict=True)  # type: ignore[arg-type]
            scored[name] = (score, min(lows), max(highs))
    for first, second in combinations(sorted(scored, key=lambda n: scored[n][0]), 2):
        (score_a, low_a, high_a), (score_b, low_b, high_b) = scored[first], scored[second]
        if low_a > high_b or low_b > high_a:
            mixed = panel.blind(first) != panel.blind(second)
            # A tie orders nothing, and is not right.
            yield first, second, low_a > high_b and score_a < score_b, mixed


def _score(panel: Panel, judge: str, name: str, column: str) -> float | None:
    """Return a number that is least for the best explanation; None where there is none."""
    if column != PLANTED_CAUSE:
        return panel.rank(judge, name)
    scores = []
    for row in panel.of(judge, name):
        if not row.measurement.ok or row.derived:
            continue
        units = row.measurement.units()
        slots = [c.removeprefix(PLANTED) for c in units.columns if c.startswith(PLANTED)]
        count = sum(units[PLANTED + slot].sum() for slot in slots)
        if count:
            scores.append(-sum(units[LIKELIHOOD_OF + slot].sum() for slot in slots) / count)
    return float(mean(scores)) if scores else None


def _interval(row: ScoredRow, column: str) -> tuple[float, float] | None:
    _, low, high = (row.values.get(name) for name in ends(column))
    # Only NaN differs from itself.
    return None if low is None or high is None or low != low else (low, high)


def _cells(row: dict[str, Any], words: Sequence[str]) -> list[Cell]:
    named = row["wrong"].split("; ")
    wrong = ", ".join(named[:SHOWN]) + (f" and {len(named) - SHOWN} more" * (len(named) > SHOWN))
    blind = f"{100 * row['blind_right']:.0f}" if row["blind_pairs"] else ""
    texts = (
        row["corpus"],
        *(str(row[word]) for word in words),
        row["heading"],
        row["truth"],
        f"{100 * row['right']:.0f}",
        str(row["pairs"]),
        blind,
        str(row["blind_pairs"]),
        wrong,
    )
    return [Cell(text) for text in texts]
