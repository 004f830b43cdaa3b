"""Do two metrics rank alike? Kendall's tau of their rankings (Li et al. 2020, Table 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product
from typing import Any

import numpy as np

from xnmt_bench.analyses.analysis import Analysis, Result, estimate
from xnmt_bench.analyses.matrix_figure import Matrix, draw_matrices
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws, JointBootstrap
from xnmt_bench.measuring.measurement import SETTINGS, Measurement, ScoredRow
from xnmt_bench.measuring.metric import SYSTEM, Metric, TableRow
from xnmt_bench.options import Count, Seed
from xnmt_bench.report.panels import Panel, compared_heading, ends, name_of_all, sortable
from xnmt_bench.report.standing import about_unranked
from xnmt_bench.report.summary import Cell, Line, Summary

LEAST = 3  # things that are ranked: two agree by chance half of the time; rankings of a matrix
NOTE = (
    "Values and places of what both metrics measured; seeds are averaged. tau: Kendall's tau-a, 1 "
    "where both rank alike without ties, -1 where one ranks in the other's reverse, with its 95 % "
    "bootstrap interval."
)

MATRIX_NOTE = (
    "Kendall's tau-a of every two rankings of explainers, seeds averaged: 1 where both rank alike "
    "without ties, -1 where one ranks in the other's reverse. In brackets, those whose 95 % "
    "bootstrap interval holds 0; the CSV has the intervals. Blind rows are not ranked."
)


def kendall_tau(first_ER: np.ndarray, second_ER: np.ndarray) -> np.ndarray:
    """Return Kendall's tau-a of two scorings of E things, for each of R samples.

    1 where all pairs are in the same order, -1 where all are reversed; a tie counts as neither.
    """
    pairs = np.asarray(list(combinations(range(len(first_ER)), 2)))
    signs = [np.sign(x[pairs[:, 0]] - x[pairs[:, 1]]) for x in (first_ER, second_ER)]
    # A tie has sign 0, so it is neither agreement nor disagreement.
    return (signs[0] * signs[1]).mean(0)


def places(scores_ER: np.ndarray) -> np.ndarray:
    """Return places from 1, least score first; ties share the better place; shape as given."""
    # (1, E, R) against (E, 1, R): how many have a smaller score.
    return 1 + (scores_ER[None] < scores_ER[:, None]).sum(1)


@dataclass(frozen=True)
class Ranking:
    """One metric's numbers under one condition."""

    metric: Metric
    columns: dict[str, Any]  # what tells its rows apart, the pivot among it, what is compared not
    rows: dict[str, list[Measurement]]  # of each thing, those of its seeds
    settings: str = ""  # in which it differs from other rankings of the metric

    def system(self, shared: Iterable[str]) -> tuple[Any, ...]:
        """Return its values of the columns that another metric has too."""
        return tuple(self.columns[column] for column in shared)

    def named(self, columns: Iterable[str]) -> str:
        """Return the metric, and what was fixed of it."""
        parts = [f"{column}={self.columns[column]}" for column in columns]
        fixed = ", ".join(filter(None, [*parts, self.settings]))
        return f"{self.metric.name}{f' ({fixed})' if fixed else ''}"


Pair = tuple[Ranking, Ranking, list[str]]  # and what both rank


