"""Which target-prefix words a rule holds: a view of stored rules, for which nothing is explained.

In a decoder-only model the previous target word is the position that predicts. Some explainers
always keep it and others rarely, so that rows partly say who keeps it. Rules without prefix words,
and rules that all hold the previous word, compare explainers by their source words alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import SPECIAL
from xnmt_bench.rules.table import Rules, sentence_rows
from xnmt_bench.rules.topk import NOTHING, ids_at

PrefixWords = Literal["chosen", "none", "previous"]
CHOSEN: PrefixWords = "chosen"  # by the explainer, as the rules are stored
NONE: PrefixWords = "none"
PREVIOUS: PrefixWords = "previous"


def with_prefix(
    rules: Rules, prefix: PrefixWords, split: EncodedSplit, admit_special: bool
) -> Rules:
    """Return rules with other prefix words; source words and labels stay.

    Args:
        rules: N decisions; those of a sentence stand together.
        prefix: `chosen` changes nothing, `none` leaves the prefix empty, and
            `previous` is the one word before the decision, the same for every explainer.
        split: the sentences that the rules are of.
        admit_special: whether the previous word may be EOS or a separator of sentences; where it
            is one and may not, the prefix is empty.
    """
    if prefix == CHOSEN:
        return rules
    ids_NK, positions_NK = (np.full_like(rules.prefix_NK, NOTHING) for _ in range(2))
    if prefix == PREVIOUS:
        for rows in sentence_rows(rules.sentence_N):
            target_T = split.target[split.index_of[int(rules.sentence_N[rows.start])]]
            # In front of the first word -1, which is also what marks an empty place.
            before = rules.step_N[rows] - 1
            special = (not admit_special) & np.isin(ids_at(target_T, before), SPECIAL)
            positions_NK[rows, 0] = np.where(special, NOTHING, before)
            ids_NK[rows, 0] = ids_at(target_T, positions_NK[rows, 0])
    return replace(rules, prefix_NK=ids_NK, prefix_position_NK=positions_NK)
