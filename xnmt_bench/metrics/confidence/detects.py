"""Whose confidence finds the broken ones: scores against annotated translations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

import numpy as np

from xnmt_bench.analyses.analysis import Analysis, Result
from xnmt_bench.analyses.ranks import auroc, fpr_at
from xnmt_bench.analyses.tables import pivoted
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.measuring.bootstrap import Draws, interval, weights
from xnmt_bench.measuring.metric import TableRow
from xnmt_bench.measuring.units import Units, common
from xnmt_bench.options import Chance, Count, Seed, Text
from xnmt_bench.registry import unknown
from xnmt_bench.report.panels import Panel, distinguish, ends
from xnmt_bench.report.summary import Cell

LABEL = "label_"  # begins the units' columns of annotation
TURNED = "not "  # begins a label that is turned
# Which way each score tells a broken translation: -1 where a small one does.
TELLS = {
    **dict.fromkeys(("confidence", "without_overlap", "cdp", "ap_out", "ap_in"), -1.0),
    **dict.fromkeys(("overlap", "attention_to_eos", "ignored_source"), 1.0),
    **dict.fromkeys(("wass_to_uniform", "wass_to_data"), 1.0),
    **dict.fromkeys(("log_probability", "source_contribution", "top_source"), -1.0),
}
OF_TEXT = {
    "top_four_gram": 1.0,
    "length_ratio": -1.0,
    **dict.fromkeys(("target_words", "digits_differ", "wrong_language", "strange_symbols"), 1.0),
}
OF_REFERENCE = {"chrf": -1.0, "bleu": -1.0, "ter": 1.0}
TEXT, REFERENCE = "(the text)", "(the reference)"
NOTE = (
    "AUROC of each score as a detector of annotated translations, with its 95 % bootstrap interval "
    "over sentences: 0.5 is chance. FPR: of the translations without the label, the share that is "
    "flagged where {recall:.0%} of those with it are. The translations are another system's: ours "
    "was made to say them, so its weights and probabilities are not those that they were made with."
)


class Detects(Analysis):
    """How well sentence scores find annotated translations, explainer by explainer.

    Args:
        labels: a detected kind and the annotated ones that it joins; `not` before a name turns it,
            as that of a label which means that nothing is wrong. Directions stay, if not
            given.
        recall: of the positive, where the false positives are counted.
        samples: bootstrap samples.
        seed: of the draws.
    """

    name = "detects"

    def __init__(
        self,
        labels: Mapping[str, Sequence[Text]] | None = None,
        recall: Chance = 0.9,
        samples: Count = 1000,
        seed: Seed = 0,
    ) -> None:
        self.labels, self.recall, self.draws = labels, recall, Draws(samples, seed)

    def analyse(self, panels: Sequence[Panel]) -> Result:
        """Return a line for each score of each explainer, after those of the text."""
        usable = [(panel, rows) for panel in panels if (rows := list(self._rows(panel)))]
        if not usable:
            raise NotApplicable("the translations are not annotated (outputs.format=annotated)")
        kept, by_panel = zip(*usable, strict=True)
        words = {"explainer": "explainer", "detector": "detector"}
        notes, apart = [NOTE.format(recall=self.recall)], distinguish(kept)
        title = "Which scores find broken translations?"
        summary = pivoted(title, kept, by_panel, words, "label", _cell, notes, apart)
        identity = (*kept[0].condition, "explainer", "detector", "label")
        measured = ("positive", "sentences", *ends("auroc"), *ends("fpr"))
        return Result(list(chain(*by_panel)), identity, measured, summary)

    def _rows(self, panel: Panel) -> Iterator[TableRow]:
        by_name = panel.measured("", blind=True)
        for number, (name, rows) in enumerate(by_name.items()):
            every = [row.units() for row in rows]
            numbers = common(every)
            # Rows of other sentences are not averaged with the first.
            seeds = every[:1] if numbers is None else [units.take(numbers) for units in every]
            units = seeds[0]
            labels = self._labels(units)
            detectors = [(name + " (blind)" * panel.blind(name), TELLS)]
            if number == 0:
                # The same under every explainer, so the first one's rows give them once.
                detectors = [(REFERENCE, OF_REFERENCE), (TEXT, OF_TEXT), *detectors]
            for explainer, signs in detectors:
                # What does not depend on the explainer does not depend on its seed.
                counted = seeds if signs is TELLS else seeds[:1]
                for column, sign in signs.items():
                    if column in units.columns and not np.isnan(units[column]).all():
                        row_keys = {"explainer": explainer, "detector": column.replace("_", " ")}
                        having = [seed for seed in counted if column in seed.columns]
                        scores = [sign * seed[column] for seed in having]
                        yield from self._score_detector(panel, row_keys, scores, labels)

    def _labels(self, units: Units) -> dict[str, np.ndarray]:
        """Return each kind that is detected: which units are of it."""
        labels = {
            name.removeprefix(LABEL): units[name] > 0
            for name in units.columns
            if name.startswith(LABEL)
        }
        if self.labels is None:
            return labels
        # Some corpora annotate what is right; the turned label is what is searched for.
        labels |= {f"{TURNED}{name}": ~chosen_U for name, chosen_U in labels.items()}
        for name in (name for names in self.labels.values() for name in names):
            if labels and name not in labels:
                raise XnmtError(f"analysis.detects.labels: {unknown('label', name, labels)}")
        return {
            kind: np.any([labels[name] for name in names], axis=0)
            for kind, names in self.labels.items()
            if labels and names
        }

    def _score_detector(
        self,
        panel: Panel,
        row_keys: TableRow,
        scores: Sequence[np.ndarray],
        labels: Mapping[str, np.ndarray],
    ) -> Iterator[TableRow]:
        """Yield a row for each label; `scores` are of each seed, (U,)."""
        # A sentence without a score is neither flagged nor passed.
        there_U = ~np.isnan(scores).any(axis=0)
        size = int(there_U.sum())
        if not size:
            return
        # The row of ones is the value itself; the others are the draws.
        blocks = [np.ones((1, size)), *weights(size, self.draws.samples, self.draws.seed)]
        for label, positive_U in labels.items():
            row = {
                **panel.condition,
                **row_keys,
                "label": label,
                "sentences": size,
                "positive": int(positive_U[there_U].sum()),
            }
            for name, measure in (("auroc", auroc), ("fpr", partial(fpr_at, self.recall))):
                by_seed = [
                    np.concatenate([measure(s_U[there_U], positive_U[there_U], b) for b in blocks])
                    for s_U in scores
                ]
                # Seeds are averaged behind the measure: a mean of scores is a smoother score.
                value_R = np.mean(by_seed, axis=0)
                numbers = (float(value_R[0]), *interval(value_R[1:]))
                row |= dict(zip(ends(name), numbers, strict=True))
            yield row


def _cell(row: TableRow) -> Cell:
    value, low, high = (row[name] for name in ends("auroc"))
    if np.isnan(value):
        return Cell("")
    return Cell(f"{value:.3f} [{low:.3f}, {high:.3f}], FPR {100 * row['fpr']:.0f} %")
