"""Token-bucketed batches: pairs of like length together, so that little is padding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import add

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.device import keeps_in_cache
from xnmt_bench.nmt.batch import Batch

PADDED = 1.125  # positions of rows of like lengths beside their words, at most
FULL = 3  # such rows fill at least this part of the room before padding ends them
POOL = 100  # batches' worth of pairs that are sorted together: little padding, enough chance


def buckets(lengths: np.ndarray, order: np.ndarray, batch_tokens: int) -> list[np.ndarray]:
    """Cut pairs, taken in an order, into batches of like length.

    Args:
        lengths: padded cost of each pair, in tokens: the longer of its two sides; shape (N,).
        order: indices of the pairs.
        batch_tokens: a batch's rows times its longest pair stays within this.

    Returns:
        Arrays of indices. A pair longer than `batch_tokens` is a batch of its own.
    """
    mean = max(1.0, float(lengths.mean())) if len(lengths) else 1.0
    batches: list[np.ndarray] = []
    for part in _pools(lengths, order, max(1, int(POOL * batch_tokens / mean))):
        first = 0
        for i in range(1, len(part) + 1):
            # Sorted, so the pair at i would be the longest of its batch.
            if i == len(part) or (i - first + 1) * lengths[part[i]] > batch_tokens:
                batches.append(part[first:i])
                first = i
    return batches


def equal_batches(lengths: np.ndarray, order: np.ndarray, rows: int) -> list[np.ndarray]:
    """Cut pairs, taken in an order, into batches of so many rows of like length.

    Args:
        lengths: what is alike in a batch; shape (N,).
        order: indices of the pairs.
        rows: of each batch; the last of each pool may have fewer.

    Returns:
        Arrays of indices.
    """
    pools = _pools(lengths, order, POOL * rows)
    return [part[n : n + rows] for part in pools for n in range(0, len(part), rows)]


def alike(
    lengths_NX: np.ndarray, most: Callable[..., int], fill: torch.device | None = None
) -> Iterator[list[int]]:
    """Yield rows of like lengths, little of which is padding.

    Args:
        lengths_NX: of each row on each side, source first.
        most: how many go together, by the greatest lengths of each side; one goes always.
        fill: the device, for rows that are padded in any case: a GPU's room is then filled. A CPU
            computes small parts as fast, so its parts are not filled.
    """
    full = FULL if fill is None or keeps_in_cache(fill) else 1
    lengths, rows = lengths_NX.tolist(), list[int]()
    longest = words = [0] * lengths_NX.shape[1]  # of each side of `rows`
    # By target length first: scores are (T, S) and (T, T), so that padded steps cost most.
    for row in sorted(range(len(lengths)), key=lambda row: lengths[row][::-1]):
        longer = [*map(max, longest, lengths[row])]
        more_words, count = [*map(add, words, lengths[row])], len(rows) + 1
        padded = any(n * count > PADDED * w for n, w in zip(longer, more_words, strict=True))
        fits = most(*longer)
        # A few rows are padded where there is room for many: a GPU computes both as fast.
        if rows and ((padded and len(rows) >= fits // full) or count > fits):
            yield rows
            rows, longer, more_words = [], lengths[row], lengths[row]
        rows.append(row)
        longest, words = longer, more_words
    yield rows


def _pools(lengths: np.ndarray, order: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Yield so many pairs of an order at a time, the shortest first."""
    for start in range(0, len(order), size):
        part = order[start : start + size]
        yield part[np.argsort(lengths[part], kind="stable")]  # stable: one order on any machine


class PairBatches(IterableDataset):
    """Batches of a split; another epoch is another order, the same for the same seed."""

    def __init__(
        self,
        split: EncodedSplit,
        batch_tokens: int,
        seed: int | None,
        epoch: int = 0,
        rows: int | None = None,
    ) -> None:
        """Plan the batches of one epoch.

        Args:
            split: the pairs.
            batch_tokens: as in `buckets`.
            seed: of the order; None for that of the corpus.
            epoch: which pass over the split.
            rows: of each batch, in place of `batch_tokens`; as in `equal_batches`.
        """
        self._split = split
        # Seed and epoch together, so that a resumed training has the same order as one that ran
        # through.
        rng = None if seed is None else np.random.default_rng([seed, epoch])
        order = rng.permutation(len(split)) if rng else np.arange(len(split))
        if rows is None:
            lengths = np.maximum(split.source.lengths(), split.target.lengths())
            batches = buckets(lengths, order, batch_tokens)
        else:
            # Only by targets: markers lengthen sources.
            batches = equal_batches(split.target.lengths(), order, rows)
        # Out of their order by length, which would be a curriculum.
        self.indices = [batches[i] for i in rng.permutation(len(batches))] if rng else batches

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()  # of several, which take turns, each makes its own batches
        worker_share = slice(worker.id, None, worker.num_workers) if worker else slice(None)
        yield from map(self.collate, self.indices[worker_share])

    def collate(self, indices: np.ndarray) -> Batch:
        """Return some of the pairs as a batch."""
        return Batch.collate([(self._split.source[i], self._split.target[i]) for i in indices])


def steps_of(
    split: EncodedSplit,
    batch_tokens: int,
    seed: int,
    part: int,
    steps: int,
    counts: dict[int, int],
    rows: int | None = None,
) -> PairBatches:
    """Return a part of the endless row of epochs' batches, of so many steps; parts count from 0.

    Args:
        split: of which the batches are.
        batch_tokens: as in `buckets`.
        seed: of their order.
        part: which part.
        steps: of each part.
        counts: how many batches each epoch has, where that is known; it grows.
        rows: of each batch, as in `PairBatches`.
    """
    skipped, epoch = part * steps, 0
    # Epochs whose size is known are skipped without being batched again; an unknown one stops the
    # walk.
    while skipped >= counts.get(epoch, skipped + 1):
        skipped, epoch = skipped - counts[epoch], epoch + 1
    taken: list[np.ndarray] = []
    while len(taken) < steps:
        batches = PairBatches(split, batch_tokens, seed, epoch, rows)
        counts[epoch] = len(batches)
        taken += batches.indices[skipped:]
        skipped, epoch = max(0, skipped - len(batches)), epoch + 1
    batches.indices = taken[:steps]
    return batches


def loader(batches: IterableDataset, device: torch.device) -> DataLoader:
    """Return a data loader of whole batches, in their order.

    For a GPU, which would wait for them, other processes make them ahead.
    """
    if device.type != "cuda":
        return DataLoader(batches, batch_size=None)
    # Pinned memory is copied to the GPU while it computes.
    return DataLoader(batches, batch_size=None, num_workers=2, prefetch_factor=8, pin_memory=True)
