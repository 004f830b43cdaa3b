"""Translations of a suite by others: one a line, or source and translation between bars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xnmt_bench.corpora.consistency.suite import Item
from xnmt_bench.corpora.text import decode_line, lines
from xnmt_bench.errors import DataError

BARS, BAR = "|||", "|"


def translations(path: Path, texts: Sequence[str], items: Sequence[Item]) -> list[str]:
    """The translation of each item.

    Args:
        path: where they came from, for what is said of them.
        texts: the lines.
        items: of the suite.

    Raises:
        DataError: a line is missing, has no bars where others have them, is of another source
            than the suite's, or has no translation.
    """
    if len(texts) != len(items):
        raise DataError(path, None, f"{len(texts)} lines, but the suite has {len(items)} sentences")
    if any(BARS in text for text in texts):
        bars = BARS
    else:  # a single bar may be the translation's own
        sources = (_halves(text, BAR)[0].split() for text in texts)
        paired = all(s == i.words for s, i in zip(sources, items, strict=True))
        bars = BAR if paired else ""
    found = []
    for number, (text, item) in enumerate(zip(texts, items, strict=True), start=1):
        source, translation = item.source, text
        if bars:
            if bars not in text:
                raise DataError(path, number, f"no {bars!r} between source and translation")
            source, translation = _halves(text, bars)
        if source.split() != item.words:
            told = f"the source is {source!r}; the suite has {item.source!r} here"
            raise DataError(path, number, told)
        if not translation.strip():
            raise DataError(path, number, "no translation")
        found.append(translation.strip())
    return found


def pairs(path: Path) -> list[tuple[str, str]]:
    """Sources and translations of a file, whatever sentences they are.

    Raises:
        DataError: a line has no bars, or nothing on one side of them.
    """
    found = []
    for number, line in enumerate(lines(path), start=1):
        text = decode_line(line, path, number)
        if BARS not in text:
            raise DataError(path, number, f"no {BARS!r} between source and translation")
        source, translation = _halves(text, BARS)
        if not (source and translation):
            raise DataError(path, number, f"nothing on one side of {BARS!r}")
        found.append((source, translation))
    return found


def _halves(text: str, bars: str) -> tuple[str, str]:
    source, _, translation = text.partition(bars)
    return source.strip(), translation.strip()
