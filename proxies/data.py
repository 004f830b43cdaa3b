"""Rules for training, read from a memory-mapped file so that any number of them streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from proxies.base import LONGEST

Batch = TypeVar("Batch")
PackedRules = np.ndarray
"""Rows of 1 + 4k integers: the label, 2k word ids and their 2k places in the sentence."""


def pack(label_N: np.ndarray, words_NK: np.ndarray, positions_NK: np.ndarray) -> PackedRules:
    """Pack rules into one integer array; later places count as the last that has an embedding."""
    places_NK = np.minimum(positions_NK, LONGEST - 1)
    return np.concatenate([label_N[:, None], words_NK, places_NK], axis=1, dtype=np.int32)


def narrowest(words: int) -> np.dtype:
    """Return the integer type that a file of rules needs for the larger vocabulary's words."""
    # Signed, since -1 stands for no word; places stay below 512.
    return np.dtype("<i2" if words <= 2**15 else "<i4")


def append(decisions: PackedRules, file: BinaryIO, kind: np.dtype) -> None:
    """Add decisions to a file that `open_decisions` reads."""
    # `tofile` would not report a full disk.
    file.write(np.ascontiguousarray(decisions, dtype=kind).tobytes())


def open_decisions(path: Path, k: int, kind: np.dtype) -> PackedRules:
    """Memory-map a file of decisions."""
    return np.memmap(path, dtype=kind, mode="r").reshape(-1, 1 + 4 * k)


def unpack(decisions: PackedRules) -> tuple[Tensor, Tensor, Tensor]:
    """Return labels (B,), word ids (B, 2k) and places (B, 2k).

    Later places count as the last that has an embedding.
    """
    # A copy, since the file is mapped read-only and torch wants 64-bit ids.
    rows = torch.from_numpy(np.array(decisions, dtype=np.int64))
    middle = (rows.shape[1] + 1) // 2
    return rows[:, 0], rows[:, 1:middle], rows[:, middle:].clamp(max=LONGEST - 1)


DRAWN = 2**15  # decisions whose words are drawn together


class VisibleWords:
    """Decisions with all the words that each can see, from which rules are drawn at random.

    Args:
        label_N: the decisions' labels.
        sentence_N: which sentence each is of, counted from 0.
        step_N: its step; it sees the prefix words before that.
        source: of each sentence the ids and positions of the words that a rule may hold, by place.
        prefix: the same of its target.
    """

    def __init__(
        self,
        label_N: np.ndarray,
        sentence_N: np.ndarray,
        step_N: np.ndarray,
        source: Iterable[tuple[np.ndarray, np.ndarray]],
        prefix: Iterable[tuple[np.ndarray, np.ndarray]],
    ) -> None:
        self.label_N, self.sentence_N, self.step_N = label_N, sentence_N, step_N
        self.source, self.prefix = Words(list(source)), Words(list(prefix))
        self.source_count_N = self.source.count_B[sentence_N]
        # How many words of the target stand before the step.
        self.prefix_count_N = self.prefix.before(sentence_N, step_N)

    def __len__(self) -> int:
        return len(self.label_N)

    def drawn(self, rows: np.ndarray, k: int, generator: np.random.Generator) -> PackedRules:
        """Return rules of min(k, visible) words a side, every choice and order of them as likely.

        Places are those in the sentence, also behind the last that has an embedding.

        Args:
            rows: the decisions whose words are drawn.
            k: words a side.
            generator: of the draws.
        """
        sides = (self.source, self.source_count_N), (self.prefix, self.prefix_count_N)
        drawn = [
            side.drawn(self.sentence_N[rows], count_N[rows], k, generator)
            for side, count_N in sides
        ]
        words, positions = zip(*drawn, strict=True)
        columns = [self.label_N[rows][:, None], *words, *positions]
        return np.concatenate(columns, axis=1, dtype=np.int32)


