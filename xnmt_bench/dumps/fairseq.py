"""fairseq: the output of `fairseq-generate --print-alignment soft`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import groupby

import numpy as np

from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.dumps.base import Dump
from xnmt_bench.errors import DataError
from xnmt_bench.words.weighed import Weighed

KEPT = re.compile(r"([SHPA])-([0-9]{1,18})\t(.*)")
Lines = dict[str, tuple[int, str]]


class Fairseq(Dump[tuple[int, Lines]]):
    """Lines `S- H- P- A-` by the sentence's number; a comma list a target token.

    Sentences may come in any order, the lines of each stand together.

    EOS is on both sides. Tokens are pieces only where `--post-process` and `--remove-bpe` were not
    given. `P-` are log-probabilities in base 2. Of several hypotheses the first counts.
    """

    def entries(self) -> Iterator[tuple[int, Lines]]:
        """Yield the lines of each sentence, which stand together behind its `S-`."""
        texts = enumerate(self.texts_of(self.path), start=1)
        matches = ((line, match) for line, text in texts if (match := KEPT.match(text)))
        for number, of_sentence in groupby(matches, key=lambda pair: int(pair[1][2])):
            lines = Lines()
            for line, match in of_sentence:
                # The first of several hypotheses is the best.
                lines.setdefault(match[1], (line, match[3]))
            yield number, lines

    def weighed(self, entry: tuple[int, Lines]) -> Weighed:
        """Return the lines of a sentence, read."""
        number, lines = entry
        first = min(line for line, _ in lines.values())
        if missing := [kind for kind in "SHA" if kind not in lines]:
            needed = "fairseq-generate --print-alignment soft writes S-, H- and A-"
            raise DataError(self.path, first, f"sentence {number} has no {missing[0]}-; {needed}")
        line, weights = lines["A"]
        rows = [(line, self.numbers(line, row, ",")) for row in weights.split()]
        target = split_words(lines["H"][1].partition("\t")[2])  # behind the score
        log_p = None
        if "P" in lines:
            # To natural logarithms.
            log_p = np.array(self.numbers(*lines["P"])) * math.log(2)
        matrix = self.matrix(rows, f"sentence {number}")
        source = split_words(lines["S"][1])
        return self.made(line, number, source, target, matrix, (True, True), log_p)
