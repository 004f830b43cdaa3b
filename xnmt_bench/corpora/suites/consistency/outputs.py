"""Translations of a suite by others: one a line, or source and translation between bars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xnmt_bench.corpora.suites.consistency.suite import Suite
from xnmt_bench.corpora.text import text_lines
from xnmt_bench.corpora.tokens import BLANKS, split_words
from xnmt_bench.errors import DataError

BARS, BAR = "|||", "|"


def translations(path: Path, texts: Sequence[str], suite: Suite) -> list[str]:
    """Return the translation of each sentence.

    Args:
        path: where they came from, for messages.
        texts: the lines.
        suite: that was translated.

    Raises:
        DataError: a line is missing, has no bars where others have them, is of another source
            than the suite's, or has no translation behind them.
    """
    sources = [split_words(sentence.source) for sentence in suite.sentences]
    if len(texts) != len(sources):
        problem = f"{len(texts)} lines, but the suite has {len(sources)} sentences"
        raise DataError(path, None, problem)
    # One line with bars is enough: the others then lack theirs, which is an error.
    if any(BARS in text for text in texts):
        bars = BARS
    else:  # a single bar may be the translation's own
        halves = (split_words(_halves(text, BAR)[0]) for text in texts)
        # Only where every line has its own source before it.
        bars = BAR if all(map(list.__eq__, halves, sources)) else ""
    outputs = []
    for number, (text, words) in enumerate(zip(texts, sources, strict=True), start=1):
        translation = text
        if bars:
            if bars not in text:
                raise DataError(path, number, f"no {bars!r} between source and translation")
            source, translation = _halves(text, bars)
            if split_words(source) != words:
                problem = f"the source is {source!r}; the suite has {' '.join(words)!r} here"
                raise DataError(path, number, problem)
        # Bars promise one; in a plain file an empty line is what a system wrote.
        if bars and not translation.strip():
            raise DataError(path, number, "no translation")
        outputs.append(translation.strip(BLANKS))
    return outputs


def pairs(path: Path) -> list[tuple[str, str]]:
    """Return sources and translations of a file.

    Raises:
        DataError: a line has no bars, or nothing on one side of them.
    """
    text_pairs = []
    for number, text in text_lines(path):
        if BARS not in text:
            raise DataError(path, number, f"no {BARS!r} between source and translation")
        source, translation = _halves(text, BARS)
        if not (source and translation):
            raise DataError(path, number, f"one side of {BARS!r} is empty")
        text_pairs.append((source, translation))
    return text_pairs


def _halves(text: str, bars: str) -> tuple[str, str]:
    source, _, translation = text.partition(bars)
    return source.strip(BLANKS), translation.strip(BLANKS)
