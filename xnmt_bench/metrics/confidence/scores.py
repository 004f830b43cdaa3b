"""Confidence from attention (Rikters 2018, section 2.1; Rikters and Fishel 2017).

Shapes: A_TS, the weight of source token s for target token t; Ls = S and Lt = T, its sizes.
Logarithms are natural, 0 ln 0 = 0. All scores are 0 at best and else negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

import numpy as np

Definition = Literal["paper", "softalignments"]
COPIED = 0.3  # share of the translation that is a copy, from which on the overlap is penalised
LEAST_TOKENS = 4  # of a translation, beyond which the released tool penalises it


@dataclass(frozen=True)
class Confidence:
    """The scores of one translation.

    Attributes:
        cdp: coverage deviation penalty, Equation 1.
        ap_out: absentmindedness of the translation's tokens, Equation 2.
        ap_in: of the source's tokens, Equation 3.
        overlap: S, the share of the translation that is copied from the source.
        overlap_penalty: Equation 4, where S calls for it, else 0. It is a reward, since
            negative, for S below 0.4.
        without_overlap: the sum of the first three.
        confidence: that less the penalty, Equation 5.
    """

    cdp: float
    ap_out: float
    ap_in: float
    overlap: float
    overlap_penalty: float

    @property
    def without_overlap(self) -> float:
        """The baseline's confidence, which takes a copy of the source for good."""
        return self.cdp + self.ap_out + self.ap_in

    @property
    def confidence(self) -> float:
        """Equation 5."""
        return self.without_overlap - self.overlap_penalty


def confidence(
    weights_TS: np.ndarray, overlap: float, tokens: int, definition: Definition = "paper"
) -> Confidence:
    """Return equations 1 to 5.

    Equations 2 and 3 are corrected to the text's description. As printed both are the same sum
    over unnormalised weights, with the sign of a reward. Here the weights of each target token are
    normalised in `ap_out`, those of each source token in `ap_in`, and both are penalties; 1 / Ls is
    the printed one.

    `softalignments` is the released tool: |1 - x|^6 in `cdp`; each entropy over its own length; the
    penalty only where S > 0.3 and there are more than 4 tokens, EOS among them; the names of
    `ap_out` and `ap_in` exchanged; a token without any weight sets the sum so far to 0.

    Args:
        weights_TS: the scored matrix.
        overlap: S, from `overlap`.
        tokens: of the translation: Lt of Equation 4, without EOS.
        definition: the paper's, or the released tool's.
    """
    words, size = word_scores(weights_TS, definition), max(1, weights_TS.shape[1])
    cdp = float(words.cdp_S.sum()) / size
    if definition == "softalignments":
        # The released tool differs from the paper in several places, which are followed here.
        copied = overlap > COPIED and tokens > LEAST_TOKENS
        penalty = overlap_penalty(overlap, tokens) if copied else 0.0
        of_source = _forgetful(words.ap_in_S, weights_TS.T)
        return Confidence(cdp, of_source, _forgetful(words.ap_out_T, weights_TS), overlap, penalty)
    penalty = overlap_penalty(overlap, tokens) if overlap >= COPIED else 0.0
    absent = (float(words.ap_out_T.sum()) / size, float(words.ap_in_S.sum()) / size)
    return Confidence(cdp, *absent, overlap, penalty)


def _forgetful(scores_X: np.ndarray, weights_XY: np.ndarray) -> float:
    """Return the mean of scores, but all up to the last row without any weight count as 0."""
    empty = np.flatnonzero(weights_XY.sum(1) == 0)
    return float(scores_X[empty[-1] + 1 if len(empty) else 0 :].sum()) / max(1, len(scores_X))


@dataclass(frozen=True)
class WordScores:
    """What each token adds to the scores of its sentence, which are these sums over Ls.

    Attributes:
        cdp_S: of a source token: how far its attention is from 1.
        ap_in_S: of a source token: over how many target tokens its attention is spread.
        ap_out_T: of a target token: over how many source tokens.
    """

    cdp_S: np.ndarray
    ap_in_S: np.ndarray
    ap_out_T: np.ndarray


def word_scores(weights_TS: np.ndarray, definition: Definition = "paper") -> WordScores:
    """Return the terms of Equations 1 to 3."""
    power = 6 if definition == "softalignments" else 2
    deviation_S = np.abs(1 - weights_TS.sum(0)) ** power  # the tool's power; the paper squares
    return WordScores(-np.log1p(deviation_S), -_entropies(weights_TS.T), -_entropies(weights_TS))


def _entropies(weights_XY: np.ndarray) -> np.ndarray:
    """Return the entropy of each row, normalised; 0 where a row has nothing."""
    sums_X1 = weights_XY.sum(1, keepdims=True)
    shares_XY = np.divide(weights_XY, sums_X1, out=np.zeros(weights_XY.shape), where=sums_X1 > 0)
    logs_XY = np.log(shares_XY, out=np.zeros_like(shares_XY), where=shares_XY > 0)
    # 0 log 0 counts as 0.
    return -(shares_XY * logs_XY).sum(1)


def overlap_penalty(overlap: float, tokens: int) -> float:
    """Return equation 4, for an overlap S and a translation of Lt tokens."""
    share = 3 - (1 - overlap) * 5
    return (0.8 + tokens * 0.01) * share * (0.7 + overlap) * float(np.tan(overlap))


def overlap(copied: str, target: str) -> float:
    """Return S: the characters of the longest common substring over the translation's.

    Args:
        copied: from `common`.
        target: the translation, as text and not as tokens.
    """
    return len(copied) / max(1, len(target))


def common(source: str, target: str) -> str:
    """Return the longest common substring of two texts, without blanks at its ends."""
    # Without autojunk, which takes frequent characters of long texts for nothing.
    matcher = SequenceMatcher(None, source, target, autojunk=False)
    match = matcher.find_longest_match()
    return source[match.a : match.a + match.size].strip()


def as_percentage(name: str, score: float) -> float:
    """Return a score as the tool shows it: 100 exp(-c x^2); also a token's."""
    scale = 1.0 if name == "cdp" else 0.05
    return 100 * float(np.exp(-scale * score**2))
