"""How well an explainer's ranking of one side's words fits their effects on one decision.

Shapes: W words of a side, X its pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SIDES = ("source", "prefix")


@dataclass(frozen=True)
class Shares:
    """One decision's part in the sums of one side.

    Attributes:
        usable: 1; the side has a word with an effect.
        judged: whether all words named have a known effect.
        causal: effects of the words named, over the greatest sum there is.
        chance: the same of words drawn at random.
        strongest: whether the first word named has the greatest effect.
        ranked: whether tau is known, which it is not where relevance or effects are all equal.
        tau: Kendall's tau-b of relevance and effect over words of known effect.
    """

    usable: float
    judged: float = 0.0
    causal: float = 0.0
    chance: float = 0.0
    strongest: float = 0.0
    ranked: float = 0.0
    tau: float = 0.0


def word_relevance(relevance_X: np.ndarray, words: Sequence[int], count: int) -> np.ndarray:
    """Return the relevance of each word, (W,): that of its best piece, as in rules.

    Args:
        relevance_X: of pieces, EOS last; NaN for what the step cannot see.
        words: the word of each piece, -1 for EOS.
        count: how many words there are; one without a piece has no relevance, NaN.
    """
    relevance_W = np.full(count, np.nan)
    for word, relevance in zip(words[:-1], relevance_X, strict=False):
        # `fmax`, since a step may see some pieces of a word and not others.
        relevance_W[word] = np.fmax(relevance_W[word], relevance)
    return relevance_W


def first_words(relevance_W: np.ndarray, k: int) -> np.ndarray:
    """Return the k words of greatest relevance that a step sees, ties to the leftmost."""
    visible = np.flatnonzero(~np.isnan(relevance_W))
    return np.asarray(visible[np.argsort(-relevance_W[visible], kind="stable")][:k])


def judge_side(
    relevance_W: np.ndarray, effect_W: np.ndarray, k: int, least: float
) -> Shares | None:
    """Return how one decision's ranking fits the effects; None where the side is not usable.

    Args:
        relevance_W: of each word; NaN for what the step cannot see.
        effect_W: of each word; NaN for what the step cannot see, or what has no substitute.
        k: words that are named.
        least: the greatest effect that makes the side usable.
    """
    known_W = ~np.isnan(effect_W) & ~np.isnan(relevance_W)
    # Where no word has an effect, no ranking is better than another.
    if not known_W.any() or effect_W[known_W].max() < least:
        return None
    named = first_words(relevance_W, k)
    # Counted as usable and not judged: a named word without a substitute is neither right nor
    # wrong.
    if not known_W[named].all():
        return Shares(1.0)
    effects = np.sort(effect_W[known_W])[::-1]
    # The best k words that are known, so that a causal share of 1 can be reached.
    greatest = effects[:k].sum()
    tau = _tau_b(relevance_W[known_W], effect_W[known_W])
    return Shares(
        1.0,
        1.0,
        float(effect_W[named].sum() / greatest),
        float(min(k, len(effects)) * effects.mean() / greatest),
        float(effect_W[named[0]] >= effects[0]),
        float(not np.isnan(tau)),
        float(np.nan_to_num(tau)),
    )


def judge_sides(
    relevances: Sequence[np.ndarray], effects: Sequence[np.ndarray], k: int, least: float
) -> tuple[float, float] | None:
    """Return how one decision's words of both sides fit the effects; None where it is not usable.

    Args:
        relevances: of each side's words, as for `judge_side`.
        effects: of each side's words.
        k: words that are named a side.
        least: the greatest effect of any word that makes the decision usable.

    Returns:
        Whether all words named have a known effect, and their effects over the greatest sum that k
        words a side have.
    """
    named = greatest = 0.0
    most = -np.inf
    for relevance_W, effect_W in zip(relevances, effects, strict=True):
        visible_W = ~np.isnan(relevance_W)
        descending = np.sort(effect_W[visible_W & ~np.isnan(effect_W)])[::-1]
        if len(descending):  # a side may have no word that is seen, or none that is known
            most = max(most, descending[0])
            greatest += descending[:k].sum()
        # NaN where one that is named is unknown.
        named += effect_W[first_words(relevance_W, k)].sum()
    if most < least:
        return None
    judged = not np.isnan(named)
    return float(judged), float(named / greatest) if judged else 0.0


def _tau_b(first_W: np.ndarray, second_W: np.ndarray) -> float:
    """Return Kendall's tau-b; NaN where either is constant."""
    # Each pair once; ties have sign 0, which tau-b leaves out of its denominators.
    upper = np.triu_indices(len(first_W), 1)
    signs = [np.sign(x[upper[0]] - x[upper[1]]) for x in (first_W, second_W)]
    pairs = [np.abs(sign).sum() for sign in signs]
    return float(signs[0] @ signs[1] / np.sqrt(pairs[0] * pairs[1])) if all(pairs) else np.nan
