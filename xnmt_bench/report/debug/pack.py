"""Packs listings into the bytes that the page unpacks.

A little-endian count of bytes, JSON of so many bytes, padding to 8; float64 columns, one listing's
after the other's; then a byte for each weight, and for each token's score. All is packed with gzip.
Texts and lists of tokens stand once in `pool`, for all listings.
"""

from __future__ import annotations

import gzip
import html
import json
import logging
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from xnmt_bench.corpora.vocabulary.subwords import NO_WORD
from xnmt_bench.measuring.listing import Listing, Matrix, TokenScores
from xnmt_bench.words import Tokens

log = logging.getLogger(__name__)
# Steps of a weight. A cut-off of 2 % is 5 of them, so what is above it is so exactly.
LEVELS = 250
NOTHING = 255  # a weight that is not there, a score that is none


def packed(listings: Sequence[Listing]) -> bytes:
    """Return all listings, packed; equal listings are equal bytes."""
    pool = _Pool()
    floats: list[np.ndarray] = []
    weights: list[bytes] = []
    described = []
    for listing in _named_apart(listings):
        floats += [np.asarray(values, dtype="<f8") for values in listing.columns.values()]
        described.append(_described(listing, pool) | _of_matrices(listing, pool, weights))
    head = {"levels": LEVELS, "nothing": NOTHING, "listings": described, "pool": pool.values}
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # A lone surrogate, which a damaged text may hold, has no UTF-8 form.
    encoded = text.encode("utf-8", "replace")
    # Padded to 8 bytes, as JavaScript's Float64Array needs its offset.
    encoded += b" " * (-(4 + len(encoded)) % 8)
    parts = [struct.pack("<I", len(encoded)), encoded, *(f.tobytes() for f in floats), *weights]
    # Without the time, so that equal listings are equal bytes.
    return gzip.compress(b"".join(parts), compresslevel=9, mtime=0)


def _named_apart(listings: Sequence[Listing]) -> Iterator[Listing]:
    """Yield the listings, each with a name of its own among its kind."""
    counts = Counter[tuple[str, str]]()
    for listing in listings:
        counts[listing.kind, listing.name] += 1
        number = counts[listing.kind, listing.name]
        yield listing if number == 1 else replace(listing, name=f"{listing.name} ({number})")


class _Pool:
    """Each value once, by its place."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[Any, int] = {}

    def place(self, value: str | tuple[Any, ...]) -> int:
        """Return where a value stands from now on."""
        # Systems share sources and many words; each is written once.
        if value not in self._places:
            self._places[value] = len(self.values)
            self.values.append(value)
        return self._places[value]

    def tokens(self, tokens: Tokens) -> int:
        """Return pieces, and of how many each word is made; EOS is left over."""
        lengths = (len(list(pieces)) for word, pieces in groupby(tokens.words) if word != NO_WORD)
        # Moses escapes what it takes for markup; texts have it undone too.
        return self.place((tuple(map(html.unescape, tokens.pieces)), tuple(lengths)))


def _described(listing: Listing, pool: _Pool) -> dict[str, Any]:
    description: dict[str, Any] = {
        "kind": listing.kind,
        "name": listing.name,
        "note": listing.note,
        "numbers": [int(n) for n in listing.number_U],
        "texts": {
            heading: list(map(pool.place, texts)) for heading, texts in listing.texts.items()
        },
        "columns": list(listing.columns),
        "charts": list(listing.charts),
        "underlined": list(map(pool.place, listing.underlined_U)),
        "lists": [
            {"name": name, "rule": rule, "places": [int(p) for p in places]}
            for name, (rule, places) in listing.lists.items()
        ],
        "words": listing.words,
        "unit": listing.unit,
        "total": listing.total,
    }
    if listing.choices_U:
        description["choices"] = [
            [[pool.place(text), score if np.isfinite(score) else None] for text, score in choices]
            for choices in listing.choices_U
        ]
    if listing.synonyms is not None:
        description["synonyms"] = vars(listing.synonyms)
    return description


def _of_matrices(listing: Listing, pool: _Pool, weights: list[bytes]) -> dict[str, Any]:
    """Return the tokens of each entry's matrix, and where its bytes are; None without a matrix."""
    if listing.matrices is None:
        return {}
    by_number: dict[int, tuple[dict[str, Any], bytes, TokenScores]] = {}
    for number, matrix in listing.matrices():
        try:
            by_number[number] = (*_packed_matrix(matrix, pool), matrix.scores)
        except ValueError as error:
            log.warning("%s: no heatmap of sentence %d: %s", listing.name, number, error)
    entries = [by_number.get(int(number)) for number in listing.number_U]
    matrices = [entry for entry in entries if entry]
    weights += [matrix_bytes for _, matrix_bytes, _ in matrices]
    return {
        "matrices": [entry[0] if entry else None for entry in entries],
        "rowScores": list(matrices[0][2].rows) if matrices else [],
        "columnScores": list(matrices[0][2].columns) if matrices else [],
    }


def _packed_matrix(matrix: Matrix, pool: _Pool) -> tuple[dict[str, Any], bytes]:
    """Return one matrix: its JSON description and its bytes.

    Raises:
        ValueError: a token has no score, or a score no token.
    """
    description: dict[str, Any] = {
        "rows": pool.tokens(matrix.rows),
        "columns": pool.tokens(matrix.columns),
        "sources": matrix.sources,
        "framed": list(matrix.framed),
        "links": list(matrix.links),
    }
    description = {key: value for key, value in description.items() if value not in (None, [])}
    units = [matrix.scores, *([matrix.word_scores] if matrix.word_scores else [])]
    for side, tokens in (("rows", matrix.rows), ("columns", matrix.columns)):
        for name, values in getattr(matrix.scores, side).items():
            # The page counts bytes, so that a missing one would move all behind it.
            if len(values) != len(tokens.pieces):
                counts = f"{len(values)} scores for {len(tokens.pieces)} tokens"
                raise ValueError(f"{name} of the {side}: {counts}")
    scores = [
        _percentages(values)
        for unit in units
        for side in (unit.rows, unit.columns)
        for values in side.values()
    ]
    return description, b"".join([_levels(matrix.weights_RC), *scores])


def _levels(weights_RC: np.ndarray) -> bytes:
    """Round weights down to levels, so that a weight is at least what the page shows."""
    # The small addition keeps a weight that is a level, but for rounding, on it.
    levels = np.floor(np.clip(np.nan_to_num(weights_RC), 0, 1) * LEVELS + 1e-5)
    return np.where(np.isnan(weights_RC), NOTHING, levels).astype(np.uint8).tobytes()


def _percentages(values: np.ndarray) -> bytes:
    rounded = np.rint(np.clip(np.nan_to_num(values), 0, 100))
    return np.where(np.isnan(values), NOTHING, rounded).astype(np.uint8).tobytes()
