"""Whose confidence can be believed: does it predict how good a translation is?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, product

import numpy as np

from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.analyses.ranks import partial_spearman, spearman
from xnmt_bench.analyses.tables import pivoted
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.measuring.bootstrap import Draws, interval, weights
from xnmt_bench.measuring.metric import TableRow
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.confidence.detects import TELLS
from xnmt_bench.options import Count, Seed, Texts
from xnmt_bench.registry import unknown
from xnmt_bench.report.panels import Panel, distinguish, ends
from xnmt_bench.report.summary import Cell

QUALITY = {"chrf": "chrF", "bleu": "BLEU"}
LENGTH = "source_words"  # known before anything is translated
# What needs no explainer; a length predicts by being short.
BASELINES = {"short source": (LENGTH, -1.0), "log-probability": ("log_probability", 1.0)}
LENGTH_NOTE = ", given length"
NOTE = (
    "Spearman's correlation of each score with a sentence's own chrF and BLEU, with 95 % bootstrap "
    "intervals over sentences; +1: the score ranks translations as quality does. Given length: of "
    "what the source's number of words leaves (Pearson of the residuals of ranks). A score that "
    "does no better than the short source, or than a blind explainer's, says nothing of its own."
)


class Predicts(Analysis):
    """How well sentence scores rank translations by their quality, explainer by explainer.

    Args:
        scores: columns of the units, greater meaning surer.
        samples: bootstrap samples.
        seed: of the draws.
    """

    name = "predicts"

    def __init__(
        self,
        scores: Texts = ("confidence", "cdp", "ap_out", "ap_in"),
        samples: Count = 1000,
        seed: Seed = 0,
    ) -> None:
        self.scores, self.draws = list(scores), Draws(samples, seed)

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return a line for each score of each explainer, behind the baselines."""
        self._check_scores(panels)
        usable = [(panel, rows) for panel in panels if (rows := list(self._rows(panel)))]
        if not usable:
            raise NotApplicable("the sentences have no references, or no scores")
        kept, by_panel = zip(*usable, strict=True)
        words = {"explainer": "explainer", "score": "score"}
        title, apart = "Which confidence predicts quality?", distinguish(kept)
        summary = pivoted(title, kept, by_panel, words, "predicted", _cell, [NOTE], apart)
        identity = (*kept[0].condition, "explainer", "score", "predicted")
        return Result(list(chain(*by_panel)), identity, ("sentences", *ends("spearman")), summary)

    def _check_scores(self, panels: Sequence[Panel]) -> None:
        """Refuse a score that no metric writes and no row has.

        Raises:
            XnmtError: a name is wrong.
        """
        rows = chain.from_iterable(panel.measured("", blind=True).values() for panel in panels)
        columns = {*TELLS}.union(*(m.units().columns for seeds in rows for m in seeds))
        for score in (score for score in self.scores if score not in columns):
            raise XnmtError(f"analysis.predicts.scores: {unknown('score', score, columns)}")

    def _rows(self, panel: Panel) -> Iterator[TableRow]:
        by_name = panel.measured("", blind=True)
        seeds = {name: [m.units() for m in rows] for name, rows in by_name.items()}
        first = next(iter(seeds.values()), [None])[0]
        # All explainers score the same sentences, so the first says whether these have references.
        if first is None or not {*QUALITY, LENGTH} <= first.columns.keys():  # no references
            return
        # Once a panel: a baseline's numbers are the same for each explainer.
        for name, (column, sign) in BASELINES.items():
            if column in first.columns:
                row_keys = {"explainer": "(none)", "score": name}
                yield from self._correlations(panel, row_keys, [first], column, sign)
        for name, units in seeds.items():
            for score in (s for s in self.scores if s in units[0].columns):
                blind = " (blind)" * panel.blind(name)
                row_keys = {"explainer": name + blind, "score": score.replace("_", " ")}
                yield from self._correlations(panel, row_keys, units, score, 1.0)

    def _correlations(
        self, panel: Panel, row_keys: TableRow, seeds: Sequence[Units], column: str, sign: float
    ) -> Iterator[TableRow]:
        """Yield a score's correlations with quality, raw and given length, averaged over seeds."""
        for quality, given_length in product(QUALITY, (False, True)):
            # Length given length leaves nothing but rounding to rank.
            if given_length and column == LENGTH:
                continue
            by_seed = [
                # Seeds are averaged behind the correlation: a mean of scores is a smoother score.
                sign * self._sampled(units, column, quality, given_length)
                for units in seeds
            ]
            mean_R = np.mean(by_seed, axis=0)
            numbers = (float(mean_R[0]), *interval(mean_R[1:]))
            yield {
                **panel.condition,
                **row_keys,
                "predicted": QUALITY[quality] + LENGTH_NOTE * given_length,
                "sentences": int(_there(seeds[0], column, quality).sum()),
                **dict(zip(ends("spearman"), numbers, strict=True)),
            }

    def _sampled(self, units: Units, column: str, quality: str, given_length: bool) -> np.ndarray:
        """Return the correlation on all sentences, then on each sample of them: (1 + samples,)."""
        there_U = _there(units, column, quality)
        x_U, y_U, length_U = (units[name][there_U] for name in (column, quality, LENGTH))
        size = int(there_U.sum())
        # A correlation of one sentence is undefined, and its samples with it.
        if size < 2:
            return np.full(1 + self.draws.samples, np.nan)
        # A row of ones first: it gives the value, and the draws behind it its interval.
        blocks = [np.ones((1, size)), *weights(size, self.draws.samples, self.draws.seed)]
        if given_length:
            return np.concatenate([partial_spearman(x_U, y_U, length_U, w) for w in blocks])
        return np.concatenate([spearman(x_U, y_U, w) for w in blocks])


def _there(units: Units, column: str, quality: str) -> np.ndarray:
    """Return which sentences have both numbers."""
    return ~np.isnan(units[column] + units[quality])


def _cell(row: TableRow) -> Cell:
    value, low, high = (row[name] for name in ends("spearman"))
    return Cell("" if np.isnan(value) else f"{value:.2f} [{low:.2f}, {high:.2f}]")
