"""Labels that were decided once, for every explainer of the same decisions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from xnmt_bench.corpora.vocabulary.subwords import PAD
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.rules.table import PROBABILITY, read_columns, sentence_rows, shard_path


class StoredLabels:
    """Labels of a split's sentences and their probabilities; one shard is in memory at a time.

    Args:
        folder: where `<name>/<shard>.parquet` are.
        name: of the split.
        shard_sentences: sentences a shard.
    """

    def __init__(self, folder: Path, name: str, shard_sentences: int) -> None:
        self._folder, self._name, self._shard_sentences = folder, name, shard_sentences
        self._shard = -1
        self._sentences: list[tuple[np.ndarray, np.ndarray]] = []

    def of(self, indices: list[int], batch: Batch) -> tuple[Batch, np.ndarray]:
        """Return a batch with its labels, and their probabilities (B, T).

        Args:
            indices: of its sentences in the split.
            batch: the sentences.

        Raises:
            StoreError: the shard is truncated or altered.
        """
        now_BT = batch.on_host.current_BT
        # Padded like a target: steps of the context have no label, and stay PAD.
        labels_BT = np.full(now_BT.shape, PAD, dtype=np.int64)
        probability_BT = np.zeros(now_BT.shape, dtype=np.float32)
        labels, probabilities = zip(*map(self._sentence, indices), strict=True)
        # A boolean mask walks row by row, which is the order of the sentences.
        labels_BT[now_BT] = np.concatenate(labels)
        probability_BT[now_BT] = np.concatenate(probabilities)
        return batch.labelled(
            torch.from_numpy(labels_BT).to(batch.target_BT.device)
        ), probability_BT

    def _sentence(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return its labels and their probabilities."""
        shard, place = divmod(index, self._shard_sentences)
        # Batches come in shard by shard, so one shard in memory is enough.
        if shard != self._shard:
            path = shard_path(self._folder, self._name, shard)
            columns = read_columns(path, ["sentence", "label", PROBABILITY])
            self._sentences = [
                (columns["label"][rows], columns[PROBABILITY][rows])
                for rows in sentence_rows(columns["sentence"])
            ]
            self._shard = shard
        return self._sentences[place]
