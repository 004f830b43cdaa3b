"""Do two metrics rank alike? Kendall's tau of their rankings (Li et al. 2020, Table 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.bootstrap import Draws, Together
from xnmt_bench.metrics.measurement import Measurement
from xnmt_bench.metrics.metric import Metric, Row
from xnmt_bench.report.panels import Panel, sortable
from xnmt_bench.report.summary import Cell, Line, Summary

LEAST = 3  # things that are ranked: two agree by chance half of the time
NOTE = (
    "Values and places of what both metrics measured; seeds are averaged. tau: Kendall's, 1 where "
    "both rank alike, -1 where one ranks in the other's reverse, with its 95 % bootstrap interval."
)


def kendall_tau(first_ER: np.ndarray, second_ER: np.ndarray) -> np.ndarray:
    """Kendall's tau-a of two scorings of E things, for each of R samples.

    1 where all pairs stand in the same order, -1 where all are reversed; a tie counts as neither.
    """
    pairs = np.asarray(list(combinations(range(len(first_ER)), 2)))
    signs = [np.sign(x[pairs[:, 0]] - x[pairs[:, 1]]) for x in (first_ER, second_ER)]
    return (signs[0] * signs[1]).mean(0)


def places(scores_ER: np.ndarray) -> np.ndarray:
    """Places from 1, least score first; ties share the better place; shape as given."""
    return 1 + (scores_ER[None] < scores_ER[:, None]).sum(1)


@dataclass(frozen=True)
class Ranking:
    """One metric's numbers under one condition.

    Attributes:
        metric: the metric.
        columns: what tells its rows apart, the pivot among it, and what is compared not.
        rows: the measurements of each thing's seeds.
    """

    metric: Metric
    columns: dict[str, Any]
    rows: dict[str, list[Measurement]]

    def system(self, shared: Iterable[str]) -> tuple[Any, ...]:
        """Its values of the columns that another metric has too."""
        return tuple(self.columns[column] for column in sorted(shared))


class Agreement(Analysis):
    """How the rankings of every two metrics agree.

    Rows are joined on the columns that both metrics have. What only one has is fixed, and named.

    Args:
        fixed: values of columns; of a column that is not named here, the greatest there is.
        without: what is not ranked, since its place is known before anything is measured.
        samples: bootstrap samples.
        seed: of the draws.
    """

    name = "agreement"

    def __init__(
        self,
        fixed: Mapping[str, Any] | None = None,
        without: Sequence[str] = (),
        samples: int = 1000,
        seed: int = 0,
    ) -> None:
        self.fixed, self.without = dict(fixed or {}), set(without)
        self.draws = Draws(samples, seed)

    def results(self, by_metric: Mapping[str, Sequence[Panel]]) -> Iterator[tuple[str, Result]]:
        """One answer for every two metrics that compare the same kind of things."""
        answers = 0
        for one, other in combinations(by_metric.values(), 2):
            if one[0].metric.compared == other[0].metric.compared:
                pairs = list(self._joined(one, other))
                if pairs:
                    answers += 1
                    names = f"{one[0].metric.name}_{other[0].metric.name}"
                    yield f"{names}_{self.name}", self._result(pairs)
        if not answers:
            raise NotApplicable(f"no two metrics have {LEAST} rows in common")

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """One metric alone agrees with nothing."""
        raise NotApplicable("agreement is between two metrics")

    def _joined(
        self, one: Sequence[Panel], other: Sequence[Panel]
    ) -> Iterator[tuple[Ranking, Ranking, list[str]]]:
        """Two metrics' rankings that differ in no column that both have."""
        sides = [_rankings(panels) for panels in (one, other)]
        if not all(sides):
            return
        shared = set(sides[0][0].columns) & set(sides[1][0].columns)
        chosen = [self._fixed(side, shared) for side in sides]
        for first, second in product(*chosen):
            if first.system(shared) == second.system(shared):
                names = sorted((first.rows.keys() & second.rows.keys()) - self.without)
                if len(names) >= LEAST:
                    yield first, second, names

    def _fixed(self, rankings: Sequence[Ranking], shared: set[str]) -> list[Ranking]:
        """The rankings whose own columns have the values that are fixed."""
        kept = list(rankings)
        for column in (c for c in rankings[0].columns if c not in shared):
            if column in self.fixed:
                kept = [r for r in kept if r.columns[column] == self.fixed[column]]
            else:  # of each system the greatest it has
                greatest: dict[tuple[Any, ...], Any] = {}
                for r in sorted(kept, key=lambda r: sortable(r.columns[column])):
                    greatest[r.system(shared)] = r.columns[column]
                kept = [r for r in kept if r.columns[column] == greatest[r.system(shared)]]
        return kept

    def _result(self, pairs: Sequence[tuple[Ranking, Ranking, list[str]]]) -> Result:
        first, second, _ = pairs[0]
        shared = [c for c in first.columns if c in second.columns]
        own = [[c for c in r.columns if c not in shared] for r in (first, second)]
        rows: list[Row] = []
        lines, notes = [], [NOTE]
        for one, other, names in pairs:
            values, row = self._compared(one, other, names)
            rows.append(
                {c: one.columns[c] for c in shared}
                | {c: r.columns[c] for r, columns in zip((one, other), own, strict=True)
                   for c in columns} | row
            )  # fmt: skip
            system = " ".join(str(one.columns[c]) for c in ("corpus", "lang_pair", "nmt")
                              if c in one.columns)  # fmt: skip
            ranks = [places(v[:, :1])[:, 0] for v in _least_first((one, other), values)]
            for e in np.argsort(ranks[0], kind="stable"):
                cells = [Cell(system), Cell(names[e])]
                for ranking, value, rank in zip((one, other), values, ranks, strict=True):
                    form = ranking.metric.headline.form
                    cells += [Cell(form(value[e, 0])), Cell(str(rank[e]))]
                lines.append(Line((system,), cells))
            named = "; ".join(_named(r, columns) for r, columns in
                              zip((one, other), own, strict=True))  # fmt: skip
            notes.append(
                f"{system}: {named}: Kendall's tau {row['tau']:.2f} [{row['tau_low']:.2f}, "
                f"{row['tau_high']:.2f}] over {len(names)}; {100 * row['same']:.0f} % of "
                f"{self.draws.samples:,} bootstrap samples give both the same order"
                + ("." if row["paired"] else ", drawn independently: they share no units.")
            )
        heads = [h for r in (first, second) for h in (r.metric.headline.heading, "place")]
        title = f"Agreement of {first.metric.name} and {second.metric.name}"
        thing = "NMT" if first.metric.compared == "nmt" else first.metric.compared
        summary = Summary(title, ["system", thing, *heads], lines, notes, words=2)
        measured = ("tau", "tau_low", "tau_high", "same", "ranked", "paired", "samples")
        return Result(rows, (*shared, *own[0], *own[1]), measured, summary)

    def _compared(
        self, one: Ranking, other: Ranking, names: Sequence[str]
    ) -> tuple[tuple[np.ndarray, np.ndarray], Row]:
        """Both metrics' values (E, 1 + R), and how the rankings agree."""
        metrics = [r.metric for r in (one, other) for _ in names]
        measured = [r.rows[name] for r in (one, other) for name in names]
        together = Together(metrics, measured, self.draws)
        whole = together.values()
        values = (whole[: len(names)], whole[len(names) :])
        usable = ~np.isnan(whole).any(0)
        ranked = [v[:, usable] for v in _least_first((one, other), values)]
        tau_R = kendall_tau(*ranked)
        low, high = np.percentile(tau_R[1:], [2.5, 97.5])
        same = (places(ranked[0]) == places(ranked[1])).all(0)[1:].mean()
        row = {"tau": float(tau_R[0]), "tau_low": float(low), "tau_high": float(high),
               "same": float(same), "ranked": len(names), "paired": together.paired,
               "samples": self.draws.samples}  # fmt: skip
        return values, row


def _rankings(panels: Sequence[Panel]) -> list[Ranking]:
    rankings = []
    for panel in panels:
        for pivot in panel.rows:
            measured = panel.measured(pivot)
            if measured:
                columns = dict(panel.condition)
                if panel.metric.pivot:
                    columns[panel.metric.pivot] = pivot
                rankings.append(Ranking(panel.metric, columns, measured))
    return rankings


def _least_first(rankings: Sequence[Ranking], values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Values such that the least is the best."""
    return [
        -v if r.metric.headline.better == "higher" else v
        for r, v in zip(rankings, values, strict=True)
    ]


def _named(ranking: Ranking, columns: Sequence[str]) -> str:
    """A metric, and what was fixed of it."""
    fixed = ", ".join(f"{c}={ranking.columns[c]}" for c in columns)
    return f"{ranking.metric.name}{f' ({fixed})' if fixed else ''}"
