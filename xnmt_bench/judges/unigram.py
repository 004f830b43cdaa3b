"""A point of reference: what the labels' own distribution gives without any rule."""

from __future__ import annotations

from typing import Any

import numpy as np

from proxies.narrowed import PIECES, WIDEST, Pieces
from xnmt_bench.judges.judge import Judge, describe_pieces
from xnmt_bench.rules.table import Rules, read_columns, shards


class Unigram(Judge):
    """The labels' own distribution, counted in training and smoothed by one."""

    name = "unigram"
    heading = "the labels' own distribution, which no rule can help"
    learns_from = "labels"
    sees_rule = False
    version = 5

    def recipe(self) -> dict[str, Any]:
        """Return the labels that are counted."""
        labels = self.rules.training_labels(self.rules.train_sentences)
        # Only labels: every explainer and every k share its log-likelihoods.
        recipe = {"judge": self.name, "labels": labels}
        return recipe | ({"vocabulary": PIECES} if self.rules.wide[1] else {})

    @property
    def _size(self) -> int:
        """How many labels there could be."""
        return len(self.rules.explained.texts.subwords[1])

    def row_keys(self) -> dict[str, Any]:
        """Return the columns of its row; explainer, k and seed do not matter to it."""
        return {"instantiation": self.name, "explainer": "", "k": "", "prefix": "", "seed": ""}

    def log_likelihood(self, rules: Rules) -> tuple[np.ndarray, np.ndarray]:
        """Return log P of each label, and whether it is the most frequent label."""
        return unigram(self._train_labels(), rules.label_N, self._size)

    def facts(self) -> dict[str, Any]:
        """Return which labels a large vocabulary lacks counts of; see `describe_pieces`."""
        if self._size <= WIDEST:
            return {}
        pieces = Pieces(self._train_labels(), self._size)
        return describe_pieces(pieces, self.rules.test.label_N)

    def _train_labels(self) -> np.ndarray:
        artefact = self.rules.training_labels(self.rules.train_sentences)
        paths = shards(artefact.path, "train")
        return np.concatenate([read_columns(path, ["label"])["label"] for path in paths])


def left_out_perplexity(label_N: np.ndarray) -> float:
    """Return the perplexity of labels by the frequencies of the others, add-one smoothed.

    For where no training labels are counted. Each label is left out of its own frequency, and what
    is smoothed are the labels that occur.
    """
    kinds, kind_N, count_C = np.unique(label_N, return_inverse=True, return_counts=True)
    # One less for the label itself, and one more by smoothing: its count among all.
    log_p_N = np.log(count_C[kind_N] / (len(label_N) - 1 + len(kinds)))
    return float(np.exp(-log_p_N.mean()))


def unigram(
    train_labels: np.ndarray, test_labels: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Score labels by their frequency among `size` ids, add-one smoothed.

    Of a vocabulary wider than `WIDEST` the smoothing adds one for each id that training has, and
    one for all others together: one for each would outweigh the counts. The others share theirs.

    Returns:
        Log-likelihood of each test label, and whether it is the most frequent label.
    """
    # A label that training lacks must not have probability 0, or the perplexity is infinite.
    counts = np.bincount(train_labels, minlength=size) + 1.0
    if size > WIDEST:
        unseen = counts == 1
        counts[unseen] /= max(1, unseen.sum())
    log_p = np.log(counts / counts.sum())
    return log_p[test_labels], test_labels == counts.argmax()
