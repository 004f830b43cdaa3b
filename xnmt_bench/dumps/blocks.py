"""Blocks of a header and a matrix: Nematus, OpenNMT (lua), Sockeye 1, and what writes alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xnmt_bench.dumps.base import Dump
from xnmt_bench.dumps.weighed import Weighed
from xnmt_bench.errors import DataError

BAR = "|||"


@dataclass(frozen=True)
class Block:
    """A header and the lines below it, up to the next blank one, with their numbers."""

    place: int
    header: tuple[int, str]
    rows: list[tuple[int, str]]


class Nematus(Dump[Block]):
    """`number ||| target ||| score ||| source ||| counts`, then a row of weights a target token.

    EOS is the last row and column where it is one, and never in the text. A matrix of one_blocks'
    kind, without it, is the same form.
    """

    source_rows: ClassVar[bool] = False

    def entries(self) -> Iterator[Block]:
        """The blocks, blank lines between them."""
        block: Block | None = None
        place = 0
        for number, text in enumerate(self.texts_of(self.path), start=1):
            if not text.strip():
                if block is not None:
                    yield block
                block = None
            elif block is None:
                block, place = Block(place, (number, text), []), place + 1
            else:
                block.rows.append((number, text))
        if block is not None:
            yield block

    def weighed(self, entry: Block) -> Weighed:
        """A block, read."""
        line, header = entry.header
        parts = [part.strip() for part in header.split(BAR)]
        if len(parts) < 5:
            found = f"{len(parts)} fields between {BAR!r}"
            needed = f"number {BAR} target {BAR} score {BAR} source {BAR} counts"
            raise DataError(self.path, line, f"{found}; needed: {needed}")
        rows = [(n, self.numbers(n, text)) for n, text in entry.rows]
        matrix = self.matrix(rows, f"sentence {entry.place + 1}")
        weights_TS = matrix.T if self.source_rows else matrix
        return self.made(line, entry.place, parts[3].split(), parts[1].split(), weights_TS)


class OpenNMTLua(Nematus):
    """`translate.lua -save_attention`: the same form, without EOS, and its counts are 0."""


class Sockeye(Nematus):
    """Sockeye 1, `translation_with_alignment_matrix`: a row a *source* token, whatever it says.

    EOS is the last target token, written out; the source has none. A transformer's weights are all
    zero. Later versions write no attention.
    """

    source_rows: ClassVar[bool] = True
