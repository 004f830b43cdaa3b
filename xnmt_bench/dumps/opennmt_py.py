"""OpenNMT-py: the tables that `onmt_translate -attn_debug` logs, and both files of tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.dumps.base import Dump
from xnmt_bench.errors import DataError
from xnmt_bench.words.weighed import EOS_TOKEN, Weighed

LOGGED = re.compile(r"^\[\d{4}-\d\d-\d\d [^\]]*\]\s")  # date and level
CUT, CUT_ROW = 7, 10  # characters of a source token in a table's head, of a target token in a row


@dataclass(frozen=True)
class Table:
    """The source tokens in its head, and a row a target token; with their lines."""

    place: int
    line: int
    head: list[str]
    rows: list[tuple[int, list[str]]]


class OpenNMTPy(Dump[Table]):
    """A table a sentence, of translations with `-beam_size 1 -batch_size 1`.

    The target's EOS has a row, unless the translation was cut at its limit; the source lacks it.
    Tokens are cut short in the tables, so the files say what they are. Before version 3 the
    greatest weight of a row bears a `*`.
    """

    texts: ClassVar = ("source", "target")

    def entries(self) -> Iterator[Table]:
        """Yield the tables between the log's other lines."""
        table, place = None, 0
        for line, text in enumerate(self.texts_of(self.path), start=1):
            logged = LOGGED.match(text)
            parts = LOGGED.sub("", text).split()
            row = [part.lstrip("*") for part in parts[1:]]  # the star marks a row's greatest
            if logged or not parts:
                if table is not None and table.rows:
                    yield table
                    place += 1
                # Any line may be a head; only rows of numbers below it make it one.
                table = Table(place, line, parts, []) if parts else None
            elif table is not None and (table.rows or _numeric(row)):
                table.rows.append((line, [parts[0], *row]))
        if table is not None and table.rows:
            yield table

    def weighed(self, entry: Table) -> Weighed:
        """Return a table, read."""
        texts = []
        for path, lines in ((self.source, self.sources), (self.target, self.targets)):
            if entry.place >= len(lines):
                problem = f"table {entry.place + 1} has no sentence: {path} has {len(lines)} lines"
                raise DataError(self.path, entry.line, problem)
            texts.append(split_words(lines[entry.place]))
        source, target = texts
        if [token[:CUT] for token in source] != [token[:CUT] for token in entry.head]:
            mismatch = (
                f"of {' '.join(entry.head)[:60]!r}, but line {entry.place + 1} of {self.source}"
            )
            problem = f"weights {mismatch} is {' '.join(source)[:60]!r}"
            raise DataError(self.path, entry.line, problem)
        eos = entry.rows[-1][1][0] == EOS_TOKEN
        named = [row[0] for _, row in (entry.rows[:-1] if eos else entry.rows)]
        if named != [token[:CUT_ROW] for token in target]:
            mismatch = (
                f"rows of {' '.join(named)[:60]!r}, but line {entry.place + 1} of {self.target}"
            )
            problem = f"{mismatch} is {' '.join(target)[:60]!r}"
            raise DataError(self.path, entry.line, problem)
        rows = [(n, self.numbers(n, " ".join(row[1:]))) for n, row in entry.rows]
        matrix = self.matrix(rows, f"sentence {entry.place + 1}")
        return self.made(entry.line, entry.place, source, target, matrix, (False, eos))


def _numeric(parts: list[str]) -> bool:
    return bool(parts) and all(re.fullmatch(r"-?[\d.,]+(e-?\d+)?|nan", part) for part in parts)
