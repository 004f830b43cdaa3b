"""Writing an artefact shard by shard, with its progress shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from xnmt_bench.engine import make_shards
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.table import shard_paths, write_shards

Part = TypeVar("Part")


def write_parts(
    job: Job, folder: Path, parts: Sequence[Part], compute: Callable[[Part], pa.Table], title: str
) -> None:
    """Write a shard for each part of the evaluated sentences; shards that are there stay.

    Args:
        job: its configuration says whether progress is shown.
        folder: of the artefact.
        parts: one a shard.
        compute: returns the table of a part.
        title: of the progress bar.
    """

    def make(numbers: Sequence[int]) -> Iterator[int]:
        return write_shards(folder, EVALUATED, [(n, parts[n]) for n in numbers], compute)

    paths = shard_paths(folder, EVALUATED, len(parts))
    make_shards(folder, EVALUATED, paths, make, title, job.config.trainer.progress_bar)


def write_sentences(
    job: Job,
    folder: Path,
    sentences: Iterable[Part],
    compute: Callable[[Part], pa.Table],
    size: int,
    title: str,
) -> None:
    """Write shards of a number of sentences each, as `write_parts` does.

    Args:
        job: its configuration says whether progress is shown.
        folder: of the artefact.
        sentences: what `compute` needs of each.
        compute: returns the table of a sentence, a row for each decision.
        size: sentences a shard.
        title: of the progress bar.
    """
    every = [*sentences]
    parts = [every[start : start + size] for start in range(0, len(every), size)]
    write_parts(job, folder, parts, lambda part: pa.concat_tables(map(compute, part)), title)
