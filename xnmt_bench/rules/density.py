"""How often the rules of an explainer come back (Li et al. 2020, section 4.2 and Table 2)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xnmt_bench.rules.table import Rules

BINS = (1, 10, 100, 1000)  # the paper's: (0, 1], (1, 10], (10, 100], (100, 1000], (1000, inf)
BITS = 21  # of an id in a rule's key: vocabularies of up to two million
IN_MEMORY = 2**23  # rules that are counted at once


@dataclass(frozen=True)
class Density:
    """How many rules there are, and how many unique ones of each frequency.

    Attributes:
        rules: all rules, one a decision.
        unique: unique ones.
        bins: of these, how many come at most once, 2 to 10 times, and so on.
    """

    rules: int
    unique: int
    bins: tuple[int, ...]


def density(shards: Iterable[Rules], total: int, in_memory: int = IN_MEMORY) -> Density:
    """Counts the unique rules at k = 1, in the memory of a part of them.

    Args:
        shards: the rules, shard by shard; only the most relevant word of each side counts.
        total: about how many rules there are.
        in_memory: about how many are counted at once; the others wait on disk.
    """
    parts = max(1, -(-total // in_memory))
    bins = np.zeros(len(BINS) + 1, dtype=np.int64)
    rules = 0
    for keys in _partitioned(map(_keys, shards), parts):
        _, counts = np.unique(keys, return_counts=True)
        rules += len(keys)
        bins += np.bincount(np.searchsorted(BINS, counts), minlength=len(bins))
    return Density(rules, int(bins.sum()), tuple(bins.tolist()))


def _keys(rules: Rules) -> np.ndarray:
    """Source word, prefix word and label of each rule, as one number."""
    ids = [rules.source_NK[:, 0] + 1, rules.prefix_NK[:, 0] + 1, rules.label_N]
    key = np.zeros(len(rules), dtype=np.int64)
    for column in ids:
        key = (key << BITS) | column.astype(np.int64)
    return key


def _partitioned(batches: Iterable[np.ndarray], parts: int) -> Iterator[np.ndarray]:
    """The keys again, so that equal ones come in the same part."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        paths = [Path(folder) / str(part) for part in range(parts)]
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for keys in batches:
            part_of = keys % parts
            for part, file in enumerate(files):
                keys[part_of == part].tofile(file)
        for path, file in zip(paths, files, strict=True):
            file.close()
            yield np.fromfile(path, dtype=np.int64)
