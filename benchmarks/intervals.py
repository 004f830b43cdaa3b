"""How often intervals hold the true value, and how often tests find a difference where none is.

Units are drawn from populations whose value is known: perplexity of decisions in sentences of
unlike difficulty, causal@k of few decisions a sentence, and infidelity with a heavy tail. Both are
by the package's own code: the bootstrap's intervals, and the p-values of `compare`, beside what a
paired bootstrap would say.

    python benchmarks/intervals.py --simulations 1000
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from xnmt_bench.measuring.bootstrap import Draws, interval, resample
from xnmt_bench.measuring.comparing import compare
from xnmt_bench.measuring.metric import Metric
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.causes import Causes
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.infidelity import Infidelity

Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Simulated:
    """Units in the place of a measurement's."""

    drawn: Units
    model: str = "simulated"

    def units(self) -> Units:
        """Return the units."""
        return self.drawn


def draw_perplexity(units: int, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """Two explainers of equal perplexity: sentences differ more than the two do."""
    decisions = 3 + rng.poisson(8, units)
    loss = rng.gamma(0.5 * decisions, 2.0) * np.exp(rng.normal(0, 0.5, units) - 0.125)
    sides = (loss * np.exp(rng.normal(0, 0.35, units) - 0.35**2 / 2) for _ in range(2))
    first, second = ({"log_likelihood": -side, "rows": decisions} for side in sides)
    return first, second


def draw_causal(units: int, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """Two explainers that name a cause as often, in one to nine decisions a sentence."""
    judged, chance = 1 + rng.binomial(8, 0.7, units), rng.beta(4, 1.2, units)
    first, second = (
        {"judged_pooled": judged, "causal_pooled": rng.binomial(judged, chance)} for _ in range(2)
    )
    return first, second


def draw_infidelity(units: int, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """Two explainers that leave as much unexplained; few sentences lose most of what is lost."""
    lost = rng.lognormal(0, 1.5, units)
    first, second = (
        {"error": lost * rng.beta(1, 3, units), "lost": lost, "alike": lost, "against": 0 * lost,
         "rows": np.ones(units)}
        for _ in range(2)
    )  # fmt: skip
    return first, second


Draw = Callable[[int, np.random.Generator], tuple[Columns, Columns]]
POPULATIONS: dict[str, tuple[Metric, str, Draw]] = {
    "perplexity": (Fidelity(), "ppl", draw_perplexity),
    "causal@k": (Causes(), "causal_pooled", draw_causal),
    "infidelity": (Infidelity(), "unexplained", draw_infidelity),
}


def simulate(
    metric: Metric, column: str, draw: Draw, units: int, simulations: int, draws: Draws
) -> tuple[float, float, float]:
    """Return the intervals' coverage, and false positives of exchange and of the bootstrap."""
    rng = np.random.default_rng(0)
    large, _ = draw(1_000_000, np.random.default_rng(1))
    truth = metric.score(_units(large), np.ones((1, 1_000_000)))[column][0]
    covered = exchanged = bootstrapped = 0
    for _ in range(simulations):
        first, second = map(_units, draw(units, rng))
        value_R, other_R = (resample(metric, u, draws)[column][1:] for u in (first, second))
        low, high = interval(value_R)
        covered += low <= truth <= high
        turned = min((value_R <= other_R).sum(), (value_R >= other_R).sum())
        bootstrapped += 2 * (turned + 1) / (draws.samples + 1) < 0.05
        pair = [Simulated(first)], [Simulated(second)]
        exchanged += compare(metric, *pair, draws, column).p < 0.05  # type: ignore[arg-type]
    return covered / simulations, exchanged / simulations, bootstrapped / simulations


def _units(columns: Columns) -> Units:
    number_U = np.arange(len(next(iter(columns.values()))))
    return Units("simulated", number_U, columns)


def main() -> None:
    """Print a line for each population and number of units."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=500)
    options = parser.parse_args()
    print(f"{options.simulations} simulations, {options.samples} draws each; nominal: 95.0, 5.0")
    print("| value | units | intervals hold it % | p < .05, exchange % | p < .05, bootstrap % |")
    for name, population in POPULATIONS.items():
        for units in (50, 200):
            draws = Draws(options.samples, 0)
            shares = simulate(*population, units, options.simulations, draws)
            print(f"| {name} | {units} | " + " | ".join(f"{100 * s:.1f}" for s in shares) + " |")


if __name__ == "__main__":
    main()
