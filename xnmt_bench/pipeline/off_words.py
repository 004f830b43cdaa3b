"""How much of attention lies on no word: on a prompt, BOS, a separator or EOS."""

from __future__ import annotations

import numpy as np

from xnmt_bench.corpora.vocabulary.subwords import SPECIAL
from xnmt_bench.pipeline.explained import EVALUATED, Explained
from xnmt_bench.rules.extract import Scenario

ROUNDING = 0.01  # by how much shares in bfloat16 may sum to more than 1


def shares_off_words(
    explained: Explained, scenario: Scenario, source_alone: bool = False
) -> dict[int, np.ndarray] | None:
    """Return what share of each step lies on no word that a rule may hold, (T,), by sentence.

    It follows from the stored relevance of the test set. Where source and prefix have a softmax
    each, it is the mean of both.

    Args:
        explained: the decisions.
        scenario: where their contexts and labels come from.
        source_alone: accept an explainer without relevance of prefix words; the share is then of
            the source alone.

    Returns:
        None where the relevance has no shares, or comes from a file, which may leave such ids out.

    Raises:
        NotApplicable: the explainer does not cover the model.
    """
    explainer = explained.explainer
    if not explainer.shares or explainer.of_target_words:
        return None
    split, on_words = explained.decisions.split(EVALUATED, scenario), dict[int, np.ndarray]()
    has_prefix = False
    for index, relevance in enumerate(explained.relevance(scenario, source_alone)):
        sides = (split.source[index], split.target[index])
        source_S, target_T = (~np.isin(ids, SPECIAL) for ids in sides)
        # NaN is for words that a step cannot see.
        on_prefix_T = np.nansum(relevance.prefix_TT[:, target_T], axis=1)
        on_words[relevance.number] = relevance.source_TS[:, source_S].sum(1) + on_prefix_T
        has_prefix |= not np.isnan(relevance.prefix_TT).all()
    two = has_prefix and explainer.shares == "side" and not explained.system.joint_attention
    shares = {number: 1 - on_words_T / (1 + two) for number, on_words_T in on_words.items()}
    # More than rounding is an explainer's fault, which the bounds of units find.
    return {n: np.where((x > -ROUNDING) & (x < 0), 0.0, x) for n, x in shares.items()}
