"""What no unit of a metric can hold, by hand, for every metric of this project."""

import numpy as np
import pytest

from xnmt_bench.measuring.units import Units
from xnmt_bench.registry import entries, load

# Of each metric: one unit that is possible, and values in its place that are not.
UNITS = {
    "aer": (
        {"links": 4, "unaligned_links": 1, "sure": 2, "sure_links": 2, "possible_links": 3},
        [{"sure_links": 3}, {"possible_links": 5}, {"links": -1}],
    ),
    "annotation": (
        {"sum:annotations": 2, "sum:agreement": 1.5},
        [{"sum:agreement": 2.5}, {"sum:agreement": np.nan}],
    ),
    "antecedent": (
        {"rows": 2, "right": 1, "looked": 1, "looked_right": 1, "weight_1": np.nan},
        [{"looked_right": 2}, {"weight_1": 1.1}, {"right": 3}],
    ),
    "causes": (
        {"usable_source": 3, "causal_source": 2.5, "unknown_source": 0.5, "tau_source": -1,
         "ranked_source": 1},
        [{"causal_source": 3.5}, {"unknown_source": 4}, {"tau_source": -1.5}],
    ),
    "confidence": (
        {"chrf": 40.5, "log_probability": np.nan, "overlap": 0.5, "confidence_pct": 80, "cdp": -1},
        [{"chrf": 101}, {"log_probability": 0.5}, {"overlap": -0.1}, {"chrf": np.nan}],
    ),
    "consistency": (
        {"items": 2, "determined": 1, "consistent": 1, "pointing it": 2, "pointed it": 0.5},
        [{"consistent": 1.5}, {"pointed it": 2.5}, {"determined": 3}],
    ),
    "contrastive": ({"rows": 2, "right": 2, "chance": 0.7}, [{"right": 3}, {"rows": 0}]),
    "context_use": (
        {"rows": 1, "words": 3, "kl": 0.5, "changed": 2, "right": 2, "helped_right": 1},
        [{"kl": -1}, {"changed": 4}, {"helped_right": 3}],
    ),
    "coref_attention": (
        {"links": 2, "greatest": 1, "weight": 1.5, "judged": 3, "follows_right": 3},
        [{"weight": 2.5}, {"follows_right": 4}, {"links": -1}],
    ),
    "cues": (
        {"rows": 3, "words": 2, "called": 1, "hits": 1, "right": 1},
        [{"hits": 2}, {"words": 4}, {"rows": 0}],
    ),
    "erasure": (
        {"rows": 2, "whole": 1.9, "sufficiency 0.1": -0.5, "curve_decisions": 1, "deletion": 0.9},
        [{"whole": 2.1}, {"sufficiency 0.1": -2.1}, {"deletion": 1.1}],
    ),
    "fidelity": (
        {"rows": 2, "log_likelihood": -3.0, "correct": 1, "hittable": 4, "hits": 4, "kl": 0.1},
        [{"log_likelihood": 0.1}, {"correct": 3}, {"hits": 5}, {"kl": -1}],
    ),
    "infidelity": (
        {"rows": 2, "lost": 1.5, "error": 1.5, "against": 1},
        [{"error": 1.6}, {"lost": 2.1}, {"against": -1}],
    ),
    "natural_twins": (
        {"rows": 3, "chosen 0.2": 2, "measured 0.2": -1.5, "words 0.2": 4, "xy 0.2": 3},
        [{"chosen 0.2": 4}, {"measured 0.2": 2.5}, {"xy 0.2": 5}],
    ),
    "quality": (
        {"bleu_2": 3, "bleu_6": 4, "chrf_0": 9, "chrf_2": 9, "ter_0": 7, "sentences": 1},
        [{"bleu_2": 5}, {"chrf_2": 10}, {"ter_0": -1}, {"sentences": 2}],
    ),
    "repetition": ({"words": 5, "repeated": 2}, [{"repeated": 6}, {"repeated": -1}]),
    "robustness": (
        {"rows": 3, "of rank source at 0": 2, "rank source at 0": -2, "moved": 7.5},
        [{"rank source at 0": -2.5}, {"of rank source at 0": 4}, {"moved": -1}],
    ),
    "soft": (
        {"rows": 3, "usable": 2, "soft_ns": 2, "soft_nc": 2.5, "retention": 1},
        [{"soft_ns": 2.1}, {"usable": 4}, {"retention": -1}],
    ),
    "student": (
        {"bleu_2": 3, "bleu_6": 4, "log_likelihood": -2.5, "steps": 4},
        [{"log_likelihood": 0.5}, {"steps": 0}, {"bleu_2": np.nan}],
    ),
}  # fmt: skip


def within(name, columns):
    units = Units("a", np.array([5]), {key: np.array([value]) for key, value in columns.items()})
    units.require_within(load("metrics", name).unit_bounds)


def test_every_metric_is_here():
    assert {*UNITS} == {
        name for name, entry in entries("metrics").items() if "xnmt_bench.metrics" in str(entry)
    }


@pytest.mark.parametrize("name", UNITS)
def test_impossible_values_are_refused(name):
    possible, changes = UNITS[name]
    within(name, possible)
    for change in changes:
        with pytest.raises(ValueError, match=f"column '{next(iter(change))}'"):
            within(name, possible | change)
