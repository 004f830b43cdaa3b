"""Decisions for training, read from a memory-mapped file so that any number of them streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

Decisions = np.ndarray
"""Rows of 1 + 4k integers: the label, 2k word ids and their 2k places in the sentence."""


def pack(label_N: np.ndarray, words_NK: np.ndarray, positions_NK: np.ndarray) -> Decisions:
    """Decisions as one integer array."""
    return np.concatenate([label_N[:, None], words_NK, positions_NK], axis=1, dtype=np.int32)


def append(decisions: Decisions, file: BinaryIO) -> None:
    """Adds decisions to a file that `open_decisions` reads."""
    np.ascontiguousarray(decisions, dtype="<i4").tofile(file)


def open_decisions(path: Path, k: int) -> Decisions:
    """Memory-maps a file of decisions."""
    return np.memmap(path, dtype="<i4", mode="r").reshape(-1, 1 + 4 * k)


def unpack(decisions: Decisions) -> tuple[Tensor, Tensor, Tensor]:
    """Labels (B,), word ids (B, 2k) and places (B, 2k)."""
    rows = torch.from_numpy(np.array(decisions, dtype=np.int64))
    middle = (rows.shape[1] + 1) // 2
    return rows[:, 0], rows[:, 1:middle], rows[:, middle:]


class DecisionBatches(IterableDataset):
    """Batches of decisions; another epoch is another order, the same for the same seed."""

    def __init__(self, decisions: Decisions, batch_size: int, seed: int | None, epoch: int) -> None:
        self._decisions, self._batch_size = decisions, batch_size
        self._order = np.arange(len(decisions))
        if seed is not None:
            self._order = np.random.default_rng([seed, epoch]).permutation(len(decisions))

    def __len__(self) -> int:
        return -(-len(self._order) // self._batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for start in range(0, len(self._order), self._batch_size):
            yield unpack(self._decisions[self._order[start : start + self._batch_size]])


def loader(
    decisions: Decisions, batch_size: int, seed: int | None = None, epoch: int = 0
) -> DataLoader:
    """A data loader of whole batches; in order where no seed is given."""
    return DataLoader(DecisionBatches(decisions, batch_size, seed, epoch), batch_size=None)
