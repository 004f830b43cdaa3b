"""Effects on disk: Parquet, one row a decision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from xnmt_bench.corpora.sentence import Sentence
from xnmt_bench.metrics.causes.effects import Effects
from xnmt_bench.metrics.causes.ranks import SIDES
from xnmt_bench.parquet import read_table, write_table

KINDS = ("which", "pair", "change", "flips", "that")
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


def save(rows: Iterable[tuple[int, Sentence, Effects]], path: Path) -> None:
    """Write the effects of sentences, each with its number."""
    table = []
    for number, sentence, effects in rows:
        planted_by_slot = {p.slot: p for p in (sentence.gold.planted if sentence.gold else ())}
        for n, step in enumerate(effects.step_N.tolist()):
            # By slot, since a sentence may hold several planted words.
            planted = planted_by_slot.get(effects.slot_N[n])
            row = {
                "sentence": number,
                "step": step,
                "link": planted.link if planted else NONE,
                "cue": planted.cue if planted else NONE,
                "earlier": NONE if planted is None or planted.earlier is None else planted.earlier,
                "joint": float(effects.joint_N[n]),
                "takes_both": planted is not None and planted.takes_both,
            }
            row |= {
                f"{kind}_{side}": getattr(effects, kind)[s][n].tolist()
                for kind in KINDS
                for s, side in enumerate(SIDES)
            }
            table.append(row)
    write_table(pa.Table.from_pylist(table), path)


def load(path: Path) -> dict[int, list[Decision]]:
    """Return the decisions of each sentence by its number.

    Raises:
        StoreError: the file is not readable.
    """
    by_sentence: dict[int, list[Decision]] = {}
    for row in read_table(path).to_pylist():
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
