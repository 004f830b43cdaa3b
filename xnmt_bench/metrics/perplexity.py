"""Perplexity of decisions, with a bootstrap over sentences (Li et al. 2020, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from xnmt_bench.metrics.bootstrap import interval
from xnmt_bench.metrics.score import Score
from xnmt_bench.parquet import read_table, write_table


@dataclass(frozen=True)
class DecisionScores:
    """How one predictor did on each decision of a test set.

    Attributes:
        sentence_N: number of the decision's sentence.
        step_N: step, counted from 0.
        log_likelihood_N: log probability of the label, in nats.
        correct_N: whether the label is the predictor's first choice.
    """

    sentence_N: np.ndarray
    step_N: np.ndarray
    log_likelihood_N: np.ndarray
    correct_N: np.ndarray

    COLUMNS = ("sentence", "step", "log_likelihood", "correct")

    def save(self, path: Path) -> None:
        """Writes the scores as Parquet."""
        arrays = (self.sentence_N, self.step_N, self.log_likelihood_N, self.correct_N)
        write_table(pa.table(dict(zip(self.COLUMNS, arrays, strict=True))), path)

    @classmethod
    def load(cls, path: Path) -> DecisionScores:
        """Reads what `save` wrote.

        Raises:
            StoreError: the file is not readable.
        """
        table = read_table(path, cls.COLUMNS)
        return cls(*(table[name].to_numpy() for name in cls.COLUMNS))

    def __len__(self) -> int:
        return len(self.log_likelihood_N)

    @property
    def agreement(self) -> float:
        """Share of decisions whose label is the predictor's first choice."""
        return float(self.correct_N.mean())

    @property
    def perplexity(self) -> float:
        """Exp of the mean negative log-likelihood; lower is better."""
        return float(np.exp(-self.log_likelihood_N.mean()))

    def same_decisions(self, other: DecisionScores) -> bool:
        """Whether both are of the same decisions, in the same order."""
        return np.array_equal(self.sentence_N, other.sentence_N) and np.array_equal(
            self.step_N, other.step_N
        )

    def take(self, chosen_N: np.ndarray) -> DecisionScores:
        """Some of the decisions, by a mask or by their places."""
        return DecisionScores(*(values[chosen_N] for values in self.__dict__.values()))

    def by_sentence(self) -> tuple[np.ndarray, np.ndarray]:
        """Sum of the log-likelihoods and number of decisions of each sentence, in its order."""
        _, member = np.unique(self.sentence_N, return_inverse=True)
        return np.bincount(member, self.log_likelihood_N), np.bincount(member)


def resampled(
    parts: Sequence[DecisionScores], sentences: np.ndarray | None = None
) -> Callable[[np.ndarray], np.ndarray]:
    """Perplexity as a function of how often each sentence counts.

    Args:
        parts: the scores of each seed; their perplexities are averaged.
        sentences: numbers of the sentences that count, in order; all, if not given.

    Returns:
        From weights (R, N) of the N sentences to the perplexity of each of R samples.
    """
    sums, counts = [], []
    for part in parts:
        numbers = np.unique(part.sentence_N)
        chosen = np.isin(numbers, numbers if sentences is None else sentences)
        of_sentence = part.by_sentence()
        sums.append(of_sentence[0][chosen])
        counts.append(of_sentence[1][chosen])
    sums_NS, counts_NS = np.stack(sums, axis=1), np.stack(counts, axis=1)
    return lambda weights_RN: np.exp(-(weights_RN @ sums_NS) / (weights_RN @ counts_NS)).mean(1)


def perplexity(scores: DecisionScores, signature: str, samples: int, seed: int) -> Score:
    """Perplexity with a 95 % percentile bootstrap interval over sentences.

    Args:
        scores: of every decision.
        signature: of the number.
        samples: bootstrap samples.
        seed: of the draws.
    """
    sentences = len(np.unique(scores.sentence_N))
    low, high = interval(resampled([scores]), sentences, samples, seed)
    return Score(scores.perplexity, low, high, signature)


def unigram(train_labels: np.ndarray, test_labels: np.ndarray, size: int) -> tuple[np.ndarray, ...]:
    """The labels' own distribution, counted on the training set and smoothed by one.

    Args:
        train_labels: label ids.
        test_labels: label ids that are scored.
        size: number of labels there are.

    Returns:
        Log-likelihood of each test label, and whether it is the most frequent label.
    """
    counts = np.bincount(train_labels, minlength=size) + 1
    log_p = np.log(counts / counts.sum())
    return log_p[test_labels], test_labels == counts.argmax()
