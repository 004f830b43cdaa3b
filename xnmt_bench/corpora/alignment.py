"""Word-alignment files in every form of the field, read into sure and possible links.

A link is (source word, target word), counted from 0, whatever the file counts from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from xnmt_bench.corpora.sentence import Links
from xnmt_bench.corpora.text import decode_line, lines
from xnmt_bench.errors import DataError, XnmtError

Form = Literal["pharaoh", "naacl"]
FORMS: tuple[Form, ...] = ("pharaoh", "naacl")
# `3-4` is a sure link in both Pharaoh's form and talp's; `3p4` is talp's possible one.
_LINK = re.compile(r"(\d+)([-p])(\d+)")
_NAACL = re.compile(r"(\d+)\s+(\d+)\s+(\d+)(?:\s+([SP]))?(?:\s+[\d.eE+-]+)?")


@dataclass(frozen=True, slots=True)
class Alignment:
    """The links of one sentence pair.

    Attributes:
        sure: links an aligner must find.
        possible: links it may find; always holds the sure ones.
    """

    sure: Links
    possible: Links


@dataclass(frozen=True)
class AlignmentFile:
    """A file of word alignments and how it is to be read.

    Attributes:
        path: the file, plain or gzip. `pharaoh` is one line a pair, `i-j` a sure link and `ipj` (as
            in talp) a possible one; `naacl` is one link a line: pair, i, j, and S or P, the pair
            counted from 1.
        base: what words are counted from, 0 or 1.
        reverse: the target side stands first.
        all_sure: possible links count as sure.
        ignore_possible: possible links are dropped.
        form: `pharaoh` or `naacl`.
    """

    path: Path
    base: int = 0
    reverse: bool = False
    all_sure: bool = False
    ignore_possible: bool = False
    form: Form = "pharaoh"

    def __post_init__(self) -> None:
        if self.base not in (0, 1):
            raise XnmtError(f"{self.path}: words are counted from 0 or 1, not from {self.base}")
        if self.form not in FORMS:
            raise XnmtError(f"no alignment form {self.form!r}; there are {', '.join(FORMS)}")
        if self.all_sure and self.ignore_possible:
            raise XnmtError(f"{self.path}: all_sure and ignore_possible exclude each other")

    def read(
        self, lengths: Sequence[tuple[int, int]] | None = None, pairs: int | None = None
    ) -> list[Alignment]:
        """The alignments, one for each sentence pair.

        Args:
            lengths: words of each pair, source and target, where they are known.
            pairs: how many pairs there must be, where only that is known.

        Raises:
            DataError: a malformed link, an index beyond its sentence, or another number of pairs
                than there must be; with file and line.
        """
        read = self._pharaoh if self.form == "pharaoh" else self._naacl
        pairs = len(lengths) if lengths is not None else pairs
        return [self._alignment(links) for links in read(lengths, pairs)]

    def _alignment(self, links: Iterable[tuple[int, int, bool]]) -> Alignment:
        kept = [(i, j, sure or self.all_sure) for i, j, sure in links]
        sure = frozenset((i, j) for i, j, is_sure in kept if is_sure)
        rest = frozenset() if self.ignore_possible else frozenset((i, j) for i, j, _ in kept)
        return Alignment(sure, sure | rest)

    def _pharaoh(
        self, lengths: Sequence[tuple[int, int]] | None, pairs: int | None
    ) -> Iterator[list[tuple[int, int, bool]]]:
        count = 0
        for count, line in enumerate(lines(self.path), start=1):
            if pairs is not None and count > pairs:
                raise DataError(self.path, count, f"more lines than the {pairs} pairs")
            links = []
            for text in decode_line(line, self.path, count).split():
                match = _LINK.fullmatch(text)
                if not match:
                    raise DataError(self.path, count, f"{text!r} is no link such as 3-4 or 3p4")
                i, kind, j = match.groups()
                links.append((*self._link(i, j, lengths, count - 1, count, text), kind == "-"))
            yield links
        if pairs is not None and count < pairs:
            raise DataError(self.path, count, f"the file ends here but there are {pairs} pairs")

    def _naacl(
        self, lengths: Sequence[tuple[int, int]] | None, pairs: int | None
    ) -> Iterator[list[tuple[int, int, bool]]]:
        found: dict[int, list[tuple[int, int, bool]]] = {}
        for number, line in enumerate(lines(self.path), start=1):
            text = decode_line(line, self.path, number).strip()
            match = _NAACL.fullmatch(text)
            if not match:
                raise DataError(self.path, number, f"{text!r} is no link such as 1 3 4 S")
            pair, i, j, kind = match.groups()
            place = int(pair) - 1
            if place < 0 or (pairs is not None and place >= pairs):
                there = f"; there are {pairs}" if pairs is not None else ""
                raise DataError(self.path, number, f"no sentence pair {pair}{there}")
            link = self._link(i, j, lengths, place, number, text)
            found.setdefault(place, []).append((*link, kind != "P"))
        count = pairs if pairs is not None else max(found, default=-1) + 1
        yield from (found.get(place, []) for place in range(count))

    def _link(
        self,
        first: str,
        second: str,
        lengths: Sequence[tuple[int, int]] | None,
        place: int,
        line: int,
        text: str,
    ) -> tuple[int, int]:
        i, j = int(first) - self.base, int(second) - self.base
        if self.reverse:
            i, j = j, i
        if min(i, j) < 0:
            raise DataError(self.path, line, f"{text!r}: words are counted from {self.base}")
        if lengths is not None and (i >= lengths[place][0] or j >= lengths[place][1]):
            s, t = lengths[place]
            raise DataError(
                self.path, line, f"{text!r} lies beyond its pair of {s} source and {t} target words"
            )
        return i, j


def to_pharaoh(links: Links) -> str:
    """Links as one line of Pharaoh's form, counted from 0."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))
