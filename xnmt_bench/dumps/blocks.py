"""Blocks of a header and a matrix: Nematus, OpenNMT (lua), Sockeye 1, and what writes alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.dumps.base import Dump
from xnmt_bench.errors import DataError
from xnmt_bench.words.weighed import EOS_TOKEN, Weighed

BAR = "|||"


@dataclass(frozen=True)
class Block:
    """A header and the lines below it, up to the next blank one, with their numbers."""

    place: int
    header: tuple[int, str]
    rows: list[tuple[int, str]]


class Nematus(Dump[Block]):
    """`number ||| target ||| score ||| source ||| counts`, then a row of weights a target token.

    EOS is the last row and column, or there is none; it is never in the text. Sentences are counted
    as they come: the number is the writer's, and so is what the counts count.
    """

    def entries(self) -> Iterator[Block]:
        """Yield the blocks, blank lines between them."""
        lines = enumerate(self.texts_of(self.path), start=1)
        parted = groupby(lines, key=lambda line: bool(line[1].strip()))
        blocks = (list(block) for visible, block in parted if visible)
        for place, (header, *rows) in enumerate(blocks):
            yield Block(place, header, rows)

    def weighed(self, entry: Block) -> Weighed:
        """Return a block, read."""
        line, header = entry.header
        parts = [part.strip() for part in header.split(BAR)]
        if len(parts) < 5:
            counted = f"{len(parts)} fields between {BAR!r}"
            needed = f"number {BAR} target {BAR} score {BAR} source {BAR} counts"
            raise DataError(self.path, line, f"{counted}; expected: {needed}")
        rows = [(n, self.numbers(n, text)) for n, text in entry.rows]
        matrix = self.matrix(rows, f"sentence {entry.place + 1}")
        source, target = split_words(parts[3]), split_words(parts[1])
        return self.told(line, entry.place, source, target, matrix)

    def told(
        self, line: int, place: int, source: list[str], target: list[str], matrix: np.ndarray
    ) -> Weighed:
        """Return a matrix with its tokens."""
        # EOS is not written among the tokens; the size of the matrix shows it.
        eos = matrix.shape == (len(target) + 1, len(source) + 1)
        return self.made(line, place, source, target, matrix, (eos, eos))


class OpenNMTLua(Nematus):
    """`translate.lua -save_attention`: the same form, without EOS, and its counts are 0."""

    def told(
        self, line: int, place: int, source: list[str], target: list[str], matrix: np.ndarray
    ) -> Weighed:
        """Return a row a target token."""
        return self.made(line, place, source, target, matrix, (False, False))


class Sockeye(Nematus):
    """Sockeye 1, `translation_with_alignment_matrix`: a row a *source* token, against its name.

    EOS is the last target token, written out; the source lacks it. A transformer's weights are all
    zero. Later versions write no attention.
    """

    def told(
        self, line: int, place: int, source: list[str], target: list[str], matrix: np.ndarray
    ) -> Weighed:
        """Return a row a source token."""
        # A slice, since an empty translation has no last token.
        eos = target[-1:] == [EOS_TOKEN]
        pieces = target[:-1] if eos else target
        # Turned into a row a target token.
        return self.made(line, place, source, pieces, matrix.T, (False, eos))
