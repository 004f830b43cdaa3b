"""Two things on the same units: how far apart they are, and whether that is more than chance.

The p-value is by approximate randomisation (Noreen 1989; Riezler and Maxwell 2005): what the two
have of a unit is exchanged at random. Unlike a bootstrap it holds its level for few units of skewed
sums, as `benchmarks/intervals.py` shows. Shapes: U units, R draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, product

import numpy as np

from xnmt_bench.measuring.bootstrap import BLOCK, Draws, JointBootstrap, interval, t_interval
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.metric import Column, Metric
from xnmt_bench.measuring.units import Units, common


@dataclass(frozen=True)
class Difference:
    """Two values on the units that both have.

    Attributes:
        effect: the first over the second on a logarithmic scale, else the first less the second.
        low, high: its 95 % interval: by a bootstrap over units, of several systems by t.
        p: two-sided.
        paired: both are of the same units, so that each draw is the same for both.
        units: how many they have in common.
        systems: how many systems both were measured of; of the side that has fewer, where they
            share none.
    """

    effect: float
    low: float
    high: float
    p: float
    paired: bool
    units: int
    systems: int = 1


def compare(
    metric: Metric,
    first: Sequence[Measurement],
    second: Sequence[Measurement],
    draws: Draws,
    column: str | None = None,
) -> Difference:
    """Compare two things by a result, averaged over the measurements of their seeds.

    Systems that only one of the two was measured of do not count. Where both share several systems,
    the system is the unit; where they share none and have several each, so is the system (Welch).

    Args:
        metric: of both.
        first: the measurements of one.
        second: those of the other.
        draws: of the interval and the test.
        column: the result; the metric's headline, if not given.
    """
    result = next((c for c in metric.columns if c.name == column), metric.headline)
    by_first, by_second = _by_system(first), _by_system(second)
    shared = [system for system in by_first if system in by_second]
    if len(shared) > 1:
        pairs = [(by_first[system], by_second[system]) for system in shared]
        return _compare_systems(metric, result, pairs)
    if not shared and min(len(by_first), len(by_second)) > 1:
        return _compare_trainings(metric, result, [*by_first.values()], [*by_second.values()])
    together = JointBootstrap([metric, metric], [first, second], draws)
    difference_R = _difference(result, *together.values(result.name))
    drawn_R = difference_R[1:][~np.isnan(difference_R[1:])]
    ends = interval(drawn_R)
    if together.paired:
        units = together.units(0), together.units(1)
        p, count = _exchange(metric, result, *units, draws), len(units[0][0])
    else:
        p, count = _turned(drawn_R), 0
    effect, low, high = (_unlogged(result, x) for x in (difference_R[0], *ends))
    return Difference(effect, low, high, p, together.paired, count)


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Return P-values corrected for their number (Holm 1979), in the given order."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    # The least p times n, the next times n - 1, and never below the one before.
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.minimum(stepped, 1.0)[np.argsort(order)]  # the inverse of a permutation


def t_test(values: Sequence[float]) -> float:
    """Return the two-sided p of a t-test that the mean is 0; 1 where nothing varies.

    Values that are equal show no spread, and without one there is no evidence.
    """
    if len(values) < 2 or is_constant(np.asarray(values)):
        return 1.0
    from scipy import stats  # heavy, and only several systems are tested

    return float(stats.ttest_1samp(values, 0).pvalue)


def is_constant(values: np.ndarray) -> bool:
    """Return whether values are equal but for rounding."""
    return bool(np.ptp(values) <= 1e-9 * np.abs(values).max())


def _by_system(seeds: Sequence[Measurement]) -> dict[str, list[Measurement]]:
    by_system: dict[str, list[Measurement]] = {}
    for measurement in seeds:
        by_system.setdefault(measurement.model, []).append(measurement)
    return by_system


def _compare_systems(
    metric: Metric,
    result: Column,
    pairs: Sequence[tuple[Sequence[Measurement], Sequence[Measurement]]],
) -> Difference:
    """Compare on each system; the t-test and its interval are over systems.

    Systems of which one of the two has no number do not count.
    """
    differences = []
    for pair in pairs:
        values = JointBootstrap([metric, metric], pair, Draws(0, 0)).values(result.name)
        differences.append(float(_difference(result, *values)[0]))
    differences = [d for d in differences if not np.isnan(d)]
    several = len(differences) > 1
    ends = t_interval(differences) if several else (*differences, np.nan, np.nan, np.nan)[:3]
    effect, low, high = (_unlogged(result, x) for x in ends)
    units = share_units(*(list(chain(*side)) for side in zip(*pairs, strict=True)))
    return Difference(effect, low, high, t_test(differences), True, units, len(differences))


def _compare_trainings(
    metric: Metric,
    result: Column,
    first: Sequence[Sequence[Measurement]],
    second: Sequence[Sequence[Measurement]],
) -> Difference:
    """Compare means over unlike systems, such as the trainings of two models, by Welch's t."""
    from scipy import stats  # heavy, and only several systems are tested

    trainings = [*first, *second]
    together = JointBootstrap([metric] * len(trainings), trainings, Draws(0, 0))
    value_N = together.values(result.name)[:, 0]
    value_N = np.log(value_N) if result.log else value_N
    sides = [side[~np.isnan(side)] for side in np.split(value_N, [len(first)])]
    effect = sides[0].mean() - sides[1].mean() if all(map(len, sides)) else np.nan
    low = high = np.nan
    p = 1.0
    if min(map(len, sides)) > 1 and not all(map(is_constant, sides)):
        test = stats.ttest_ind(*sides, equal_var=False)
        p, (low, high) = float(test.pvalue), test.confidence_interval()
    effect, low, high = (_unlogged(result, x) for x in (effect, low, high))
    return Difference(effect, low, high, p, False, 0, min(map(len, sides)))