class Agreement(Analysis):
    """How the rankings of every two metrics agree.

    Rows are joined on the columns that both metrics have. What only one has is fixed, and named.

    Args:
        fixed: values of columns. Of a column that only one metric has and that is not named here,
            the greatest there is; one that both have then stands with each of its values. The
            matrix of all rankings has every system.
        samples: bootstrap samples.
        seed: of the draws.
    """

    name = "agreement"

    def __init__(
        self,
        fixed: Mapping[str, Any] | None = None,
        samples: Count = 1000,
        seed: Seed = 0,
    ) -> None:
        self.fixed = dict(fixed or {})
        self.draws = Draws(samples, seed)

    def results(self, by_metric: Mapping[str, Sequence[Panel]]) -> Iterator[tuple[str, Result]]:
        """Yield a result for each pair of metrics that compare the same kind of things."""
        answered = False
        for first_metric, second_metric in combinations(by_metric.values(), 2):
            first, second = first_metric[0].metric, second_metric[0].metric
            # Rankings of explainers and of systems have no thing in common.
            alike = first.compared == second.compared
            if alike and (pairs := list(self._joined(first_metric, second_metric))):
                answered = True
                notes = [*about_unranked(first_metric), *about_unranked(second_metric)]
                yield f"{first.name}_{second.name}_{self.name}", self._result(pairs, notes)
        if by_system := self._by_system(by_metric):
            answered = True
            notes = [*chain.from_iterable(map(about_unranked, by_metric.values()))]
            yield self.name, self._matrix(by_system, notes)
        if not answered:
            fixed = ", ".join(f"{column}={value}" for column, value in self.fixed.items())
            where = f" with analysis.agreement.fixed: {fixed}" if fixed else ""
            raise NotApplicable(f"no two metrics have {LEAST} rows in common{where}")

    def _joined(
        self, first_panels: Sequence[Panel], second_panels: Sequence[Panel]
    ) -> Iterator[Pair]:
        """Yield two metrics' rankings that differ in no column that both have."""
        every = [s for panel in (*first_panels, *second_panels) for s in panel.scored()]
        sides = [list(_rankings(panels, every)) for panels in (first_panels, second_panels)]
        if not all(sides):
            return
        shared = sorted(sides[0][0].columns.keys() & sides[1][0].columns.keys())
        for first, second in product(*(self._fixed(side, shared) for side in sides)):
            fits = all(first.columns[c] in ("", v) for c, v in self.fixed.items() if c in shared)
            if fits and first.system(shared) == second.system(shared):
                # Sorted, since a set of names has another order in every process.
                names = sorted(first.rows.keys() & second.rows.keys())
                if len(names) >= LEAST:
                    yield first, second, names

    def _fixed(self, rankings: Sequence[Ranking], shared: Sequence[str]) -> Sequence[Ranking]:
        """Return the rankings whose own columns have the values that are fixed."""
        for column in (c for c in rankings[0].columns if c not in shared):
            values = {}  # by system; the greatest that it has comes last
            for r in sorted(rankings, key=lambda r: sortable(r.columns[column])):
                # By system, since two systems may have been measured with other sizes.
                values[r.system(shared)] = self.fixed.get(column, r.columns[column])
            # What has no value, such as Base of what it learns from, goes with every value.
            rankings = [r for r in rankings if r.columns[column] in ("", values[r.system(shared)])]
        return rankings

    def _by_system(
        self, by_metric: Mapping[str, Sequence[Panel]]
    ) -> dict[tuple[Any, ...], list[Ranking]]:
        """Return the rankings of explainers of each system that has enough of them.

        A metric with a pivot has one for each of its values.
        """
        # The model too: systems of one name may be two trainings.
        system = (*SYSTEM, "model")
        by_system: dict[tuple[Any, ...], list[Ranking]] = {}
        for panels in by_metric.values():
            metric = panels[0].metric
            every = [s for panel in panels for s in panel.scored()]
            rankings = [r for r in _rankings(panels, every) if len(r.rows) >= LEAST]
            if metric.compared == "explainer" and rankings:
                free = [*system, *([metric.pivot] if metric.pivot else [])]
                for ranking in self._fixed(rankings, free):
                    by_system.setdefault(ranking.system(system), []).append(ranking)
        return {s: rankings for s, rankings in by_system.items() if len(rankings) >= LEAST}

    def _matrix(
        self, by_system: Mapping[tuple[Any, ...], Sequence[Ranking]], unranked: Sequence[str]
    ) -> Result:
        """Return a row for every two rankings of a system, and their taus as a matrix."""
        rows, lines, matrices, notes = [], [], [], [*unranked, MATRIX_NOTE]
        most = max(map(len, by_system.values()))
        for system, rankings in by_system.items():
            columns = dict(zip((*SYSTEM, "model"), system, strict=True))
            words = " ".join(map(str, system[:-1]))
            if [other[:-1] for other in by_system].count(system[:-1]) > 1:
                words += f" {columns['model'][:6]}"
            names = _short_names(rankings)
            notes += [f"{words}: {note}" for note in _fixed_values(names, rankings)]
            tau_NN, texts = np.full((len(names),) * 2, np.nan), np.full((len(names), most), "", "O")
            for i, j in combinations(range(len(names)), 2):
                both = sorted(rankings[i].rows.keys() & rankings[j].rows.keys())
                if len(both) >= LEAST:
                    _, _, row = self._compared(rankings[i], rankings[j], both)
                    rows.append(columns | {"first": names[i], "second": names[j]} | row)
                    tau_NN[i, j] = tau_NN[j, i] = row["tau"]
                    sure = row["tau_low"] > 0 or row["tau_high"] < 0
                    form = "{:.2f}" if sure else "({:.2f})"
                    texts[i, j] = texts[j, i] = form.format(row["tau"])
            matrices.append(Matrix(words, names, tau_NN))
            for i, name in enumerate(names):
                line = (words, f"{i + 1} {name}", *texts[i])
                lines.append(Line((words,), [*map(Cell, line)]))
        headings = ["system", "ranking", *map(str, range(1, most + 1))]
        title = "Agreement of all rankings of explainers"
        summary = Summary(title, headings, lines, notes, 2)
        measured = (*ends("tau"), "same", "ranked", "paired", "samples")
        identity, figure = (*SYSTEM, "model", "first", "second"), draw_matrices(matrices)
        return Result(rows, identity, measured, summary, figure)

    def _result(self, pairs: Sequence[Pair], unranked: Sequence[str]) -> Result:
        """Return a line for each thing that a pair ranks, a row and a note for each pair."""
        first, second, _ = pairs[0]
        shared = [c for c in first.columns if c in second.columns]
        own_columns = [[c for c in r.columns if c not in shared] for r in (first, second)]
        # Shared columns that vary tell the lines apart.
        values = {c: {str(pair[0].columns[c]) for pair in pairs} for c in shared}
        varying = [c for c in shared if c not in SYSTEM and len(values[c]) > 1]
        rows, lines, notes = [], [], [*unranked, NOTE]
        for first_ranking, second_ranking, names in pairs:
            value_MER, place_MER, row = self._compared(first_ranking, second_ranking, names)
            settings = "; ".join(filter(None, [first_ranking.settings, second_ranking.settings]))
            columns = second_ranking.columns | first_ranking.columns | {SETTINGS: settings}
            rows.append(columns | row)
            rankings = zip((first_ranking, second_ranking), own_columns, strict=True)
            named = "; ".join(ranking.named(columns) for ranking, columns in rankings)
            present = (c for c in SYSTEM if c in first_ranking.columns)
            system = " ".join(str(first_ranking.columns[c]) for c in present)
            apart = [f"{c}={str(first_ranking.columns[c])[:20]}" for c in varying]
            system = ", ".join([system, *apart, *filter(None, [settings])])
            for e in np.argsort(place_MER[0, :, 0], kind="stable"):
                texts = [system, names[e]]
                for side, r in enumerate((first_ranking, second_ranking)):
                    texts.append(r.metric.headline.form(value_MER[side, e, 0]))
                    texts.append(str(place_MER[side, e, 0]))
                lines.append(Line((system,), [*map(Cell, texts)]))
            notes.append(
                f"{system}: {named}: Kendall's tau {row['tau']:.2f} [{row['tau_low']:.2f}, "
                f"{row['tau_high']:.2f}] over {len(names)}; {100 * row['same']:.0f} % of "
                f"{self.draws.samples:,} bootstrap samples give both the same order"
                + ("." if row["paired"] else ", drawn independently: they share no units.")
            )
        heads = [h for r in (first, second) for h in (r.metric.headline.heading, "place")]
        title = f"Agreement of {first.metric.name} and {second.metric.name}"
        words = ["system", compared_heading(first.metric)]
        summary = Summary(title, [*words, *heads], lines, notes, len(words))
        measured = (*ends("tau"), "same", "ranked", "paired", "samples")
        identity = (*shared, *own_columns[0], *own_columns[1], SETTINGS)
        return Result(rows, identity, measured, summary)

    def _compared(
        self, first: Ranking, second: Ranking, names: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray, TableRow]:
        """Return values and places (2, E, 1 + R) by both metrics, and how the rankings agree."""
        metrics = [r.metric for r in (first, second) for _ in names]
        measured = [r.rows[name] for r in (first, second) for name in names]
        # All 2E things at once, so that both rankings are of the same samples.
        together = JointBootstrap(metrics, measured, self.draws)
        value_MER = together.values().reshape(2, len(names), -1)
        headlines = (first.metric.headline, second.metric.headline)
        scores = [c.least_first(v_ER) for c, v_ER in zip(headlines, value_MER, strict=True)]
        place_MER = np.stack([places(score_ER) for score_ER in scores])
        # A sample in which one thing has no number ranks nothing.
        usable_R = ~np.isnan(value_MER).any((0, 1))
        tau_R = np.full(usable_R.shape, np.nan)
        tau_R[usable_R] = kendall_tau(*(score_ER[:, usable_R] for score_ER in scores))
        same_R = np.where(usable_R, (place_MER[0] == place_MER[1]).all(0), np.nan)
        row = {
            "same": float(np.nanmean(same_R[1:])) if usable_R[1:].any() else float("nan"),
            "ranked": len(names),
            "paired": together.paired,
            "samples": self.draws.samples,
        }
        return value_MER, place_MER, row | dict(zip(ends("tau"), estimate(tau_R), strict=True))


