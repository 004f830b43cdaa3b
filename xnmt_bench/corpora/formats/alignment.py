"""Word-alignment files in every form of the field, read into sure and possible links.

A link is (source word, target word), counted from 0, also where the file counts from 1.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from xnmt_bench.corpora.sentence import Links
from xnmt_bench.corpora.text import text_lines
from xnmt_bench.errors import DataError, XnmtError

Form = Literal["pharaoh", "naacl"]
LEAST_LINKS = 20  # fewer may leave out first words by chance
FORMS: tuple[Form, ...] = ("pharaoh", "naacl")
# `3-4` is a sure link in both Pharaoh's form and talp's; `3p4` is talp's possible one.
_PHARAOH = re.compile(r"(?P<i>\d{1,9})(?P<kind>[-p])(?P<j>\d{1,9})", re.ASCII)
# Aligners may add a confidence, which is not used here.
_NAACL = re.compile(
    r"(?P<pair>\d{1,9})\s+(?P<i>\d{1,9})\s+(?P<j>\d{1,9})(?:\s+(?P<kind>[SP]))?(?:\s+[\d.eE+-]+)?",
    re.ASCII,
)


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
            raise XnmtError(
                f"unknown alignment form {self.form!r}; choose one of {', '.join(FORMS)}"
            )
        if self.all_sure and self.ignore_possible:
            raise XnmtError(f"{self.path}: give all_sure or ignore_possible, not both")

    @property
    def label(self) -> str:
        """The file's name, with what of its reading is not the default."""
        default = AlignmentFile(self.path)
        changed = [f"{n}={v}" for n, v in vars(self).items() if v != getattr(default, n)]
        return self.path.name + (f"[{', '.join(changed)}]" if changed else "")

    def read(
        self, lengths: Sequence[tuple[int, int]] | None = None, pairs: int | None = None
    ) -> list[Alignment]:
        """Return the alignments, one for each sentence pair.

        Args:
            lengths: words of each pair, source and target, where they are known.
            pairs: how many pairs there must be, where only that is known.

        Raises:
            DataError: a malformed link, an index beyond its sentence, or another number of pairs
                than there must be; with file and line.
        """
        pairs = len(lengths) if lengths is not None else pairs
        pharaoh, count = self.form == "pharaoh", 0
        # Sets, since files repeat links; by pair, since a naacl file may have them in any order.
        sure, possible = (defaultdict[int, set[tuple[int, int]]](set) for _ in range(2))
        for number, text in text_lines(self.path):
            if pharaoh:
                count = number  # a line without links is a pair too
                if pairs is not None and number > pairs:
                    raise DataError(self.path, number, f"more lines than the {pairs} pairs")
            # Lines in naacl's form name their pairs, so that a blank one can be passed over.
            for written in text.split() if pharaoh else filter(None, [text.strip()]):
                # Links are checked one by one, so that an error names its line.
                place, link, is_sure = self._link(written, number, lengths, pairs)
                count = max(count, place + 1)  # naacl names the pair in each line
                if is_sure or self.all_sure:
                    sure[place].add(link)
                elif not self.ignore_possible:
                    possible[place].add(link)
        if pharaoh and pairs is not None and count < pairs:
            raise DataError(self.path, count, f"the file ends here but there are {pairs} pairs")
        return [
            # Possible links include the sure ones here, also where a file lists them apart.
            Alignment(frozenset(sure[n]), frozenset(sure[n] | possible[n]))
            for n in range(count if pairs is None else pairs)
        ]

    def _link(
        self, text: str, line: int, lengths: Sequence[tuple[int, int]] | None, pairs: int | None
    ) -> tuple[int, tuple[int, int], bool]:
        """Return the number of its pair, the link itself, and whether it is sure."""
        match = (_PHARAOH if self.form == "pharaoh" else _NAACL).fullmatch(text)
        if not match:
            example = "3-4 or 3p4" if self.form == "pharaoh" else "1 3 4 S"
            raise DataError(
                self.path, line, f"{text[:40]!r} is not a link; a link is written as {example}"
            )
        place = (line if self.form == "pharaoh" else int(match["pair"])) - 1
        if place < 0 or (pairs is not None and place >= pairs):
            count = f"; the corpus has {pairs}" if pairs is not None else ""
            raise DataError(self.path, line, f"no sentence pair {match['pair']}{count}")
        i, j = int(match["i"]) - self.base, int(match["j"]) - self.base
        # Turned before the range is checked, which is of source and target.
        if self.reverse:
            i, j = j, i
        if min(i, j) < 0:
            raise DataError(self.path, line, f"{text!r}: words should be counted from {self.base}")
        if lengths is not None and (i >= lengths[place][0] or j >= lengths[place][1]):
            s, t = lengths[place]
            problem = f"{text!r} is outside the sentence pair of {s} source and {t} target words"
            raise DataError(self.path, line, problem)
        return place, (i, j), match["kind"] not in ("p", "P")  # a naacl line without a kind is sure


def counts_from_one(alignments: Iterable[Links]) -> bool:
    """Return whether links look as if their file counts from 1 and was read as from 0.

    Then no link is of a first word of either side, and nothing lies beyond a sentence unless a link
    is of its last word.
    """
    links = [link for sentence in alignments for link in sentence]
    return len(links) >= LEAST_LINKS and all(min(link) > 0 for link in links)


def to_pharaoh(links: Links) -> str:
    """Return the links as one line of Pharaoh's form, counted from 0."""
    # Sorted, so that equal links are equal bytes.
    return " ".join(f"{i}-{j}" for i, j in sorted(links))
