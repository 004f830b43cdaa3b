"""Probabilities of labels with words erased at random, the same for every explainer.

One row, with some words erased, answers for all steps of a sentence.

Shapes: N decisions, R rows of a sentence, S source ids, T target ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from xnmt_bench.corpora.subwords import SPECIAL
from xnmt_bench.device import Room
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.switched import Removal, SwitchedOff
from xnmt_bench.parquet import read_table
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.shards import write_sentences
from xnmt_bench.rules.extract import TEACHER_FORCING
from xnmt_bench.rules.labels import StoredLabels
from xnmt_bench.rules.table import sentence_rows, shards
from xnmt_bench.store import Artefact, Work

SHARD = 50  # sentences
OFF = 0.5  # the chance of each word to be erased


@dataclass(frozen=True)
class Sampling:
    """How words are erased at random.

    Attributes:
        sentences: of the test set, from the first.
        samples: rows of a sentence.
        removal: what an erased word is replaced by.
        seed: of the draws, which follow from it and the sentence's ids.
    """

    sentences: int
    samples: int
    removal: Removal
    seed: int


def erased_words(
    source_S: np.ndarray, target_T: np.ndarray, samples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return True for the words that each row erases, (R, S) and (R, T); EOS stays."""
    # From the ids, so that a sentence's draws depend on no other.
    rng = np.random.default_rng([seed, *source_S.tolist(), *target_T.tolist()])
    return tuple(  # type: ignore[return-value]
        (rng.random((samples, len(ids))) < OFF) & ~np.isin(ids, SPECIAL)
        for ids in (source_S, target_T)
    )


@torch.no_grad()
def probabilities(
    model: NMTModel, batch: Batch, erased: tuple[np.ndarray, np.ndarray], removal: Removal
) -> np.ndarray:
    """Return P(label) of each row at each step, (R, T).

    Args:
        model: the system.
        batch: one sentence with its labels.
        erased: of each row, the words that are erased, (R, S) and (R, T).
        removal: what they are replaced by.
    """
    switched, device = SwitchedOff(model, batch, removal), batch.source_BS.device
    keep_RS, keep_RT = (torch.as_tensor(~x, device=device) for x in erased)
    # Decoder input 0 is BOS, input j + 1 is target word j.
    keep_RT = torch.nn.functional.pad(keep_RT[:, :-1], (1, 0), value=True)
    labels_BT = batch.labels_BT
    assert labels_BT is not None, "the system decides before words are erased"

    def read(positions: int) -> list[np.ndarray]:
        # One row at least, however long the sentence is.
        together = max(1, positions // labels_BT.shape[1])
        parts = []
        for rows in torch.arange(len(keep_RS), device=device).split(together):
            zeros = torch.zeros_like(rows)
            encoding = switched.encoding(zeros, keep_RS[rows])
            encoding = switched.reading(encoding, zeros, keep_RT[rows])
            states = model.decode(encoding, switched.inputs(zeros, keep_RT[rows]))
            log_p_RT = model.log_probability(states, labels_BT.expand(len(rows), -1))
            parts.append(log_p_RT.exp().cpu().numpy())
        return parts

    return np.concatenate(Room(None, cpu=4096, each=2**18).tried(device, read))


def sample(job: Job, sampling: Sampling) -> Artefact:
    """Return what the system says with words erased at random, in the store.

    A shard that is there already is left alone, so a killed run goes on where it stood.
    """
    decisions = job.explained.decisions
    labels = decisions.labels(EVALUATED, TEACHER_FORCING)

    def work(folder: Path) -> None:
        model, split = job.system.model, job.texts.split(EVALUATED)
        stored = StoredLabels(labels.path, EVALUATED, decisions.extraction.shard_sentences)

        def explain(index: int) -> pa.Table:
            """Return a row for each decision of a sentence."""
            # Sentence by sentence: one draw of erased words serves all its steps.
            ids = split.source[index], split.target[index]
            # Labels of the unchanged system: erased words change its probability and not its
            # choice.
            batch, whole_BT = stored.of([index], model.collate([ids]))
            erased = erased_words(*ids, sampling.samples, sampling.seed)
            p_RT = probabilities(model, batch, erased, sampling.removal)
            now_T = batch.current_BT[0].cpu().numpy()
            return pa.table(
                {
                    "sentence": np.full(now_T.sum(), split.number[index]),
                    "step": np.flatnonzero(now_T),
                    "whole": whole_BT[0, now_T],
                    "erased": list(p_RT[:, now_T].T),
                }
            )

        every = range(sampling.sentences)
        write_sentences(job, folder, every, explain, SHARD, "erased at random")

    return job.store.make(
        "erased_at_random",
        work,
        version=1,
        amount=Work(f"erased at random of {job.system.name}", sampling.sentences, "sentences"),
        model=job.system,
        labels=labels,
        **vars(sampling),
    )


@dataclass(frozen=True)
class ErasedLabels:
    """What the labels of one sentence's decisions lose when words are erased.

    Attributes:
        first: the first decision's step; the others follow.
        whole_N: P(label) with all words.
        erased_RN: of each row, with some erased.
    """

    first: int
    whole_N: np.ndarray
    erased_RN: np.ndarray


def read(artefact: Artefact) -> dict[int, ErasedLabels]:
    """Return what labels lose, by number of the sentence."""
    labels_by_number: dict[int, ErasedLabels] = {}
    for path in shards(artefact.path, EVALUATED):
        names = ("sentence", "step", "whole", "erased")
        table = read_table(path, names)
        # Erased rows are a list in each cell, of one length everywhere.
        number_N, step_N, whole_N, erased_N = (table[name].to_numpy() for name in names)
        for rows in sentence_rows(number_N):
            erased_RN = np.stack(list(erased_N[rows])).T
            labels_by_number[int(number_N[rows.start])] = ErasedLabels(
                int(step_N[rows.start]), whole_N[rows], erased_RN
            )
    return labels_by_number
