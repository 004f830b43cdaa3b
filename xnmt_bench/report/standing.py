"""Where each explainer stands to the rows that never ask the model: a test, and three words."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from xnmt_bench.measuring.alike import origin
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.comparing import Difference, compare, holm, share_units
from xnmt_bench.measuring.measurement import ScoredRow
from xnmt_bench.measuring.metric import Metric
from xnmt_bench.report.panels import Panel, distinguish, panels

Word = Literal["better", "alike", "worse", "untested", "unranked"]
LEVEL = 0.05
LEAST_UNITS = 20  # below, a test says little, and none is made


@dataclass(frozen=True)
class Standing:
    """How an explainer stands to the blind rows of its panel.

    Attributes:
        word: `better` than every blind row; `alike`, not told apart from one; `worse` than one;
            `untested`, where they share too few units; or `unranked`, where the metric says that
            the numbers of its column rank nothing.
        against: that blind row: of an explainer that is better than all, the one nearest to it;
            empty of one that is unranked.
        difference: of the explainer from it; None where nothing was tested.
        p: corrected for the number of explainers; of `worse` also for that of blind rows.
        units: how many both share.
        why: of one that is unranked: the rest of a sentence about its column.
    """

    word: Word
    against: str
    difference: Difference | None
    p: float
    units: int
    why: str = ""


Standings = Mapping[str, Mapping[str, Standing]]  # by value of the pivot and explainer


def standings_of(metric: Metric, scored: Sequence[ScoredRow], draws: Draws) -> list[Standings]:
    """Return the standings of each panel of a metric, in the order of `panels`.

    Where numbers do not depend on which words are named, blind rows are beaten by construction, and
    nothing is compared.
    """
    compared = metric.compared == "explainer" and metric.of_words
    return [
        {pivot: compare_with_blind(panel, pivot, draws) for pivot in panel.rows} if compared else {}
        for panel in panels(metric, scored)
    ]


def compare_with_blind(panel: Panel, pivot: str, draws: Draws) -> dict[str, Standing]:
    """Return where each explainer of a panel stands, by its name.

    Without a blind row there is nothing to stand to, unless the metric ranks nothing here.

    Each explainer is compared with every blind row, paired over the units that both have. It is
    better if it is better than all of them: all of these tests have to reject, so that their number
    needs no correction (Berger 1982). It is worse if it is worse than one of them, whose number is
    corrected for. Both p-values are corrected for the number of explainers (Holm 1979).

    Args:
        panel: whose rows.
        pivot: the value of the pivot.
        draws: of the intervals and the tests, at the least.
    """
    by_name = panel.measured(pivot, derived=True, blind=True)
    blind = {name: rows for name, rows in by_name.items() if panel.blind(name)}
    explainers = {name: rows for name, rows in by_name.items() if name not in blind}
    if panel.metric.headline.better is None:
        return {}
    if why := _why_unranked(panel, pivot):
        return {name: Standing("unranked", "", None, math.nan, 0, why) for name in explainers}
    if not blind:
        return {}
    # The least p-value that there can be, corrected for all, has to be able to pass.
    least = math.ceil(4 * len(explainers) * len(blind) / LEVEL)
    draws = Draws(max(draws.samples, least), draws.seed)
    tests: dict[str, _Tests] = {}
    standings: dict[str, Standing] = {}
    for name, rows in explainers.items():
        few = {b: n for b, other in blind.items() if (n := share_units(rows, other)) < LEAST_UNITS}
        if few:
            against = min(few, key=few.__getitem__)
            standings[name] = Standing("untested", against, None, math.nan, few[against])
        else:
            differences = {b: compare(panel.metric, rows, blind[b], draws) for b in blind}
            gains = {b: _gain(panel, d) for b, d in differences.items()}
            beyond = {b: exceeds_seeds(panel, pivot, (name, b), d) for b, d in differences.items()}
            ps = {b: d.p if beyond[b] else 1.0 for b, d in differences.items()}
            tests[name] = _Tests(differences, gains, ps)
    return standings | _decide(tests)


def about_unranked(shown: Sequence[Panel], pivots: Sequence[str] = ()) -> list[str]:
    """Return a note on each column that ranks nothing, for analyses that order its rows too.

    Args:
        shown: the panels.
        pivots: values of the pivot whose columns are shown; all but `csv_only`, if not given.
    """
    notes = []
    for panel, phrase in zip(shown, distinguish(shown).phrases, strict=True):
        for pivot in pivots or (p for p in panel.rows if p not in panel.metric.csv_only):
            if why := _why_unranked(panel, pivot):
                start = f"{panel.heading(pivot)}, {phrase}," if phrase else panel.heading(pivot)
                notes.append(f"{start} {why}.")
    return notes


def keep_unranked(shown: Sequence[Panel], standings: Sequence[Standings]) -> None:
    """Keep in panels of some rows which columns rank nothing, by the standings of all rows."""
    for panel, of_panel in zip(shown, standings, strict=True):
        panel.unranked = {
            pivot: standing.why
            for pivot, of_pivot in of_panel.items()
            for standing in of_pivot.values()
            if standing.word == "unranked"
        }


def _why_unranked(panel: Panel, pivot: str) -> str | None:
    """Return why a column ranks nothing; None where it does, or has no number."""
    if panel.unranked is not None:
        return panel.unranked.get(pivot)
    if not (names := panel.ranked(pivot, blind=True)):
        return None
    best = panel.value(pivot, names[0])
    assert best is not None, "a name that is ranked has a number"
    rows = [row for name in names for row in panel.of(pivot, name)]
    if any(row.values.get("units", 0) < LEAST_UNITS for row in rows if row.values):
        return None  # as for the test: numbers of so few units say little
    return panel.metric.why_unranked(best, rows, panel.references)


@dataclass(frozen=True)
class _Tests:
    """One explainer against every blind row.

    Attributes:
        differences: by blind row.
        gains: how far it is ahead of each; negative where it is behind.
        ps: of each difference; 1 where it is within the spread of seeds.
    """

    differences: Mapping[str, Difference]
    gains: Mapping[str, float]
    ps: Mapping[str, float]

    @property
    def better(self) -> float:
        """The p-value of being better than all: the greatest, and 1 where it is not ahead."""
        return max(p if self.gains[b] > 0 else 1.0 for b, p in self.ps.items())

    @property
    def worse(self) -> float:
        """The p-value of being worse than one of them, corrected for their number."""
        return min(1.0, len(self.ps) * min(self._behind.values(), default=1.0))

    @property
    def _behind(self) -> dict[str, float]:
        return {b: p for b, p in self.ps.items() if self.gains[b] < 0}

    def nearest(self, word: Word) -> str:
        """Return the blind row that decides the word; of equal p-values, the row that does best."""
        if word == "better":
            return max(self.ps, key=lambda b: (self.ps[b], -self.gains[b]))
        if word == "worse":
            return min(self._behind, key=lambda b: (self.ps[b], self.gains[b]))
        return min(self.gains, key=self.gains.__getitem__)


def _decide(tests: Mapping[str, _Tests]) -> dict[str, Standing]:
    """Return the standing of each explainer."""
    standings = {}
    better_p, worse_p = (
        dict(zip(tests, holm(ps), strict=True))
        for ps in ([t.better for t in tests.values()], [t.worse for t in tests.values()])
    )
    for name, of in tests.items():
        word: Word = (
            "better" if better_p[name] < LEVEL else "worse" if worse_p[name] < LEVEL else "alike"
        )
        against = of.nearest(word)
        ahead = word == "better" or (word == "alike" and of.gains[against] > 0)
        p = better_p[name] if ahead else worse_p[name]
        difference = of.differences[against]
        standings[name] = Standing(word, against, difference, float(p), difference.units)
    return standings


def _gain(panel: Panel, difference: Difference) -> float:
    """Return how far the first is ahead; of ratios the logarithm."""
    column = panel.metric.headline
    size = _logarithm(difference.effect) if column.log else difference.effect
    return size if column.better == "higher" else -size


def seed_spread(panel: Panel, pivot: str, names: Sequence[str]) -> float:
    """Return how far the seeds of rows lie apart at most; on a scale of ratios as a ratio.

    Within each system that all of them share; over all trainings where they share none.
    """
    column, systems = panel.metric.headline, panel.shared_systems(pivot, names)
    values = defaultdict[tuple[str, str], list[float]](list)
    for name in names:
        for row in panel.of(pivot, name):
            system = origin(row.measurement) if systems else ""
            if column.name in row.row and (system in systems or not systems):
                value = row.row[column.name]
                values[name, system].append(_logarithm(value) if column.log else value)
    spread = max((max(some) - min(some) for some in values.values()), default=0.0)
    return math.exp(spread) if column.log else spread


def _logarithm(ratio: float) -> float:
    return math.log(ratio) if ratio > 0 else -math.inf


def exceeds_seeds(panel: Panel, pivot: str, names: Sequence[str], difference: Difference) -> bool:
    """Return whether a difference is greater than the spread of the seeds of each of two rows.

    Resampling of units knows nothing of seeds. A test over systems does: their trainings differ.
    """
    if difference.systems > 1:
        return True
    effect, is_ratio = difference.effect, panel.metric.headline.log
    size = math.exp(abs(_logarithm(effect))) if is_ratio else abs(effect)
    return size > seed_spread(panel, pivot, names)
