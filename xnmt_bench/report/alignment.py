"""The rows of the table of alignment error rates."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from xnmt_bench.metrics.aer import LinkCounts, alignment_error_rate
from xnmt_bench.report.fragments import Fragment
from xnmt_bench.report.summary import Row

IDENTITY = ("corpus", "lang_pair", "nmt", "explainer", "alignment", "seed")
COLUMNS = (
    *IDENTITY,
    "aer",
    "aer_low",
    "aer_high",
    "precision",
    "recall",
    "links",
    "sentences",
    "no_link",
    "no_sure_link",
    "status",
    "signature",
)


@dataclass(frozen=True)
class AlignmentFragment(Fragment):
    """One alignment error rate; its scores are link counts.

    Attributes:
        unaligned: shares of target words that have no link and no sure link in the gold.
    """

    unaligned: dict[str, Any] | None = None

    METRIC: ClassVar[str] = "aer"
    NAME: ClassVar[str] = "AER"
    COLUMNS: ClassVar[tuple[str, ...]] = COLUMNS

    def numbers(self, scores: Path, signature: str, samples: int, seed: int) -> Row:
        """AER with its interval, precision, recall and number of links."""
        counts = LinkCounts.load(scores)
        score = alignment_error_rate(counts, signature, samples, seed)
        unaligned = self.unaligned or {}
        return {
            "aer": score.value,
            "aer_low": score.low,
            "aer_high": score.high,
            "precision": counts.precision,
            "recall": counts.recall,
            "links": counts.links,
            "sentences": len(counts),
            "no_link": unaligned.get("no_link", ""),
            "no_sure_link": unaligned.get("no_sure_link", ""),
        }
