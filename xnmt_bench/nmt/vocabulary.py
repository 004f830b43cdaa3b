"""Weights of a trained model for another vocabulary: rows of shared pieces are kept."""

from __future__ import annotations

import torch
from torch import Tensor

from xnmt_bench.corpora.vocabulary.subwords import WORDS, Subwords

# Weights with a row for each id, by the end of their names, in every architecture here.
SOURCE_ROWS = ("source_embedding.weight",)
TARGET_ROWS = ("target_embedding.weight", "output.weight", "output.bias")


def fit_vocabularies(
    weights: dict[str, Tensor], trained: tuple[Subwords, Subwords], fresh: tuple[Subwords, Subwords]
) -> dict[str, Tensor]:
    """Return a trained model's weights with the rows of other vocabularies.

    A piece of both vocabularies keeps its row, and so do the special ids. The row of any other
    piece, such as a marker, is the mean of the rows of all trained words.

    Args:
        weights: of the trained model, by name.
        trained: its vocabularies of source and target.
        fresh: those of the model that gets the weights.
    """
    fitted = dict(weights)
    for ends, old, new in zip((SOURCE_ROWS, TARGET_ROWS), trained, fresh, strict=True):
        if old.fingerprint == new.fingerprint:
            continue
        old_rows_V = _find_rows(old, new)
        for name, weight in weights.items():
            if name.endswith(ends) and len(weight) == len(old):
                fitted[name] = _take_rows(weight, old_rows_V)
    return fitted


def _find_rows(old: Subwords, new: Subwords) -> Tensor:
    """Return the old row of each new id, -1 where there is none; shape (V,)."""
    row_of = {piece: row for row, piece in enumerate(old.pieces(range(len(old)))) if row >= WORDS}
    pieces = new.pieces(range(len(new)))
    return torch.tensor(
        [row if row < WORDS else row_of.get(piece, -1) for row, piece in enumerate(pieces)]
    )


def _take_rows(weight: Tensor, old_rows_V: Tensor) -> Tensor:
    """Return rows of a weight by their numbers; the mean of all words' rows for -1."""
    rows = weight[old_rows_V.clamp(min=0)].clone()
    rows[old_rows_V < 0] = weight[WORDS:].mean(0)
    return rows
