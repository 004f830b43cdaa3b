"""Tables with a row for each decision of the test set, in the store.

A metric that changes words says what it computes of a sentence's decisions. Here the sentences are
walked, and their rows kept shard by shard, so that a killed run goes on where it stood. A GPU
computes several shards at once, since one would leave it idle; the files are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from xnmt_bench.device import device_of, free_memory
from xnmt_bench.engine import make_shards
from xnmt_bench.lazy import Lazy
from xnmt_bench.parquet import read_table, write_table
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.table import shard_paths, shards
from xnmt_bench.store import Stage, Work

Part = TypeVar("Part")
Columns = dict[str, np.ndarray]
Rows = Mapping[str, np.ndarray | list[Any]]  # a list has several numbers of each decision
TOGETHER = 10  # shards


@dataclass(frozen=True)
class _Parts(Lazy):
    """What is computed of the sentences, read once a process.

    Attributes:
        parts: returns all of it.
        size: of a shard.
    """

    parts: Callable[[], Iterable[Any]]
    size: int

    @cached_property
    def in_shards(self) -> list[list[Any]]:
        """The parts of each shard."""
        every = [*self.parts()]
        return [every[start : start + self.size] for start in range(0, len(every), self.size)]


def store_decisions(
    job: Job,
    stage: str,
    title: str,
    parts: Callable[[], Iterable[Part]],
    compute: Callable[[list[Part]], Sequence[Rows]],
    *,
    shard: int,
    sentences: int,
    version: int,
    together: int = TOGETHER,
    **recipe: Any,
) -> Stage:
    """Return a table of decisions by the job's system; it is made if it is missing.

    Args:
        job: whose system decides.
        stage: the table's name in the store.
        title: what is computed, for progress and times.
        parts: returns what `compute` needs of each sentence. It is called only where the table is
            missing.
        compute: returns columns with a row for each decision of each part. How many parts it is
            given at once depends on the device, and changes no number.
        shard: parts in a shard.
        sentences: of the test set, from the first.
        version: of `compute`; see `Store.stage`.
        together: shards that are computed at once on a GPU.
        recipe: what decides the numbers besides the system and the sentences.
    """
    read = _Parts(parts, shard)

    def work(folder: Path) -> None:
        paths = shard_paths(folder, EVALUATED, len(read.in_shards))

        def make(numbers: Sequence[int]) -> Iterator[int]:
            # Where sizes follow a device's memory, more is computed at once here too.
            large = together if free_memory(device_of(job.system.model)) else 1
            for start in range(0, len(numbers), large):
                members = numbers[start : start + large]
                rows = iter(compute([*chain(*(read.in_shards[number] for number in members))]))
                for number in members:
                    tables = [pa.table(dict(next(rows))) for _ in read.in_shards[number]]
                    paths[number].parent.mkdir(exist_ok=True)
                    write_table(_join(tables).combine_chunks(), paths[number])
                    yield number

        make_shards(folder, EVALUATED, paths, make, title, job.progress)

    return job.store.stage(
        stage,
        work,
        version=version,
        amount=Work(f"{title} of {job.system.name}", sentences, "sentences"),
        model=job.system,
        sentences=sentences,
        **recipe,
    )


def load_decisions(artefact: Stage, names: Sequence[str] | None = None) -> Columns:
    """Return columns of a table of decisions, (N,); (N, R) where each decision has R numbers.

    A number that some shards lack is NaN there.

    Args:
        artefact: the table.
        names: of the columns; all, if not given.
    """
    table = _join([read_table(path, names) for path in shards(artefact.path, EVALUATED)])
    columns = {name: table[name].to_numpy() for name in table.column_names}
    # Several numbers are a list in each cell, of one length everywhere, so they stack.
    return {n: np.stack([*x]) if x.dtype == object else x for n, x in columns.items()}


def _join(tables: Sequence[pa.Table]) -> pa.Table:
    # A column of only empty lists has no type, and some sentences lack a column.
    return pa.concat_tables(tables, promote_options="default")
