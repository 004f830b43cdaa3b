"""Alignment error rate (Och and Ney 2003; Li et al. 2020, section 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from xnmt_bench.corpora.alignment import Alignment
from xnmt_bench.corpora.sentence import Links
from xnmt_bench.metrics.bootstrap import interval
from xnmt_bench.metrics.score import Score
from xnmt_bench.parquet import read_table, write_table


@dataclass(frozen=True)
class LinkCounts:
    """How a hypothesis did on each sentence pair; all that AER needs, one row a pair.

    Attributes:
        sentence_N: number of the pair in its corpus.
        links_N: links of the hypothesis, |A|.
        sure_N: sure links of the gold, |S|.
        sure_found_N: sure links that the hypothesis has, |A and S|.
        possible_found_N: links of the hypothesis that are at least possible, |A and P|.
    """

    sentence_N: np.ndarray
    links_N: np.ndarray
    sure_N: np.ndarray
    sure_found_N: np.ndarray
    possible_found_N: np.ndarray

    COLUMNS = ("sentence", "links", "sure", "sure_found", "possible_found")

    @classmethod
    def count(
        cls,
        hypotheses: Sequence[Links],
        gold: Sequence[Alignment],
        sentences: Sequence[int] | np.ndarray | None = None,
    ) -> LinkCounts:
        """Compares hypotheses with their gold, pair by pair; `sentences` numbers the pairs."""
        rows = [
            (len(a), len(g.sure), len(a & g.sure), len(a & g.possible))
            for a, g in zip(hypotheses, gold, strict=True)
        ]
        numbers = np.arange(len(rows)) if sentences is None else np.asarray(sentences)
        return cls(numbers.astype(np.int64), *np.asarray(rows, dtype=np.int64).reshape(-1, 4).T)

    def save(self, path: Path) -> None:
        """Writes the counts as Parquet."""
        write_table(
            pa.table({c: np.ascontiguousarray(getattr(self, f"{c}_N")) for c in self.COLUMNS}), path
        )

    @classmethod
    def load(cls, path: Path) -> LinkCounts:
        """Reads what `save` wrote.

        Raises:
            StoreError: the file is not readable.
        """
        table = read_table(path, cls.COLUMNS)
        return cls(*(table[name].to_numpy() for name in cls.COLUMNS))

    def __len__(self) -> int:
        return len(self.sentence_N)

    def take(self, rows: np.ndarray) -> LinkCounts:
        """Some of the pairs."""
        return LinkCounts(*(getattr(self, f"{name}_N")[rows] for name in self.COLUMNS))

    @property
    def links(self) -> int:
        """Number of links."""
        return int(self.links_N.sum())

    @property
    def precision(self) -> float:
        """|A and P| / |A|: the share of links that are at least possible; NaN without a link."""
        return float(self.possible_found_N.sum() / self.links) if self.links else float("nan")

    @property
    def recall(self) -> float:
        """|A and S| / |S|: the share of sure links that are found; NaN without a sure link."""
        sure = self.sure_N.sum()
        return float(self.sure_found_N.sum() / sure) if sure else float("nan")

    @property
    def aer(self) -> float:
        """1 - (|A and S| + |A and P|) / (|A| + |S|); lower is better."""
        return float(self.resampled(np.ones((1, len(self))))[0])

    def resampled(self, weights_RN: np.ndarray) -> np.ndarray:
        """AER of bootstrap samples; row r counts pair n `weights_RN[r, n]` times; shape (R,)."""
        found = weights_RN @ (self.sure_found_N + self.possible_found_N)
        total = weights_RN @ (self.links_N + self.sure_N)
        return np.divide(total - found, total, out=np.full(len(total), np.nan), where=total > 0)

    def __str__(self) -> str:
        """The field's own line: AER (precision/recall/links)."""
        precision, recall = 100 * self.precision, 100 * self.recall
        return f"AER {100 * self.aer:.1f}% ({precision:.1f}%/{recall:.1f}%/{self.links})"


def alignment_error_rate(
    counts: LinkCounts, signature: str, samples: int = 1000, seed: int = 0
) -> Score:
    """AER with a 95 % percentile bootstrap interval over sentence pairs.

    Args:
        counts: from `LinkCounts.count`.
        signature: of the number.
        samples: bootstrap samples.
        seed: of the draws.
    """
    low, high = interval(counts.resampled, len(counts), samples, seed)
    return Score(counts.aer, low, high, signature)


@dataclass(frozen=True)
class Unaligned:
    """Share of target words that AER cannot judge and fidelity can.

    Attributes:
        words: target words in all.
        no_link: share with no link at all.
        no_sure_link: share with no sure link.
    """

    words: int
    no_link: float
    no_sure_link: float


def unaligned(gold: Sequence[Alignment], target_lengths: Sequence[int]) -> Unaligned:
    """Counts target words without gold links, both ways.

    Args:
        gold: of each pair.
        target_lengths: target words of each pair.
    """
    words = sum(target_lengths)
    linked = sum(len({j for _, j in g.possible}) for g in gold)
    sure = sum(len({j for _, j in g.sure}) for g in gold)
    return Unaligned(words, 1 - linked / words, 1 - sure / words)
