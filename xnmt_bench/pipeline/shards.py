"""Writing an artefact shard by shard, with its progress shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.progress import track
from xnmt_bench.rules.table import write_shards

Part = TypeVar("Part")


def write_and_show(
    job: Job, folder: Path, parts: Sequence[Part], compute: Callable[[Part], pa.Table], what: str
) -> None:
    """Write a table for each part of the evaluated sentences; what is there stays.

    Args:
        job: whose configuration says whether progress is shown.
        folder: of the artefact.
        parts: one a shard.
        compute: gives the table of a part.
        what: the name of the work, in the progress.
    """
    done = write_shards(folder, EVALUATED, parts, compute)
    for _ in track(done, what, len(parts), "shards", job.config.trainer.progress_bar):
        pass  # each is on disk already
