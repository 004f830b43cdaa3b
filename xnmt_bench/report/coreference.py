"""The rows of the table of attention over coreference links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from xnmt_bench.metrics.bootstrap import interval
from xnmt_bench.metrics.coref_attention import ROUNDING
from xnmt_bench.parquet import read_table
from xnmt_bench.report.fragments import Fragment
from xnmt_bench.report.summary import Row

IDENTITY = ("corpus", "lang_pair", "nmt", "explainer", "side", "links_of", "seed")
METRICS = ("max_weight", "nonzero", "average")
COLUMNS = (
    *IDENTITY,
    "links",
    *(f"{metric}{end}" for metric in METRICS for end in ("", "_low", "_high")),
    "naive",
    "precision",
    "dispersion",
    "dispersion_function",
    "status",
    "signature",
)
LINKS = ("sentence", "distance", "weight", "naive", "needed", "hard")
Chosen = Callable[[dict[str, np.ndarray]], np.ndarray]
# Which links a row counts (Dinarelli et al. 2024, Table 5; and how far the antecedent stands).
SUBSETS: dict[str, Chosen] = {
    "all": lambda links: links["distance"] > 0,
    "distance 1": lambda links: links["distance"] == 1,
    "distance 2": lambda links: links["distance"] == 2,
    "distance 3": lambda links: links["distance"] == 3,
    "context needed": lambda links: links["needed"],
    "context needed, hard": lambda links: links["needed"] & links["hard"],
}


@dataclass(frozen=True)
class CorefFragment(Fragment):
    """The metrics of one explainer, side and kind of link; its scores are the links.

    Attributes:
        facts: precision and dispersion, which are no properties of a link; of all links only.
        quality: BLEU and more of the NMT system, with their signatures.
        match_rate: share of the reference mentions' words that the system's translation has too.
    """

    facts: dict[str, Any] | None = None
    quality: dict[str, Any] | None = None
    match_rate: float | None = None

    METRIC: ClassVar[str] = "coref_attention"
    NAME: ClassVar[str] = "COREF"
    COLUMNS: ClassVar[tuple[str, ...]] = COLUMNS

    def numbers(self, scores: Path, signature: str, samples: int, seed: int) -> Row:
        """Max-weight, non-zero weight and average weight with their intervals."""
        links = _links(read_table(scores, LINKS))
        chosen = SUBSETS[self.identity["links_of"]](links)
        links = {name: values[chosen] for name, values in links.items()}
        weight = links["weight"]
        row: Row = {
            "links": len(weight),
            "quality": self.quality,
            "match_rate": self.match_rate,
        }
        if not len(weight):
            return row | {"status": "no such link"}
        values = {
            "max_weight": (weight >= 1 - ROUNDING).astype(float),
            "nonzero": (weight > 0).astype(float),
            "average": weight,
        }
        _, member = np.unique(links["sentence"], return_inverse=True)
        counts = np.bincount(member)
        for metric, per_link in values.items():
            sums = np.bincount(member, per_link)
            low, high = interval(_ratio(sums, counts), len(counts), samples, seed)
            row |= {metric: float(per_link.mean()), f"{metric}_low": low, f"{metric}_high": high}
        row["naive"] = float(links["naive"].mean())
        facts = {key: "" if value is None else value for key, value in (self.facts or {}).items()}
        return row | facts


def _ratio(sums: np.ndarray, counts: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda weights_RN: (weights_RN @ sums) / (weights_RN @ counts)


def _links(table: pa.Table) -> dict[str, np.ndarray]:
    links = {name: table[name].to_numpy(zero_copy_only=False) for name in LINKS}
    if not len(table):  # a table without rows has columns without a type
        return {name: values.astype(bool if name in LINKS[3:] else float)
                for name, values in links.items()}  # fmt: skip
    return links
