"""Does a judge order explanations as the model's causes do (Chan et al. 2022, section 3)?

Of two explanations, the one whose words change the model's decision more is the more faithful one.
Diagnosticity is the share of such pairs that a judge orders alike. Pairs of a blind explanation and
one that asks the model are counted apart: a judge that puts the blind one first is deceived.

Beside it stands Kendall's tau of the judge's order and that of the causes. Its items are
explainers: of one explainer with several options the default counts, since near-copies of each
other would count for one thing several times. Mixtures with random draws (`diluted`) do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import mean

import numpy as np

from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.analyses.tables import if_known, lines_of, listed, varying_words, written
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.alike import same_decisions
from xnmt_bench.measuring.measurement import SETTINGS, ScoredRow
from xnmt_bench.measuring.metric import TableRow
from xnmt_bench.metrics.fidelity.evidence import LIKELIHOOD_OF, PLANTED
from xnmt_bench.registry import find
from xnmt_bench.report.panels import Panel, ends
from xnmt_bench.report.standing import about_unranked
from xnmt_bench.rules.extract import TEACHER_FORCING

CAUSES = "causes"  # the metric whose order is the truth
PLANTED_CAUSE = "causal_planted"
REPLACED, REMOVED = "causal_source", "causal_removed_source"
# What orders a pair, and its columns of causes, which have to agree.
TRUTHS = {
    "replaced": (REPLACED,),
    "removed": (REMOVED,),
    "both": (REPLACED, REMOVED),
    "planted": (PLANTED_CAUSE,),
}
FEWEST = 3  # items of tau; fewer have hardly an order
WORDS = {"nmt": "{}", "k": "k = {}"}  # in the title, where all rows share them
SHOWN = 3  # pairs that are named
NOTE = (
    "Right: of the pairs of explanations whose causal@k intervals do not meet, those that the "
    "judge orders alike. Blind pairs: those among them of a blind explanation and one that asks "
    "the model. Replaced, removed: by all decisions, source words; both: pairs that both order "
    "alike; planted: by the decisions of planted words alone. Tau: Kendall's tau-b of the judge's "
    "order and that of causal@k, each explainer once and no dial (diluted); it counts pairs whose "
    "intervals meet too. Put first wrongly: the explanation that the judge prefers, before the one "
    "with the stronger causes. Pairs of one table share their explanations, so their number says "
    "more than it seems."
)


class Diagnosticity(Analysis):
    """How many pairs of explanations each judge orders as interventions do."""

    name = "diagnosticity"

    def results(self, by_metric: Mapping[str, Sequence[Panel]]) -> Iterator[tuple[str, Result]]:
        """Yield one result, of fidelity's judges compared with the causes."""
        judged, causes = by_metric.get("fidelity", ()), by_metric.get(CAUSES, ())
        truths = [(panel, _truths_of(panel, causes)) for panel in judged]
        rows = [row for panel, of in truths for truth in of for row in self._rows(panel, truth)]
        if not rows:
            raise NotApplicable(
                "needs metric=[fidelity,causes] with scenario=teacher_forcing of at least two "
                "explainers that differ in causal@k"
            )
        condition = dict.fromkeys(
            name for panel in judged for name in panel.condition if name in rows[0]
        )
        words, title = varying_words("Diagnosticity: judges and causes", rows, WORDS)
        # Causes that were measured in several ways are several truths.
        words += ["causes"] if len({row["causes"] for row in rows}) > 1 else []
        share = if_known(lambda right: f"{100 * right:.0f}")
        summary = listed(
            title,
            ["judges learn from", *words, "judge", "truth"],
            lines_of(rows, condition, ("corpus", *words, "heading", "truth")),
            [
                ("right %", written(share, "right")),
                ("pairs", "{pairs}".format_map),
                ("blind pairs: right %", written(share, "blind_right")),
                ("pairs", "{blind_pairs}".format_map),
                ("tau", written(if_known("{:+.2f}".format), "tau")),
                ("explainers", "{explainers}".format_map),
                ("put first wrongly", written(_first_pairs, "wrong")),
            ],
            [*about_unranked([panel for panel, of in truths if of]), NOTE],
        )
        identity = (*condition, "judge", "truth", "causes")
        measured = tuple(n for n in rows[0] if n not in (*identity, "heading"))
        yield f"fidelity_{CAUSES}_{self.name}", Result(rows, identity, measured, summary)

    def _rows(self, panel: Panel, truth: Panel) -> Iterator[TableRow]:
        for judge in panel.rows:
            for name, columns in TRUTHS.items():
                items = _items(panel, judge, truth, columns)
                pairs = list(_pairs(panel, items))
                if not pairs:
                    continue
                blind = [right for *_, right, mixed in pairs if mixed]
                wrong = [f"{a} before {b}" for a, b, right, _ in pairs if not right]
                yield {
                    **panel.condition,
                    "judge": judge,
                    "heading": panel.heading(judge),
                    "truth": name,
                    "causes": truth.condition[SETTINGS],
                    "right": mean(right for *_, right, _ in pairs),
                    "pairs": len(pairs),
                    "blind_right": mean(blind) if blind else float("nan"),
                    "blind_pairs": len(blind),
                    **_tau(items),
                    "wrong": "; ".join(wrong),
                }