def _difference(result: Column, first_R: np.ndarray, second_R: np.ndarray) -> np.ndarray:
    """Return the difference of values; of logarithms where differences are ratios."""
    # A ratio on a logarithmic scale, where it is symmetric around 0.
    return np.log(first_R / second_R) if result.log else first_R - second_R


def _unlogged(result: Column, value: float) -> float:
    return float(np.exp(value) if result.log else value)


def _turned(drawn_R: np.ndarray) -> float:
    """Return how often resampling turns a difference around, twice, at most 1."""
    # The sample itself counts as one of the draws, so that no p is 0 (Davison and Hinkley 1997).
    turned = min((drawn_R <= 0).sum(), (drawn_R >= 0).sum())
    return float(min(1.0, 2 * (turned + 1) / (len(drawn_R) + 1)))


def _exchange(
    metric: Metric, result: Column, first: Sequence[Units], second: Sequence[Units], draws: Draws
) -> float:
    """Return the p of a difference under exchange of the two at each unit.

    Args:
        metric: of both.
        result: that is compared.
        first: the units of each seed, the same units for all.
        second: the same of the other.
        draws: how often what both have is exchanged.
    """
    values: list[list[np.ndarray]] = [[], []]
    for pair in product(first, second):  # every seed of one with every seed of the other
        both = _joined(*pair)
        parts = [
            _score_exchanged(metric, result, both, kept_RU)
            for kept_RU in _kept(len(pair[0]), draws)
        ]
        for side in (0, 1):
            values[side].append(np.concatenate([part[side] for part in parts]))
    difference_R = np.abs(_difference(result, *(np.mean(side, axis=0) for side in values)))
    if np.isnan(difference_R[0]):
        return 1.0
    drawn_R = difference_R[1:][~np.isnan(difference_R[1:])]
    # Sums of the same numbers in another order differ by rounding.
    as_great = drawn_R >= difference_R[0] * (1 - 1e-9)
    return float((as_great.sum() + 1) / (len(drawn_R) + 1))


def _score_exchanged(
    metric: Metric, result: Column, both: Units, kept_RU: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the result of both things (R,), which keep some units and exchange the others."""
    weights = (np.hstack([kept_RU, 1 - kept_RU]), np.hstack([1 - kept_RU, kept_RU]))
    first_R, second_R = (metric.score(both, w)[result.name] for w in weights)
    return first_R, second_R


def _joined(first: Units, second: Units) -> Units:
    """Return the units of both, one behind the other."""
    columns = {
        name: np.concatenate([first[name], second[name]])
        for name in first.columns
        if name in second.columns
    }
    number_U = np.arange(2 * len(first))  # each unit stands twice
    return Units(first.test_set, number_U, columns)


@lru_cache(maxsize=2)
def _kept(units: int, draws: Draws) -> tuple[np.ndarray, ...]:
    """Return which units are kept (1) and which exchanged (0): all are kept, then the draws."""
    return tuple(_draw_kept(units, draws))


def _draw_kept(units: int, draws: Draws) -> Iterator[np.ndarray]:
    rng = np.random.default_rng([draws.seed, 2])  # a stream apart from that of the bootstrap
    yield np.ones((1, units))
    for start in range(0, draws.samples, BLOCK):
        rows = min(BLOCK, draws.samples - start)
        yield rng.integers(0, 2, (rows, units)).astype(np.float64)


def share_units(first: Sequence[Measurement], second: Sequence[Measurement]) -> int:
    """Return how many units all measurements have in common."""
    numbers = common([m.units() for m in (*first, *second)])
    return 0 if numbers is None else len(numbers)
