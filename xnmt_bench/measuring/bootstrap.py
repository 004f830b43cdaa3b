"""Bootstrap over units, and t over systems: every interval and comparison is drawn here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from xnmt_bench.errors import StoreError
from xnmt_bench.measuring.measurement import FAILED, Measurement, ScoredRow
from xnmt_bench.measuring.metric import Metric, ratio
from xnmt_bench.measuring.units import Units, common

BLOCK = 64  # samples scored at once: a score may need memory for each sample and unit


@dataclass(frozen=True)
class Draws:
    """How many samples a bootstrap draws, and from which seed."""

    samples: int
    seed: int


# The rows of a table share their test set, and to draw takes longer than to score.
@lru_cache(maxsize=2)
def weights(
    units: int, samples: int, seed: int, drawn: int | None = None, stream: int = 0
) -> tuple[np.ndarray, ...]:
    """Return how often each unit is drawn in each sample, with replacement.

    The same numbers give the same draws, so two metrics of the same units are resampled alike.

    Args:
        units: U.
        samples: bootstrap samples.
        seed: of the draws.
        drawn: units drawn for each sample; U, if not given.
        stream: another one gives independent draws.

    Returns:
        Blocks (R, U) of counts that nothing may change, `samples` rows in all.
    """
    rng = np.random.default_rng(seed if stream == 0 else [seed, stream])
    drawn = units if drawn is None else drawn
    sizes = [min(BLOCK, samples - start) for start in range(0, samples, BLOCK)]
    # Counts and not indices: a score of weighted sums needs one product for all samples.
    blocks = tuple(rng.multinomial(drawn, np.full(units, 1 / units), rows) for rows in sizes)
    for block in blocks:
        block.setflags(write=False)
    return blocks


def resample(
    metric: Metric, units: Units, draws: Draws, drawn: int | None = None, stream: int = 0
) -> dict[str, np.ndarray]:
    """Return each result on the whole test set, then on each sample: (1 + samples,) by column."""
    # The row of ones is the test set itself, so value and samples come from the same function.
    blocks = [np.ones((1, len(units)))]  # (1, U)
    if len(units):
        blocks += weights(len(units), draws.samples, draws.seed, drawn, stream)
    else:  # no sample of nothing has a number, and other rows' samples are as many
        blocks.append(np.ones((draws.samples, 0)))
    parts = [metric.score(units, block) for block in blocks]
    # A block of small samples may hold nothing that a result is of.
    absent = [np.full(len(block), np.nan) for block in blocks]
    return {
        name: np.concatenate([p.get(name, none) for p, none in zip(parts, absent, strict=True)])
        for name in parts[0]
    }


def resample_ratios(
    rows: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], draws: Draws
) -> np.ndarray:
    """Return a ratio of sums of each of several rows, whole and on each sample, (rows, 1 + R).

    Units are drawn from those of all rows together, and the same ones for each row.

    Args:
        rows: of each the unit that a part is of, its numerator and its denominator; (N,) each.
        draws: how often and from which seed.
    """
    unit_U = np.unique(np.concatenate([unit_N for unit_N, *_ in rows]))
    above, below = (
        np.stack([
            np.bincount(np.searchsorted(unit_U, row[0]), row[column], len(unit_U)) for row in rows
        ])
        for column in (1, 2)
    )  # fmt: skip
    blocks = [np.ones((1, len(unit_U))), *weights(len(unit_U), draws.samples, draws.seed)]
    return np.concatenate([ratio(above @ block.T, below @ block.T) for block in blocks], axis=1)


def average_systems(values: Sequence[np.ndarray], systems: Sequence[str]) -> np.ndarray:
    """Return the mean over systems of the means over the rows of each, as tables do.

    Args:
        values: of each row.
        systems: whose row each is.
    """
    by_system: dict[str, list[np.ndarray]] = {}
    for value, system in zip(values, systems, strict=True):
        by_system.setdefault(system, []).append(value)
    return np.asarray(np.mean([np.mean(rows, axis=0) for rows in by_system.values()], axis=0))


def interval(samples_R: np.ndarray) -> tuple[float, float]:
    """Return the 95 % percentile interval of samples; those without a number are left out."""
    if np.isnan(samples_R).all():  # numpy would warn
        return float("nan"), float("nan")
    low, high = np.nanpercentile(samples_R, [2.5, 97.5])
    return float(low), float(high)


def t_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of two values or more, and both ends of its 95 % t-interval."""
    from scipy import stats  # heavy, and most tables are of one system

    of_mean = np.std(values, ddof=1) / np.sqrt(len(values))
    half = float(stats.t.ppf(0.975, len(values) - 1) * of_mean)
    center = float(np.mean(values))
    return center, center - half, center + half