def _truths_of(panel: Panel, causes: Sequence[Panel]) -> list[Panel]:
    """Return the causes in the same system, at the same k; of the same corpus, if there are any.

    There are several where causes were measured with several settings.
    """
    if panel.condition.get("scenario", TEACHER_FORCING) != TEACHER_FORCING:
        return []  # of other decisions than the causes

    alike = [other for other in causes if same_decisions(other.condition, panel.condition)]
    corpora = [other.condition["corpus"] for other in alike]
    own = panel.condition["corpus"]
    # Of one corpus, or rows of two would have the same columns.
    chosen = own if own in corpora else next(iter(corpora), None)
    return [other for other in alike if other.condition["corpus"] == chosen]


@dataclass(frozen=True)
class Item:
    """One explanation, as a judge and the causes see it.

    Attributes:
        score: the judge's; the least is the best.
        causes: of each column of causes, the value and both ends of its interval.
    """

    score: float
    causes: tuple[tuple[float, float, float], ...]


def _items(panel: Panel, judge: str, truth: Panel, columns: Sequence[str]) -> dict[str, Item]:
    """Return the explanations that have a score and every column of causes, by name."""
    by_name = truth.rows.get("", {})  # empty where all its explainers are altered ones
    items = {}
    for name in panel.measured(judge, derived=True, blind=True):
        score = _score(panel, judge, name, columns[0])
        causes = [_cause(by_name.get(name, ()), column) for column in columns]
        if score is not None and None not in causes:
            items[name] = Item(score, tuple(c for c in causes if c is not None))
    return items


def _pairs(panel: Panel, items: Mapping[str, Item]) -> Iterator[tuple[str, str, bool, bool]]:
    """Yield pairs whose order is known, the judge's first choice first.

    With each, whether the judge is right, and whether one of both is blind.
    """
    for first, second in combinations(sorted(items, key=lambda n: items[n].score), 2):
        first_item, second_item = items[first], items[second]
        both = list(zip(first_item.causes, second_item.causes, strict=True))
        before = all(low > high for (_, low, _), (_, _, high) in both)
        behind = all(low > high for (_, _, high), (_, low, _) in both)
        if before or behind:
            mixed = panel.blind(first) != panel.blind(second)
            # A tie orders nothing, and is not right.
            yield first, second, before and first_item.score < second_item.score, mixed


def _tau(items: Mapping[str, Item]) -> TableRow:
    """Return Kendall's tau-b over explainers by one column of causes, and how many there are."""
    # An explainer without changed options stands before those with some.
    plain: dict[str, str] = {}
    for name in sorted(items):
        plain.setdefault(name.partition("[")[0], name)
    for name in [n for n in plain if getattr(find("explainers", n), "for_testing_judges", False)]:
        del plain[name]
    chosen = [items[name] for name in plain.values()]
    number = float("nan")
    if len(chosen) >= FEWEST and len(chosen[0].causes) == 1:
        from scipy import stats  # heavy, and most commands need none

        causes = [item.causes[0][0] for item in chosen]
        number = float(stats.kendalltau([-item.score for item in chosen], causes).statistic)
    return {"tau": number, "explainers": len(chosen)}


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


def _cause(rows: Sequence[ScoredRow], column: str) -> tuple[float, float, float] | None:
    """Return the mean over seeds, and the union of their intervals; None without a number."""
    numbers = [[row.values.get(name) for name in ends(column)] for row in rows]
    # Only NaN differs from itself.
    if not numbers or any(n is None or n != n for seed in numbers for n in seed):
        return None
    values, lows, highs = np.array(numbers, dtype=float).T
    return float(values.mean()), float(lows.min()), float(highs.max())


def _first_pairs(pairs: str) -> str:
    named = pairs.split("; ")
    return ", ".join(named[:SHOWN]) + (f" and {len(named) - SHOWN} more" * (len(named) > SHOWN))
