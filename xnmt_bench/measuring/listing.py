"""What of a metric can be read sentence by sentence: it gives listings, the report draws them.

Shapes: U entries of a listing; R rows and C columns of a matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.words import Tokens

FIRST = ("explainer", "nmt")  # what a listing's name begins with


@dataclass(frozen=True)
class TokenScores:
    """Percentages of each token, by heading; NaN where there is none.

    Attributes:
        rows: (R,) each.
        columns: (C,) each.
    """

    rows: Mapping[str, np.ndarray] = field(default_factory=dict)
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Matrix:
    """How much each column's token weighs for each row's.

    Attributes:
        rows: tokens that were decided, or that attend.
        columns: tokens that they were decided by.
        weights_RC: from 0 to 1; NaN where a row cannot see a column.
        sources: how many columns, from the left, are source tokens; the others are the prefix's.
        framed: cells that stand out, such as coreference links.
        scores: of the tokens.
        word_scores: of whole words; None where the listing is not shown in words.
        links: strong ones between words: source, target, the target word's score.
    """

    rows: Tokens
    columns: Tokens
    weights_RC: np.ndarray
    sources: int | None = None
    framed: Sequence[tuple[int, int]] = ()
    scores: TokenScores = TokenScores()
    word_scores: TokenScores | None = None
    links: Sequence[tuple[int, int, float]] = ()


@dataclass(frozen=True)
class Synonyms:
    """Which linked words of two translations may be synonyms (Rikters 2018, section 3).

    Attributes:
        rule: in words.
        alike: percentage points by which the words' scores differ at most.
    """

    rule: str
    alike: float


@dataclass(frozen=True)
class Listing:
    """Entries that a reader goes through: sentences of one system under one explainer.

    Attributes:
        kind: what they are; listings of one kind can be compared.
        name: whose; it begins with the explainer.
        note: how to read them, a line.
        number_U: each entry's own, which pairs it with another listing's.
        texts: by heading, in reading order, (U,) each; the first is what was given.
        columns: numbers by their names in CSV, (U,) each.
        charts: the columns that are drawn above the list.
        underlined_U: what of an entry's texts is underlined; empty for nothing.
        lists: by name, the rule and the places of a ready list's entries.
        choices_U: of each entry, the texts that compete, with their scores, the true one first.
        matrices: a fresh pass over numbers and their matrices, in any order; None without any.
        words: whether a matrix can be shown in words; `unit` is what is shown at first.
        synonyms: for lists of two listings.
        files: by the name of the file that each matrix is drawn to, its title.
        total: sentences that there are, where the entries are a part of them.
    """

    kind: str
    name: str
    note: str
    number_U: Sequence[int]
    texts: Mapping[str, Sequence[str]]
    columns: Mapping[str, np.ndarray]
    charts: Sequence[str] = ()
    underlined_U: Sequence[str] = ()
    lists: Mapping[str, tuple[str, Sequence[int]]] = field(default_factory=dict)
    choices_U: Sequence[Sequence[tuple[str, float]]] = ()
    matrices: Callable[[], Iterable[tuple[int, Matrix]]] | None = None
    words: bool = False
    unit: str = "pieces"
    synonyms: Synonyms | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    total: int | None = None


def names(measurements: Sequence[Measurement], columns: Sequence[str]) -> list[str]:
    """Name each measurement by explainer, system, and the columns in which it differs.

    Args:
        measurements: of one metric.
        columns: of their identities, in reading order.
    """
    # Only columns that differ, or each name would repeat the whole configuration.
    further = [c for c in columns if c not in FIRST]
    varying = [c for c in further if len({m.identity[c] for m in measurements}) > 1]
    row_names = [
        ", ".join(
            f"seed {m.identity[c]}" if c == "seed" else str(m.identity[c])
            for c in (*(c for c in FIRST if c in columns), *varying)
            if m.identity[c] not in ("", None)
        )
        for m in measurements
    ]
    return [
        # Two systems may share every column; the start of the fingerprint names them.
        name if row_names.count(name) == 1 else f"{name}, {m.model[:6] or place}"
        for place, (name, m) in enumerate(zip(row_names, measurements, strict=True))
    ]