def sign(metric: Metric, measurement: Measurement, draws: Draws) -> str:
    """Return the line from which a row and its intervals can be made again."""
    return measurement.signature(metric.name, bootstrap=f"{draws.samples}@{draws.seed}")


def score(metric: Metric, measurement: Measurement, draws: Draws) -> ScoredRow:
    """Return the numbers of a row, with their intervals; damaged units make it a failed one."""
    signed = sign(metric, measurement, draws)
    if not measurement.ok:
        return ScoredRow(measurement, {}, signed)
    try:
        units = metric.read_units(measurement)
    except StoreError as error:
        return ScoredRow(
            replace(measurement, status=f"{FAILED}: {error}"), {}, signed, damaged=True
        )
    resampled = resample(metric, units, draws)
    values: dict[str, float] = {"units": len(units)}
    for column in (c for c in metric.columns if c.name in resampled):
        values[column.name] = float(resampled[column.name][0])
        if column.interval:
            low, high = interval(resampled[column.name][1:])
            values |= {f"{column.name}_low": low, f"{column.name}_high": high}
    # A small sample may hold nothing to measure; `empty_draws` counts such samples.
    # A row may lack the headline, such as a ceiling that only other columns have.
    headline_R = resampled.get(metric.headline.name, np.zeros(1))
    values["empty_draws"] = int(np.isnan(headline_R[1:]).sum()) if len(units) else 0
    return ScoredRow(measurement, values, signed)


class JointBootstrap:
    """Several things that are resampled alike, as far as they share units.

    Args:
        metrics: the metric of each.
        rows: of each, the measurements of its seeds; their values are averaged, within each of
            several systems first, as tables do. Where all share systems, those of others are left
            out: how good a system is would count as a difference.
        draws: how often and from which seed.

    Attributes:
        paired: whether all share units, so that each draw is the same for all of them.
    """

    def __init__(
        self, metrics: Sequence[Metric], rows: Sequence[Sequence[Measurement]], draws: Draws
    ) -> None:
        if shared := frozenset.intersection(*(frozenset(m.model for m in r) for r in rows)):
            rows = [[m for m in seeds if m.model in shared] for seeds in rows]
        loaded = [[m.units() for m in seeds] for seeds in rows]
        self._draws, self._metrics = draws, metrics
        self._systems = [[m.model for m in seeds] for seeds in rows]
        self._units: list[list[Units]] = [[] for _ in rows]
        self._streams, stream = [0] * len(rows), 0
        # In their order, so that the same measurements have the same streams.
        for test_set in dict.fromkeys(u.test_set for seeds in loaded for u in seeds):
            # Seeds of one thing are of one test set, so that the first of them decides.
            members = [n for n, seeds in enumerate(loaded) if seeds[0].test_set == test_set]
            numbers = common([u for n in members for u in loaded[n]])
            for n in members:
                self._streams[n] = stream
                if numbers is None:  # things that share no unit have draws of their own
                    self._units[n], stream = loaded[n], stream + 1
                else:
                    self._units[n] = [u.take(numbers) for u in loaded[n]]
            stream += 1
        self.paired = len(set(self._streams)) == 1 and numbers is not None

    def units(self, thing: int) -> list[Units]:
        """Return the units of each seed of a thing; where paired, those that all share."""
        return self._units[thing]

    def values(self, column: str | None = None, share: float = 1.0) -> np.ndarray:
        """Return each thing's value on the whole test set, then on each sample: (things, 1 + R).

        Args:
            column: the result; each metric's own headline, if not given.
            share: size of a sample, of the units.
        """
        rows = []
        for metric, seeds, systems, stream in zip(
            self._metrics, self._units, self._systems, self._streams, strict=True
        ):
            name = column or metric.headline.name
            drawn = max(1, round(share * len(seeds[0])))
            # Seeds are averaged within each draw, so that the interval is of the mean.
            values = [resample(metric, u, self._draws, drawn, stream)[name] for u in seeds]
            rows.append(average_systems(values, systems))
        return np.stack(rows)
