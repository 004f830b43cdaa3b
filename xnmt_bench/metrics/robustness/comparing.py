"""Two explanations of the same decisions: how far apart they are, and whether their order is one.

Shapes: N decisions, X words of one side that a decision sees.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xnmt_bench.analyses.ranks import spearman
from xnmt_bench.rules.table import RULE_SIDES, SentenceRelevance

ROUNDING = 1e-6  # of float32, relative to the greatest scores of a decision


def distances(
    reference: SentenceRelevance,
    moved: Sequence[SentenceRelevance],
    source_S: np.ndarray,
    target_T: np.ndarray,
) -> np.ndarray:
    """Return how far the farthest of some explanations is from a reference, (N,).

    That is max |phi' - phi| / |phi|, with Euclidean norms over the words of both sides that a
    decision sees. NaN where phi is 0, up to rounding relative to what BOS and EOS have.

    Args:
        reference: of one sentence, N decisions.
        moved: of the same sentence.
        source_S: its source ids.
        target_T: its target ids.

    Raises:
        NotApplicable: a word that a decision sees has no relevance.
    """
    # Both sides as one vector, as the definition has it for an explanation.
    scores, *moved_scores = (
        [np.concatenate([x for _, x in sides]) for sides in each.visible_words(source_S, target_T)]
        for each in (reference, *moved)
    )
    norm_N = np.array([np.linalg.norm(x) for x in scores])
    all_scores = np.concatenate([reference.source_TS, reference.prefix_TT], axis=1)
    whole_N = np.linalg.norm(np.nan_to_num(all_scores), axis=1)
    moved_ON = [
        [np.linalg.norm(y - x) for x, y in zip(scores, other, strict=True)]
        for other in moved_scores
    ]
    # The worst of the draws: sensitivity is a maximum, of which draws give a lower bound.
    farthest_N = np.max(moved_ON, axis=0)
    return np.divide(
        farthest_N, norm_N, out=np.full(len(norm_N), np.nan), where=norm_N > ROUNDING * whole_N
    )


def compare_order(
    reference: SentenceRelevance,
    other: SentenceRelevance,
    source_S: np.ndarray,
    target_T: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return whether two explanations order the words of each decision alike.

    Args:
        reference: of one sentence, N decisions.
        other: of the same sentence.
        source_S: its source ids.
        target_T: its target ids.

    Returns:
        By side, (N,) each: `rank <side>`, Spearman's correlation; `top <side>`, whether the most
        relevant word is the same, the leftmost of equals; `chance <side>`, how often it is if
        the other one is drawn. NaN where the reference has no order: fewer than two words, or all
        as relevant. Where only the other one has no order, the correlation is 0.

    Raises:
        NotApplicable: a word that a decision sees has no relevance.
    """
    columns = {
        f"{name} {side}": np.full(len(reference.source_TS), np.nan)
        for side in RULE_SIDES
        for name in ("rank", "top", "chance")
    }
    pairs = zip(
        reference.visible_words(source_S, target_T),
        other.visible_words(source_S, target_T),
        strict=True,
    )
    for n, both in enumerate(pairs):
        for side, (_, scores_X), (_, other_X) in zip(RULE_SIDES, *both, strict=True):
            # An order of equal scores could neither be kept nor lost.
            if len(scores_X) and np.ptp(scores_X):
                columns[f"rank {side}"][n] = correlate_ranks(scores_X, other_X)
                columns[f"top {side}"][n] = scores_X.argmax() == other_X.argmax()
                # Beside the share, since decisions with few words agree often by chance.
                columns[f"chance {side}"][n] = 1 / len(scores_X)
    return columns


def correlate_ranks(one_X: np.ndarray, other_X: np.ndarray) -> float:
    """Return Spearman's correlation, 0 where either has no order."""
    [correlation] = spearman(one_X, other_X, np.ones((1, len(one_X))))
    return float(np.nan_to_num(correlation))
