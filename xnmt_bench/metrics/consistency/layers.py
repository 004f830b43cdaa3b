"""Judged translations to be read: both mentions' links and their genders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from xnmt_bench.corpora.alignment import to_pharaoh
from xnmt_bench.corpora.consistency import Item
from xnmt_bench.corpora.sentence import Links
from xnmt_bench.dumps import Tokens
from xnmt_bench.metrics.consistency.judge import CAUSES, CLUSTERS, Judged
from xnmt_bench.metrics.consistency.links import read_links
from xnmt_bench.metrics.layer import Layer, Matrix
from xnmt_bench.parquet import read_table, write_table

FILE = "judged.parquet"
NOTE = (
    "Rows: the translation's words. Columns: the source's. Filled: linked words; framed: those of "
    "the entity and of the pronoun, whose genders are compared."
)
UNKNOWN = "?"


def write_judged(
    items: Sequence[Item], texts: Sequence[str], links: Sequence[Links], judged: Sequence[Judged],
    folder: Path,
) -> None:  # fmt: skip
    """Writes what was judged of each translation."""
    rows = [
        {
            "source": item.source,
            "translation": text,
            "genders": _genders(item, one),
            "links": to_pharaoh(own),
            "mentions": to_pharaoh(frozenset(one.linked)),
            "consistent": float(one.consistent) if not one.cause else np.nan,
            "left_out": one.cause,
            "cluster": one.cluster,
        }
        for item, text, own, one in zip(items, texts, links, judged, strict=True)
    ]
    write_table(pa.Table.from_pylist(rows), folder / FILE)


def _genders(item: Item, judged: Judged) -> str:
    """Such as `developer f (gold f), she f, designer m`."""
    words = item.words
    told = [f"{' '.join(words[n] for n in item.entity)} {judged.entity or UNKNOWN}"]
    told[0] += f" (gold {item.gender})"
    told.append(f"{words[item.pronoun]} {judged.pronoun or UNKNOWN}")
    if item.other:
        told.append(f"{' '.join(words[n] for n in item.other)} {judged.other or UNKNOWN}")
    return ", ".join(told)


def layer(name: str, path: Path) -> Layer:
    """What was judged of one suite, system and way to link.

    Args:
        name: whose translations.
        path: the file of `write_judged`.
    """
    columns = read_table(path).to_pydict()
    consistent = np.array(columns["consistent"])
    kinds: Mapping[str, tuple[str, Sequence[bool]]] = {
        "inconsistent": ("the genders differ", (consistent == 0).tolist()),
        **{
            cause.replace("_", " "): ("left out", [own == cause for own in columns["left_out"]])
            for cause in CAUSES
        },
        **{
            f"goes with {cluster}": ("of two entities", [c == cluster for c in columns["cluster"]])
            for cluster in CLUSTERS
        },
    }
    lists = {kind: (rule, np.flatnonzero(of).tolist()) for kind, (rule, of) in kinds.items()}
    texts = {key: columns[key] for key in ("source", "translation", "genders")}
    return Layer(
        "consistency", name, NOTE, range(len(consistent)), texts, {"consistent": consistent},
        lists=lists, matrices=partial(_matrices, columns),
    )  # fmt: skip


def _matrices(columns: Mapping[str, list[Any]]) -> Iterator[tuple[int, Matrix]]:
    mentions = read_links(columns["mentions"])
    for number, links in enumerate(read_links(columns["links"])):
        source, target = (columns[side][number].split() for side in ("source", "translation"))
        weights = np.zeros((len(target), len(source)))
        for s, t in links:
            weights[t, s] = 1
        framed = sorted((t, s) for s, t in mentions[number])
        rows, own = Tokens.of(target, eos=False), Tokens.of(source, eos=False)
        yield number, Matrix(rows, own, weights, framed=framed)
