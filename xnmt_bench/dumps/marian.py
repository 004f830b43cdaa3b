"""Marian: `target ||| weights`, by `--alignment soft`, and a file of the source tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.dumps.base import Dump
from xnmt_bench.dumps.blocks import BAR
from xnmt_bench.errors import DataError
from xnmt_bench.parsing import COUNT
from xnmt_bench.words.weighed import Weighed

SCORES = re.compile(r"WordScores=\s*(.*)")
N_BEST = re.compile(r"F\d+=")


class Line(NamedTuple):
    """A translation's line with its number, and its source."""

    line: int
    text: str
    number: int
    source: str


class Marian(Dump[Line]):
    """A comma list of weights a target token, EOS on both sides. Of n-best lists, the first.

    `--word-scores` are log-probabilities. Older versions (amun) pad each list with zeros and have
    none for the target's EOS.
    """

    texts: ClassVar = ("source",)
    unread_eos: ClassVar[bool] = True

    def entries(self) -> Iterator[Line]:
        """Yield each translation with its source."""
        sources, number = self.sources, -1
        for line, text in enumerate(self.texts_of(self.path), start=1):
            parts = text.split(BAR)
            if N_BEST.match(parts[-2].strip() if len(parts) > 2 else ""):
                if not COUNT.fullmatch(parts[0].strip()):
                    problem = (
                        f"{parts[0].strip()!r} is not the number of a sentence, with which an "
                        "n-best line begins"
                    )
                    raise DataError(self.path, line, problem)
                last, number = number, int(parts[0])
                # Without number and scores, it is a line as without n-best.
                text = BAR.join(parts[1:-2])
                # The first of an n-best list is the best.
                if number == last:
                    continue
            else:
                number += 1  # one translation a line
            if number >= len(sources):
                problem = (
                    f"translation {number + 1} has no source: {self.source} has {len(sources)} "
                    "lines"
                )
                raise DataError(self.path, line, problem)
            yield Line(line, text, number, sources[number])

    def weighed(self, entry: Line) -> Weighed:
        """Return a line, read."""
        parts = [part.strip() for part in entry.text.split(BAR)]
        if len(parts) < 2:
            needed = f"target {BAR} weights (--alignment soft)"
            raise DataError(self.path, entry.line, f"no {BAR!r}; expected {needed}")
        scores = [match[1] for part in parts[2:] if (match := SCORES.match(part))]
        rows = [(entry.line, self.numbers(entry.line, row, ",")) for row in parts[1].split()]
        weights = self.matrix(rows, f"sentence {entry.number + 1}")
        source = split_words(entry.source)
        if not weights[:, len(source) + 1 :].any():  # padding
            weights = weights[:, : len(source) + 1]
        # They are natural logarithms already.
        log_p = np.array(self.numbers(entry.line, scores[0])) if scores else None
        target = split_words(parts[0])
        eos = (True, len(weights) > len(target))  # older versions write none for the target's
        return self.made(entry.line, entry.number, source, target, weights, eos, log_p)
