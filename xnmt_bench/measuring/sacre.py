"""BLEU, chrF and TER from sums over sentences, computed by sacrebleu and signed by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics import BLEU, CHRF, TER

from xnmt_bench.measuring.units import Bounds

# `force`: text that looks tokenised is scored too; sacrebleu's warning would be noise.
METRICS: dict[str, Any] = {"bleu": BLEU(force=True), "chrf": CHRF(), "ter": TER()}

# The statistics are counts: of BLEU both lengths, right n-grams of four orders, all of these; of
# chrF n-grams of the translation, of the reference and of both, for each of six orders.
BOUNDS = {
    **{f"bleu_{n}": Bounds(0, 1, of=f"bleu_{n + 4}") for n in range(2, 6)},
    **{f"chrf_{n}": Bounds(0, 1, of=f"chrf_{n - 2}") for n in range(2, 18, 3)},
    **{f"{name}_*": Bounds(0) for name in METRICS},
}


def statistics(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, np.ndarray]:
    """Return each sentence's sufficient statistics of raw texts: `bleu_0`, `bleu_1`, ... (U,)."""
    columns: dict[str, np.ndarray] = {}
    for name, metric in METRICS.items():
        # What sacrebleu's own significance test resamples.
        rows = np.asarray(metric._extract_corpus_statistics(hypotheses, [list(references)]))
        columns |= {f"{name}_{n}": rows[:, n] for n in range(rows.shape[1])}
    return columns


def scores(sums_R: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the corpus's scores (R,) from weighted sums of the statistics that are there."""
    results = {}
    for name, metric in METRICS.items():
        width = sum(column.startswith(f"{name}_") for column in sums_R)
        if not width:
            continue
        sums_RN = np.stack([sums_R[f"{name}_{n}"] for n in range(width)], axis=1)
        # As lists: chrF's statistics are counts, and it divides whole numbers.
        rows = sums_RN.tolist()
        results[name] = np.array([metric._compute_score_from_stats(row).score for row in rows])
    return results


def signatures() -> dict[str, str]:
    """Return sacrebleu's signature of each score."""
    return {name: METRICS[name].get_signature().format() for name in METRICS}
