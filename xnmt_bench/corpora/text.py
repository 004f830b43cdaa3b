"""Corpora in plain text: two line-aligned files a split."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any

from xnmt_bench.corpora.sentence import Corpus, Sentence, Split
from xnmt_bench.errors import DataError
from xnmt_bench.store import file_hash


def open_binary(path: Path) -> IO[bytes]:
    """Opens a plain or gzip file.

    Raises:
        DataError: there is no such file.
    """
    if not path.is_file():
        raise DataError(path, None, "no such file")
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a plain or gzip file.

    Raises:
        DataError: there is no such file, or it is a damaged gzip file.
    """
    number = 0
    with open_binary(path) as file:
        try:
            for line in file:
                number += 1
                yield line
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(path, number + 1, f"damaged gzip: {error}") from None


def decode_line(line: bytes, path: Path, number: int) -> str:
    """One line of UTF-8 text without its line end.

    Raises:
        DataError: the bytes are not UTF-8.
    """
    try:
        # A byte order mark is no part of the first word.
        return line.decode("utf-8").removeprefix("\ufeff").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(path, number, f"not UTF-8: {error.reason} at byte {error.start}") from None


def _side(line: bytes, path: Path, number: int) -> str:
    text = decode_line(line, path, number).strip()
    if not text:
        raise DataError(path, number, "an empty line, so the pair has no words on this side")
    return text


class TextCorpus(Corpus):
    """Line-aligned text: `<root>/<file>.<language>` for each side of each split.

    Args:
        root: the folder of the files.
        splits: the file's name, without its language, for train, valid and test.
        source_language: ending of the source files.
        target_language: ending of the target files.
        name: the corpus's name in results.

    Raises (when read):
        DataError: unequal lengths, bad UTF-8 or an empty side, with file and line.
    """

    def __init__(
        self,
        root: str | Path,
        splits: Mapping[str, str],
        source_language: str,
        target_language: str,
        name: str = "text",
    ) -> None:
        self.name = name
        self.source_language = source_language
        self.target_language = target_language
        self._root = Path(root)
        self._splits = dict(splits)

    def _paths(self, split: Split) -> tuple[Path, Path]:
        stem = self._splits[split]
        return (
            self._root / f"{stem}.{self.source_language}",
            self._root / f"{stem}.{self.target_language}",
        )

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Streams the pairs; a plain-text file is one document."""
        source_path, target_path = self._paths(split)
        pairs = zip_longest(lines(source_path), lines(target_path))
        for number, (x, y) in enumerate(pairs, start=1):
            if x is None or y is None:
                short, longer = source_path, target_path
                if y is None:
                    short, longer = longer, short
                raise DataError(short, number, f"the file ends here but {longer} goes on")
            yield Sentence(
                _side(x, source_path, number),
                _side(y, target_path, number),
                self._splits[split],
                number - 1,
            )

    def recipe(self) -> dict[str, Any]:
        """The bytes of every file, and which side is which."""
        files = {
            split: [file_hash(path) for path in self._existing(split)]  # type: ignore[arg-type]
            for split in self._splits
        }
        return {
            "kind": "text",
            "pair": [self.source_language, self.target_language],
            "files": files,
        }

    def _existing(self, split: Split) -> tuple[Path, Path]:
        paths = self._paths(split)
        for path in paths:
            open_binary(path).close()
        return paths
