"""How often the rules of an explainer come back (Li et al. 2020, section 4.2 and Table 2)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from xnmt_bench.rules.table import Rules, read_rules, shards

BINS = (1, 10, 100, 1000)  # the paper's: (0, 1], (1, 10], (10, 100], (100, 1000], (1000, inf)
BITS = 21  # of an id in a rule's key: vocabularies of up to two million
IN_MEMORY = 2**23  # rules that are counted at once


@dataclass(frozen=True)
class Density:
    """How often the same rule comes.

    Attributes:
        rules: all rules, one a decision.
        unique: unique ones.
        bins: of these, how many come at most once, 2 to 10 times, and so on.
    """

    rules: int
    unique: int
    bins: tuple[int, ...]


def stored_density(folder: Path, learnable: Callable[[Path], np.ndarray]) -> Density:
    """Count the unique rules of a folder of training rules; see `density`.

    Args:
        folder: of the rules.
        learnable: says which decisions of a shard count, (N,).
    """
    paths = shards(folder, "train")
    total = sum(pq.read_metadata(path).num_rows for path in paths)
    return density((read_rules(path, 1).take(learnable(path)) for path in paths), total)


def density(shards: Iterable[Rules], total: int, in_memory: int = IN_MEMORY) -> Density:
    """Count the unique rules at k = 1: only the most relevant word of each side counts.

    Args:
        shards: the rules, shard by shard.
        total: about how many rules there are.
        in_memory: about how many are counted at once; the others wait on disk.
    """
    # Rounded up: `total` is about what comes, and no part should be greater than asked for.
    parts = max(1, -(-total // in_memory))
    bins = np.zeros(len(BINS) + 1, dtype=np.int64)
    rules = 0
    for keys in _partitioned(shards, parts):
        # Equal rules are in one part, so counting each part alone is exact.
        _, counts = np.unique(keys, return_counts=True)
        rules += len(keys)
        # `searchsorted` from the left puts a count equal to an edge below it, as the paper's (1,
        # 10] has it.
        bins += np.bincount(np.searchsorted(BINS, counts), minlength=len(bins))
    return Density(rules, int(bins.sum()), tuple(bins.tolist()))


def _partitioned(shards: Iterable[Rules], parts: int) -> Iterator[np.ndarray]:
    """Yield source word, prefix word and label of each rule as one number.

    Equal rules are in one part, so that each part can be counted alone.
    """
    with ExitStack() as stack:
        # Without a name, so that a killed run leaves nothing behind.
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(parts)]
        for rules in shards:
            # One more than the id, since -1 means no word.
            ids = (rules.source_NK[:, 0] + 1, rules.prefix_NK[:, 0] + 1, rules.label_N)
            source_N, prefix_N, label_N = (column.astype(np.int64) for column in ids)
            keys = (source_N << 2 * BITS) | (prefix_N << BITS) | label_N
            for part, file in enumerate(files):
                file.write(keys[keys % parts == part].tobytes())
        for file in files:
            file.seek(0)
            yield np.fromfile(file, dtype=np.int64)