def _short_names(rankings: Sequence[Ranking]) -> list[str]:
    """Return metrics with the values of their pivots, and settings where these decide."""
    short = [
        f"{r.metric.name}{f' {r.columns[r.metric.pivot]}' if r.metric.pivot else ''}"
        for r in rankings
    ]
    return [
        f"{name} ({ranking.settings})" if short.count(name) > 1 else name
        for name, ranking in zip(short, rankings, strict=True)
    ]


def _fixed_values(names: Sequence[str], rankings: Sequence[Ranking]) -> Iterator[str]:
    """Yield what was fixed of each ranking that has further columns."""
    for name, ranking in zip(names, rankings, strict=True):
        apart = {*SYSTEM, "model", ranking.metric.pivot}
        fixed = [f"{c}={v}" for c, v in ranking.columns.items() if c not in apart and v != ""]
        if fixed:
            yield f"{name}: {', '.join(fixed)}."


def _rankings(panels: Sequence[Panel], every: Sequence[ScoredRow]) -> Iterator[Ranking]:
    """Yield the rankings of a metric; `every` row of the metrics that are compared names them."""
    for panel in panels:
        if panel.metric.headline.better is None:
            continue  # neither end is the better one, so nothing is ranked
        for pivot, measured in panel.by_pivot().items():
            pivot_column = {panel.metric.pivot: pivot} if panel.metric.pivot else {}
            # Two metrics are joined also where their settings differ, such as their test sets.
            condition = {c: v for c, v in panel.condition.items() if c != SETTINGS}
            settings = panel.condition.get(SETTINGS, "")
            named = {name_of_all(panel, name, every): seeds for name, seeds in measured.items()}
            yield Ranking(panel.metric, condition | pivot_column, named, settings)
