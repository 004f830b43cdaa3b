"""How well an explainer's ranking of one side's words fits their effects on one decision.

A word is as relevant as its best piece, as in rules. Pieces of equal relevance have no order, so
results are expected values over all of their orders, each as probable. A word of many tied pieces
then stands first more often than one of few, as it does where relevance is drawn at random.

Shapes: W words of a side, X its pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from xnmt_bench.words.pieces import membership

SIDES = ("source", "prefix")


@dataclass(frozen=True)
class Shares:
    """One decision's part in the sums of one side.

    Whether a decision has one depends only on the effects, so that all explainers are judged on
    the same decisions. A word without a known effect counts as one that does nothing.

    Attributes:
        causal: effects of the words named, over the greatest sum there is.
        chance: the same where each piece's relevance is drawn at random.
        unknown: share of the words to name that have no known effect, or were not named.
        strongest: whether the first word named has the greatest effect.
        ranked: whether effects differ, so that they have an order.
        tau: Kendall's tau-b of relevance and effect over words of known effect; 0 where all
            relevance is equal.
        usable: 1; the side has a word with an effect.
    """

    causal: float
    chance: float
    unknown: float
    strongest: float
    ranked: float
    tau: float
    usable: float = 1.0


@dataclass(frozen=True)
class Ranking:
    """The words of a side by their relevance for one decision.

    Attributes:
        relevance_W: of each word's best piece; NaN for a word without relevance.
        pieces_W: how many pieces of the word are as relevant.
    """

    relevance_W: np.ndarray
    pieces_W: np.ndarray

    @classmethod
    def of_pieces(cls, relevance_X: np.ndarray, words: Sequence[int], count: int) -> Ranking:
        """Rank the words of a side.

        Args:
            relevance_X: of pieces; NaN for a piece without relevance.
            words: the word of each piece, below 0 for none, as EOS has it.
            count: how many words there are; one without a piece has no relevance.
        """
        known_XW = (membership(words, count) > 0) & ~np.isnan(relevance_X)[:, None]
        relevance_XW = np.where(known_XW, relevance_X[:, None], -np.inf)
        best_W = relevance_XW.max(0, initial=-np.inf)
        pieces_W = (known_XW & (relevance_XW == best_W)).sum(0)
        return cls(np.where(pieces_W > 0, best_W, np.nan), pieces_W)

    def probability(self, places: Sequence[int], k: int) -> float:
        """Return how probable it is that words at some places are all among the first k."""
        relevance = self.relevance_W[list(places)]
        if np.isnan(relevance).any():
            return 0.0
        # Only the least relevant of them can miss.
        least = relevance.min()
        above = int((self.relevance_W > least).sum())
        tied = self.relevance_W == least
        chosen = [int(place) for place in places if tied[place]]
        tied[chosen] = False
        pieces = (sorted(self.pieces_W[which].tolist()) for which in (chosen, tied))
        return _probability_first(*map(tuple, pieces), k - above)

    def named(self, k: int) -> np.ndarray:
        """Return how probable it is that each word is among the first k, (W,)."""
        relevance_W = self.relevance_W
        above_W = (relevance_W > relevance_W[:, None]).sum(1)
        tied_W = (relevance_W == relevance_W[:, None]).sum(1)  # 0 for a word without relevance
        named_W = ((tied_W > 0) & (above_W + tied_W <= k)).astype(np.float64)
        partly_W = (above_W < k) & (above_W + tied_W > k)
        for pieces in set(self.pieces_W[partly_W].tolist()):
            # Words of as many tied pieces are as probable.
            alike_W = partly_W & (self.pieces_W == pieces)
            named_W[alike_W] = self.probability([int(alike_W.argmax())], k)
        return named_W


@lru_cache(maxsize=10_000)  # most decisions of a sentence ask for the same
def _probability_first(chosen: tuple[int, ...], other_words: tuple[int, ...], k: int) -> float:
    """Return how probable it is that some words are all among the first k in a random order.

    Pieces are in a random order, and a word is where its first piece does. For one word and
    k = 1 that is the word's share of the pieces.

    Args:
        chosen: the number of pieces of each of these words.
        other_words: the same of all other words.
        k: how many words come first.
    """
    if len(chosen) > k:
        return 0.0
    if len(chosen) + len(other_words) <= k:
        return 1.0
    # As if each piece drew a number between 0 and 1: the best of n pieces is below x with
    # probability x^n. With x the worst of the chosen words' bests, at most k - len(chosen) other
    # words may be above it. That is a polynomial in x whose degree is below the number of pieces,
    # so Gauss's rule integrates it without an error.
    nodes, weights = np.polynomial.legendre.leggauss((sum(chosen) + sum(other_words) + 1) // 2)
    x, weights = (nodes + 1) / 2, weights / 2
    density = sum(
        n * x ** (n - 1) * np.prod([1 - x**m for j, m in enumerate(chosen) if j != i], axis=0)
        for i, n in enumerate(chosen)
    )
    # The probability of each number of others above x, up to that which may be.
    above = np.zeros((k - len(chosen) + 1, len(x)))
    above[0] = 1
    for n in other_words:
        below = x**n
        above[1:] = above[1:] * below + above[:-1] * (1 - below)
        above[0] *= below
    return float(weights @ (density * above.sum(0)))


def judge_side(
    ranking: Ranking, chance_W: np.ndarray, effect_W: np.ndarray, k: int, least: float
) -> Shares | None:
    """Return how one decision's ranking fits the effects; None where the side is not usable.

    Args:
        ranking: the explainer's.
        chance_W: how probable it is that each word is named where pieces are drawn at random.
        effect_W: of each word; NaN for what the step cannot see, or what has no substitute.
        k: words that are named.
        least: the greatest effect that makes the side usable.
    """
    known_W = ~np.isnan(effect_W)
    # Where no word has an effect, no ranking is better than another.
    if not known_W.any() or effect_W[known_W].max() < least:
        return None
    effect_W = np.nan_to_num(effect_W)
    named_W = ranking.named(k)
    first_W = ranking.named(1) if k > 1 else named_W
    descending = np.sort(effect_W)[::-1]
    greatest = descending[:k].sum()
    ranked, tau = _tau_b(ranking.relevance_W[known_W], effect_W[known_W])
    return Shares(
        causal=float(named_W @ effect_W / greatest),
        chance=float(chance_W @ effect_W / greatest),
        unknown=float(1 - named_W[known_W].sum() / chance_W.sum()),
        strongest=float(first_W[known_W & (effect_W >= descending[0])].sum()),
        ranked=float(ranked),
        tau=tau,
    )


def judge_sides(
    rankings: Sequence[Ranking], effects: Sequence[np.ndarray], k: int, least: float
) -> float | None:
    """Return how one decision's words of both sides fit the effects; None where it is not usable.

    Args:
        rankings: the explainer's, of each side's words.
        effects: of each side's words, as for `judge_side`.
        k: words that are named a side.
        least: the greatest effect of any word that makes the decision usable.

    Returns:
        The effects of the words named, over the greatest sum that k words a side have.
    """
    all_effects = np.concatenate(effects)
    known_effects = all_effects[~np.isnan(all_effects)]
    if not len(known_effects) or known_effects.max() < least:
        return None
    named = greatest = 0.0
    for ranking, effect_W in zip(rankings, map(np.nan_to_num, effects), strict=True):
        named += ranking.named(k) @ effect_W
        greatest += np.sort(effect_W)[::-1][:k].sum()
    return float(named / greatest)


def _tau_b(relevance_W: np.ndarray, effect_W: np.ndarray) -> tuple[bool, float]:
    """Return whether effects differ, and Kendall's tau-b; 0 where either is constant.

    A word without relevance is less relevant than all others.
    """
    # Each pair once; ties have sign 0, which tau-b leaves out of its denominators.
    upper = np.triu_indices(len(effect_W), 1)
    signs = []
    for x in (np.nan_to_num(relevance_W, nan=-np.inf), effect_W):
        first, second = x[upper[0]], x[upper[1]]
        # Compared and not subtracted, since infinities have no difference.
        signs.append((first > second).astype(float) - (first < second))
    pairs = [np.abs(sign).sum() for sign in signs]
    tau = float(signs[0] @ signs[1] / np.sqrt(pairs[0] * pairs[1])) if all(pairs) else 0.0
    return bool(pairs[1]), tau
