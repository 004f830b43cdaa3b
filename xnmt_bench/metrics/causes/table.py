"""Effects on disk: Parquet, one row a decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xnmt_bench.corpora.sentence import Gold, Sentence
from xnmt_bench.metrics.causes.effects import Effects
from xnmt_bench.metrics.causes.ranks import SIDES
from xnmt_bench.parquet import read_table
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.rules.table import shards
from xnmt_bench.store import Stage

KINDS = ("replaced", "replaced_with_translation", "change", "flips", "removed")
NONE = -1  # the place of no word


@dataclass(frozen=True)
class Decision:
    """The effects of all words on one decision.

    Attributes:
        step: of the decision.
        planted: places of link, cue and an earlier target word, where it is a planted one.
        joint: the effect of replacing link and cue at once; NaN of any other decision.
        takes_both: whether link and cue decide it together.
        effects: by kind and side, (W,); NaN for words that are unknown or not seen.
    """

    step: int
    planted: tuple[int, int, int] | None
    joint: float
    effects: dict[tuple[str, str], np.ndarray]
    takes_both: bool = False


def columns_of(number: int, sentence: Sentence, effects: Effects) -> dict[str, Any]:
    """Return the effects on the decisions of a sentence as columns of a table."""
    planted_by_slot = {p.slot: p for p in (sentence.gold or Gold()).planted}
    # By slot, since a sentence may hold several planted words.
    planted_N = [planted_by_slot.get(slot) for slot in effects.slot_N]
    first_N = np.arange(len(planted_N)) == 0
    return {
        "sentence": np.full(len(planted_N), number),
        "step": effects.step_N,
        "link": [p.link if p else NONE for p in planted_N],
        "cue": [p.cue if p else NONE for p in planted_N],
        "earlier": [NONE if p is None or p.earlier is None else p.earlier for p in planted_N],
        "joint": effects.joint_N,
        "takes_both": [p is not None and p.takes_both for p in planted_N],
        # Of the whole sentence: only its first row has them, so that they can be summed.
        "substitutes": effects.substitutes * first_N,
        "as_long": effects.as_long * first_N,
    } | {
        f"{kind}_{side}": [*getattr(effects, kind)[s]]
        for kind in KINDS
        for s, side in enumerate(SIDES)
    }


def load(artefact: Stage) -> dict[int, list[Decision]]:
    """Return the decisions of each sentence by its number.

    Raises:
        StoreError: a file is not readable.
    """
    by_sentence: dict[int, list[Decision]] = {}
    # Sentences have unlike numbers of words, so that these lists do not stack.
    rows = (
        row for path in shards(artefact.path, EVALUATED) for row in read_table(path).to_pylist()
    )
    for row in rows:
        # Places are numbers in the file, whose columns hold no None.
        planted = None if row["link"] == NONE else (row["link"], row["cue"], row["earlier"])
        effects = {
            (kind, side): np.array(row[f"{kind}_{side}"], dtype=float)
            for kind in KINDS
            for side in SIDES
        }
        decision = Decision(row["step"], planted, row["joint"], effects, row["takes_both"])
        by_sentence.setdefault(row["sentence"], []).append(decision)
    return by_sentence
