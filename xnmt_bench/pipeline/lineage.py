"""Where a trained system comes from: which others are its replicates, and which it started from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xnmt_bench.store import META, Artefact, fingerprint

STARTED_FROM = ("initial", "initial_family")  # facts of a system that was trained further


def read_lineage(folder: Path) -> dict[str, Any]:
    """Return how a system was trained, for the facts of a row.

    Args:
        folder: that of the system.

    Returns:
        `family`, the fingerprint of everything that decided the training but for `nmt.seed`, which
        its replicates share; `seed`; and `initial`, the fingerprint of the system that training
        started from, None for fresh weights. Nothing for a system that was not trained here.
    """
    if not (folder / META).exists():
        return {}
    artefact = Artefact.open(folder)
    recipe = dict(artefact.recipe)
    if (seed := recipe.pop("seed", None)) is None:
        return {}
    initial, initial_family = (artefact.facts.get(name) for name in STARTED_FROM)
    if initial_family:
        recipe["initial"] = initial_family  # each replicate may have started from one of its own
    return {"family": fingerprint(recipe), "seed": seed, "initial": initial}
