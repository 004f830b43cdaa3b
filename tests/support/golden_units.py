"""A number for each column of many metrics' units, on the small systems of fixed weights.

To write them again, from the project's root: PYTHONPATH=.:tests python -m support.golden_units
"""

import json
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf

from support.configurations import SYSTEMS, configure, overrides
from support.paths import ROOT
from support.systems import take_stored_weights
from xnmt_bench.composition import read_signatures
from xnmt_bench.errors import NotApplicable
from xnmt_bench.pipeline.job import Job
from xnmt_bench.plan import configured_metrics

GOLDEN = ROOT / "tests" / "fixtures" / "golden_units.json"
EXPLAINERS = ("prediction_difference", "attention")
# Few sentences, and each kind of row and of column.
METRICS = {
    "fidelity": {},
    "aer": {},
    "causes": {"substitutes": 2},
    "erasure": {"sentences": 4, "curves": 2, "limited": 12, "beam": 1, "removals": ["zero"]},
    "soft": {"sentences": 4, "samples": 2},
    "infidelity": {"sentences": 6, "samples": 5, "removals": ["zero", "mean"]},
    "robustness": {"sentences": 3, "samples": 2, "depths": 2},
    "quality": {},
    "confidence": {},
}
NOT_APPLICABLE = "n/a"


def measure_rows(name, workplace):
    """Return the evidence of each row of a system, by metric and identity.

    A row that is not applicable has the reason in the place of its evidence.
    """
    config = configure(
        *overrides(name, workplace), "rules.test_sentences=16",
        "judge=[base]", "nmt.beam=1", f"metric=[{','.join(METRICS)}]",
    )  # fmt: skip
    config = OmegaConf.merge(config, {"metric": METRICS})
    rows = {}
    for explainer in EXPLAINERS:
        config.explainer = configure(f"explainer={explainer}").explainer
        job = Job(config)
        system = job.system_identity().values()
        for metric in configured_metrics(config).values():
            for row in metric.measure(job):
                identity = [str(v) for v in row.keys.values() if v != "" and v not in system]
                try:
                    evidence = row.make()
                except NotApplicable as reason:
                    evidence = str(reason)
                if evidence is not None:
                    rows[" ".join([metric.name, *identity])] = evidence
    return rows


def digest(units):
    """Return a number for each column, which another value or order of the units changes."""
    weight_U = np.linspace(1, 2, len(units))
    return {
        name: float(f"{weight_U @ np.nan_to_num(column.astype(float)):.6g}")
        for name, column in units.columns.items()
    }


def digest_rows(name, workplace):
    """Return the digest of each row of a system."""
    return {
        row: NOT_APPLICABLE if isinstance(evidence, str) else digest(evidence.units)
        for row, evidence in measure_rows(name, workplace).items()
    }


if __name__ == "__main__":
    read_signatures()
    by_system = {}
    for system_name in SYSTEMS:
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.setattr("xnmt_bench.fitting.fit", partial(take_stored_weights, system_name))
            by_system[system_name] = digest_rows(system_name, Path(folder))
    GOLDEN.write_text(json.dumps(by_system, indent=1) + "\n", encoding="utf-8")
