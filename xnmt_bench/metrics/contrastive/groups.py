"""Contrastive groups to be read: what competes, what each variant scored, which one won."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from xnmt_bench.corpora.suites.contrastive.group import Group
from xnmt_bench.errors import StoreError
from xnmt_bench.measuring.listing import Listing, names
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.nmt.comparing import ALL, Comparison
from xnmt_bench.parquet import read_table, write_table

log = logging.getLogger(__name__)
FILE = "groups"  # of a measurement's, and its name
BREAK = " ¶ "  # between sentences
NOTE = (
    "Variants with their scores, the true one first; the arrow is at the best. Margin: the true "
    "variant's score less the best other's; 0 is a tie."
)


def write_groups(
    comparison: Comparison, scores_N: np.ndarray, right_G: np.ndarray, folder: Path
) -> None:
    """Write every group that is compared and scored, with the scores (N,) of all variants."""
    compared_set, scored_G = comparison.contrastive_set, comparison.scored_G(scores_N)
    sizes = [len(group.variants) for group in compared_set.groups]
    scores = np.split(scores_N, np.cumsum(sizes)[:-1])
    groups = zip(comparison.groups_G, comparison.kept, right_G, scored_G, strict=True)
    columns = [
        _describe_group(compared_set.number(g), compared_set.groups[g], kept, scores[g], right)
        for g, kept, right, scored in groups
        if scored
    ]
    # Texts and scores, so that the page needs neither corpus nor set.
    write_table(pa.Table.from_pylist(columns), folder / f"{FILE}.parquet")


def _describe_group(
    number: int, group: Group, kept: Sequence[int], scores: np.ndarray, right: bool
) -> dict[str, Any]:
    # The true one stands first, as the page expects.
    order = [group.true, *(n for n in kept if n != group.true)]
    variants = [group.variants[n] for n in order]
    # Shared columns are written once.
    shared = variants[0].context if len({v.context for v in variants}) == 1 else ()
    return {
        "group": number,
        "source": group.source,
        "true translation": variants[0].text,
        "source before": BREAK.join(group.source_context),
        "translation before": BREAK.join(shared),
        "variants": [v.text if shared else BREAK.join((*v.context, v.text)) for v in variants],
        "scores": [float(scores[n]) for n in order],
        "right": float(right),
        "margin": float(scores[group.true] - max(scores[n] for n in order[1:])),
        "distance": np.nan if group.distance is None else float(group.distance),
    }


def listings(measurements: Sequence[Measurement], columns: Sequence[str]) -> Iterator[Listing]:
    """Yield a listing for each set and system.

    Args:
        measurements: of the metric.
        columns: of their identities.
    """
    # Named within a set, where rows differ only by system.
    by_set: dict[str, list[Measurement]] = {}
    for m in measurements:
        # A part may be all of a set too.
        if FILE in m.files and m.identity["part"] == ALL:
            by_set.setdefault(m.identity["corpus"], []).append(m)
    named = (zip(names(rows, columns), rows, strict=True) for rows in by_set.values())
    for name, m in chain.from_iterable(named):
        try:
            groups = read_table(m.file(FILE)).to_pydict()
        except StoreError as error:
            log.warning("not on the page: %s", error)
            continue
        numbers = {key: np.array(groups[key]) for key in ("right", "margin", "distance")}
        # Read off the stored decisions, which follow the option `ties`.
        wrong = np.flatnonzero(numbers["right"] == 0).tolist()
        competing = zip(groups["variants"], groups["scores"], strict=True)
        texts = ("source", "true translation", "source before", "translation before")
        yield Listing(
            f"contrastive groups, {m.identity['corpus']}",
            name,
            NOTE,
            groups["group"],
            {key: groups[key] for key in texts if any(groups[key])},
            numbers,
            charts=["margin"],
            lists={"wrong": ("not counted as right", wrong)},
            choices_U=[list(zip(*pair, strict=True)) for pair in competing],
        )
