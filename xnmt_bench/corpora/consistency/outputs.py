"""Translations of a suite by others: one a line, or source and translation between bars."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from xnmt_bench.corpora.consistency.suite import Item
from xnmt_bench.corpora.text import decode_line, lines
from xnmt_bench.errors import DataError

BARS = re.compile(r"\s*\|{1,3}\s*")


def translations(path: Path, texts: Sequence[str], items: Sequence[Item]) -> list[str]:
    """The translation of each item.

    Args:
        path: where they came from, for what is said of them.
        texts: the lines.
        items: of the suite.

    Raises:
        DataError: a line is missing, has no bars where the first has them, is of another source
            than the suite's, or has no translation.
    """
    if len(texts) != len(items):
        raise DataError(path, None, f"{len(texts)} lines, but the suite has {len(items)} sentences")
    paired = bool(texts) and bool(BARS.search(texts[0]))
    found = []
    for number, (text, item) in enumerate(zip(texts, items, strict=True), start=1):
        source, translation = item.source, text
        if paired:
            if not BARS.search(text):
                raise DataError(path, number, "no '|||' between source and translation")
            source, translation = BARS.split(text, maxsplit=1)
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
        DataError: a line has no bars.
    """
    found = []
    for number, line in enumerate(lines(path), start=1):
        text = decode_line(line, path, number)
        if not BARS.search(text):
            raise DataError(path, number, "no '|||' between source and translation")
        source, translation = BARS.split(text, maxsplit=1)
        found.append((source.strip(), translation.strip()))
    return found
