"""The figure of erasure: axes for each system, also where two share a name."""

import numpy as np
import pytest

from support.example_rows import SYSTEM, measured
from xnmt_bench.measuring.measurement import SETTINGS, read
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.erasure.curves import CURVES, GRID, point
from xnmt_bench.metrics.erasure.metric import Erasure


def units(height):
    """Two sentences of one decision each, whose curves are flat."""
    curves = {point(curve, x): np.full(2, height) for curve in CURVES for x in GRID}
    return Units("toy test", np.arange(2), {**curves, "curve_decisions": np.ones(2)})


@pytest.mark.parametrize(
    ("changes", "rows"),
    [({"seed": 1}, 1), ({"model": "m1"}, 2), ({SETTINGS: {"test sentences": "9 (abc)"}}, 2)],
    ids=["another seed", "another system of the name", "other test sentences"],
)
def test_only_seeds_of_one_system_are_averaged(changes, rows, tmp_path):
    identity = SYSTEM | {"explainer": "attention", "removal": "zero", "seed": 0}
    measured(Erasure, tmp_path, identity, units(0.2), "m0")
    identity |= {"seed": changes["seed"]} if "seed" in changes else {}
    facts = {SETTINGS: changes[SETTINGS]} if SETTINGS in changes else {}
    measured(Erasure, tmp_path, identity, units(0.6), changes.get("model", "m0"), **facts)
    [(_, figure)] = Erasure().figures(read("erasure", tmp_path, Erasure().identity))
    heights = sorted(float(line.get_ydata()[0]) for ax in figure.axes for line in ax.lines)
    assert heights == pytest.approx([0.4, 0.4] if rows == 1 else [0.2, 0.2, 0.6, 0.6])
    assert len({ax.get_title() for ax in figure.axes}) == len(figure.axes) == 2 * rows
