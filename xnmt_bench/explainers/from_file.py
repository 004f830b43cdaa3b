"""Relevance that another tool computed of the same system, read from its file."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from xnmt_bench.corpora.vocabulary.subwords import EOS, PAD
from xnmt_bench.dumps import Dump
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.explainers.base import Explainer, Relevance, require_labels
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.registry import load
from xnmt_bench.words import Weighed

SHOWN = 60  # characters of a sentence in a message
Pieces = tuple[str, ...]


class FromFile(Explainer):
    """A file's relevance; its sentences are found by the pieces of both sides.

    A file explains the target's own words, so steps with another label are not its own.

    Args:
        path: the file.
        format: what reads it, an entry of `xnmt_bench.dumps`.
        content: a fingerprint of the file, which decides the relevance.
        source, target: files of tokens, where the format needs them.
    """

    sizes: ClassVar[tuple[str, ...]] = ("path", "source", "target")
    unnamed: ClassVar[tuple[str, ...]] = ("format", "content")
    of_target_words = True

    def __init__(
        self,
        path: str,
        format: str,
        content: str = "",
        source: str | None = None,
        target: str | None = None,
    ) -> None:
        paths = {"source": source, "target": target}
        files = {side: Path(file) for side, file in paths.items() if file is not None}
        self._dump: Dump[Any] = load("dumps", format)(Path(path), **files)
        self.attends = self._dump.attention  # type: ignore[misc]
        self.shares = "side" if self.attends else ""

    @cached_property
    def _sentences(self) -> dict[tuple[Pieces, Pieces], Weighed]:
        """The file's sentences by the pieces of both sides, without EOS.

        Raises:
            DataError: a sentence cannot be read, or is there twice with other weights.
        """
        sentences: dict[tuple[Pieces, Pieces], Weighed] = {}
        for sentence in self._dump:
            if isinstance(sentence, DataError):
                raise sentence
            sides = (sentence.source, sentence.target)
            source, target = (side.pieces[: side.size] for side in sides)
            first = sentences.setdefault((source, target), sentence)
            if not (
                _are_close(first.weights_TS, sentence.weights_TS)
                and _are_close(first.prefix_TT, sentence.prefix_TT)
            ):
                twice = f"sentences {first.number + 1} and {sentence.number + 1} are equal"
                raise DataError(self._dump.path, None, f"{twice}, but their weights differ")
        return sentences

    def relevance(self, model: NMTModel, batch: Batch) -> Relevance:
        """Return the file's relevance; labels play no part.

        Raises:
            XnmtError: the file lacks a sentence in these pieces.
        """
        require_labels(batch)
        (size, steps), words = batch.target_BT.shape, batch.source_BS.shape[1]
        source_BTS = torch.zeros(size, steps, words, device=batch.source_BS.device)
        # Decoder inputs: BOS first, which a file's words lack.
        input_BTT = torch.zeros(size, steps, steps, device=source_BTS.device)
        silent = False
        for row, (source_S, target_T) in enumerate(
            zip(batch.source_BS.tolist(), batch.target_BT.tolist(), strict=True)
        ):
            source, target = (
                tuple(subwords.pieces([i for i in ids if i not in (PAD, EOS)]))
                for subwords, ids in zip(model.vocabularies, (source_S, target_T), strict=True)
            )
            weights_TS, prefix_TT = self._weights(model, source, target)
            rows, columns = weights_TS.shape
            source_BTS[row, :rows, :columns] = torch.from_numpy(weights_TS)
            silent |= prefix_TT is None
            if prefix_TT is not None:
                shifted = torch.from_numpy(prefix_TT[:, : rows - 1])
                input_BTT[row, :rows, 1:rows] = shifted
        return Relevance.of_inputs(batch, source_BTS, None if silent else input_BTT)

    def _weights(
        self, model: NMTModel, source: Pieces, target: Pieces
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return a sentence's weights of source and prefix; a row of EOS the last."""
        task = tuple(model.task_pieces)
        # Other tools count a task prefix, such as T5's, among the source's words.
        before, sentence = 0, self._sentences.get((source, target))
        if sentence is None and task:
            before, sentence = len(task), self._sentences.get(((*task, *source), target))
        if sentence is None:
            raise XnmtError(f"{self._dump.path}: {self._missing(source, target)}")
        if not sentence.target.eos:
            lacks = "has no weights for the target's EOS, which is a decision too"
            raise XnmtError(f"{self._dump.path}: sentence {sentence.number + 1} {lacks}")
        return sentence.weights_TS[:, before:], sentence.prefix_TT

    def _missing(self, source: Pieces, target: Pieces) -> str:
        text, translation = (" ".join(pieces)[:SHOWN] for pieces in (source, target))
        problem = f"no sentence {text!r} with the target {translation!r}"
        for pieces, sentence in self._sentences.items():
            equal = [
                "".join(a) == "".join(b) for a, b in zip(pieces, (source, target), strict=True)
            ]
            if all(equal):
                return f"{problem}: sentence {sentence.number + 1} has this text in other tokens"
            if pieces[0] == source:
                other = " ".join(pieces[1])[:SHOWN]
                return (
                    f"{problem}: sentence {sentence.number + 1} has the same source and the "
                    f"target {other!r}"
                )
        return f"{problem} among the {len(self._sentences)} of the file"


def _are_close(first: np.ndarray | None, second: np.ndarray | None) -> bool:
    """Return whether weights differ only by rounding, which the padding of a batch causes."""
    if first is None or second is None:
        return first is second
    return first.shape == second.shape and np.allclose(first, second, rtol=1e-3, atol=1e-6)
