"""The distances of a test set's decisions, kept in the store shard by shard.

Shapes: N decisions, S source ids, T target ids, R samples.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from xnmt_bench.metrics.soft.distances import Keep, distances
from xnmt_bench.metrics.soft.retention import is_flat, level, scale
from xnmt_bench.parquet import read_table
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.shards import write_sentences
from xnmt_bench.rules.extract import TEACHER_FORCING
from xnmt_bench.rules.table import SentenceRelevance, shards
from xnmt_bench.store import Artefact, Work

SHARD = 20  # sentences
# By the explainer's scores, and by the same at one retention: the words named kept, and taken away.
KINDS = ("kept", "removed", "level_kept", "level_removed")


@dataclass(frozen=True)
class Sampling:
    """How embeddings are kept at random.

    Attributes:
        sentences: of the test set, from the first.
        samples: draws of a decision.
        retention: what the levelled scores keep on average.
        seed: of the draws.
    """

    sentences: int
    samples: int
    retention: float
    seed: int


def measure_distances(job: Job, sampling: Sampling) -> Artefact:
    """Return how far each decision's distribution moves, by the relevance of the job's explainer.

    A shard that is there already is left alone, so a killed run goes on where it stood.
    """
    relevances = job.relevance(TEACHER_FORCING)

    def work(folder: Path) -> None:
        model, split = job.system.model, job.texts.split(EVALUATED)
        index_of = {int(number): index for index, number in enumerate(split.number)}

        def compute(relevance: SentenceRelevance) -> pa.Table:
            # Relevance may come in another order than the split's.
            index = index_of[relevance.number]
            ids = split.source[index], split.target[index]
            chances, retention_N, flat_N = chances_of(relevance, *ids, sampling.retention)
            steps = range(relevance.first, relevance.first + len(retention_N))
            nothing_N, moved_KNR = distances(
                model, model.collate([ids]), steps, chances, sampling.samples, sampling.seed
            )
            columns = {
                "sentence": np.full(len(steps), relevance.number),
                "step": np.array(steps),
                "nothing": nothing_N,
                "retention": retention_N,
                "flat": flat_N,
            }
            named = zip(KINDS, moved_KNR, strict=True)
            return pa.table(columns | {kind: [*moved_NR] for kind, moved_NR in named})

        sentences = islice(relevances.read(), sampling.sentences)
        write_sentences(job, folder, sentences, compute, SHARD, "soft erasure")

    return job.store.make(
        "softly_erased",
        work,
        version=1,
        amount=Work(f"soft erasure of {job.system.name}", sampling.sentences, "sentences"),
        relevance=relevances.fingerprint,
        model=job.system,
        **asdict(sampling),
    )


def chances_of(
    relevance: SentenceRelevance, source_S: np.ndarray, target_T: np.ndarray, retention: float
) -> tuple[Keep, np.ndarray, np.ndarray]:
    """Return the chance of each word's dimensions to be kept, in the order of `KINDS`.

    Args:
        relevance: of one sentence, N decisions.
        source_S: its source ids.
        target_T: its target ids.
        retention: what the levelled scores keep on average.

    Returns:
        The chances, (K, N, S) and (K, N, T); the mean chance of a decision's words by their
        scores, (N,); and whether all words of a side are as relevant, (N,).

    Raises:
        NotApplicable: a word that a decision sees has no relevance.
    """
    count = len(relevance.source_TS)
    # 1 for what is kept whole: special symbols, and words that a step does not see.
    source_KNS, target_KNT = (np.ones((len(KINDS), count, len(x))) for x in (source_S, target_T))
    retention_N, flat_N = np.ones(count), np.zeros(count, dtype=bool)
    for n, sides in enumerate(relevance.visible_words(source_S, target_T)):
        scaled = [scale(scores) for _, scores in sides]
        for chances_KNX, (places, _), scaled_X in zip(
            (source_KNS, target_KNT), sides, scaled, strict=True
        ):
            levelled_X = level(scaled_X, retention)
            # What is taken away is what the other keeps, so the chances are turned round.
            chances_KNX[:, n, places] = [scaled_X, 1 - scaled_X, levelled_X, 1 - levelled_X]
        if any(map(len, scaled)):
            retention_N[n] = np.concatenate(scaled).mean()
        # A side of one word has no order to lack.
        flat_N[n] = any(len(scores) > 1 and is_flat(scores) for _, scores in sides)
    return (source_KNS, target_KNT), retention_N, flat_N


def read(artefact: Artefact) -> dict[str, np.ndarray]:
    """Return the columns of all decisions, (N,), and distances of each draw, (N, R)."""
    # Draws are a list in each cell, of one length everywhere, so they stack.
    tables = pa.concat_tables(read_table(path) for path in shards(artefact.path, EVALUATED))
    columns = {name: tables[name].to_numpy() for name in tables.column_names}
    return columns | {kind: np.stack([*columns[kind]]) for kind in KINDS}