class Words:
    """The words of many sentences one after the other, with the place where each begins."""

    def __init__(self, sentences: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        self.count_B = np.array([len(ids) for ids, _ in sentences], dtype=np.int64)
        self.start_B = np.cumsum(self.count_B) - self.count_B
        self.ids = np.concatenate([ids for ids, _ in sentences]).astype(np.int32)
        self.positions = np.concatenate([places for _, places in sentences]).astype(np.int32)

    def of(self, sentence: int) -> np.ndarray:
        """Return the ids of one sentence's words."""
        start = self.start_B[sentence]
        return self.ids[start : start + self.count_B[sentence]]

    def before(self, sentence_N: np.ndarray, step_N: np.ndarray) -> np.ndarray:
        """Return how many words of each decision's sentence stand before its step."""
        # Positions rise within a sentence; lifted, they rise throughout.
        lift = int(self.positions.max(initial=0)) + 1
        of_word = np.repeat(np.arange(len(self.count_B)), self.count_B)
        lifted = of_word * lift + self.positions
        # In 64 bits: sentences times positions may pass 2**31.
        lifted_step_N = sentence_N.astype(np.int64) * lift + np.minimum(step_N, lift)
        return np.searchsorted(lifted, lifted_step_N) - self.start_B[sentence_N]

    def drawn(
        self, sentence_B: np.ndarray, count_B: np.ndarray, k: int, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return ids and positions (B, k) of words drawn from each sentence's first, or -1."""
        size = max(k, int(count_B.max(initial=0)))
        parts = [np.empty((0, k), dtype=np.int64)]
        # Many decisions a call, since a draw for each would be slow; not all of a held-out part,
        # whose keys would fill memory. The same numbers are drawn in parts of any size.
        for start in range(0, len(sentence_B), DRAWN):
            count_C = count_B[start : start + DRAWN]
            keys = generator.random((len(count_C), size))
            keys[np.arange(size) >= count_C[:, None]] = 2.0  # behind every word that is there
            # The k smallest of random keys are a draw without replacement, in random order.
            parts.append(np.argsort(keys, axis=1)[:, :k])
        place_BK = np.concatenate(parts)
        there_BK = place_BK < count_B[:, None]
        where_BK = np.where(there_BK, self.start_B[sentence_B][:, None] + place_BK, 0)
        return tuple(
            np.where(there_BK, column[where_BK], -1) for column in (self.ids, self.positions)
        )  # type: ignore[return-value]


@dataclass(frozen=True)
class DrawnRules:
    """Decisions whose rules are drawn when they are read: the same for one seed and epoch."""

    contexts: VisibleWords
    rows: np.ndarray
    k: int
    seed: int
    epoch: int

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, members: np.ndarray) -> PackedRules:
        # A batch's draws depend only on its first member, so a resumed epoch repeats them.
        generator = np.random.default_rng([self.seed, self.epoch, int(members[0])])
        return self.contexts.drawn(self.rows[members], self.k, generator)


@dataclass(frozen=True)
class Batches(Generic[Batch]):
    """Batches of rows, made when they are read.

    Attributes:
        order: the rows, in the order in which they are batched.
        size: rows of a batch.
        make: returns the batch of some rows.
    """

    order: np.ndarray
    size: int
    make: Callable[[np.ndarray], Batch]

    def __len__(self) -> int:
        return -(-len(self.order) // self.size)

    def __iter__(self) -> Iterator[Batch]:
        for start in range(0, len(self.order), self.size):
            yield self.make(self.order[start : start + self.size])


def batch_decisions(
    decisions: PackedRules | DrawnRules, size: int, seed: int | None = None, epoch: int = 0
) -> Batches[tuple[Tensor, Tensor, Tensor]]:
    """Return labels, words and positions in batches; in order where no seed is given.

    Another epoch is another order, the same for the same seed.
    """
    order = np.arange(len(decisions), dtype=np.uint32)  # half of what 64 bits take
    if seed is not None:
        np.random.default_rng([seed, epoch]).shuffle(order)
    return Batches(order, size, lambda rows: unpack(decisions[rows]))
