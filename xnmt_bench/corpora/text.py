"""Corpora in plain files: two line-aligned files a split, or tab-separated documents."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any

from xnmt_bench.corpora.sentence import Sentence, Split
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


class TextCorpus:
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
            "corpus": self.name,
            "pair": [self.source_language, self.target_language],
            "files": files,
        }

    def _existing(self, split: Split) -> tuple[Path, Path]:
        paths = self._paths(split)
        for path in paths:
            open_binary(path).close()
        return paths


class TsvCorpus:
    """Documents in tab-separated lines: corpus, document, segment, then one field a language.

    Args:
        path: the file, plain or gzip.
        columns: the languages of the fourth and following fields, in their order.
        source_language: which of them is translated from.
        target_language: which of them is translated to.
        valid: names, in the first field, of the portions used for validation.
        test: the same for testing; every other portion is for training.
        name: the corpus's name in results.

    Raises (when read):
        DataError: a wrong field count, bad UTF-8, an empty side or a segment that is no number.
    """

    def __init__(
        self,
        path: str | Path,
        columns: Sequence[str],
        source_language: str,
        target_language: str,
        valid: Sequence[str],
        test: Sequence[str],
        name: str = "tsv",
    ) -> None:
        self.name = name
        self.source_language = source_language
        self.target_language = target_language
        self._path = Path(path)
        self._columns = list(columns)
        self._portions = {"valid": frozenset(valid), "test": frozenset(test)}

    def _split_of(self, portion: str) -> str:
        return next((s for s, names in self._portions.items() if portion in names), "train")

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Streams the pairs of a split, documents in the order of the file."""
        for language in (self.source_language, self.target_language):
            if language not in self._columns:
                raise DataError(self._path, None, f"no column {language!r} among {self._columns}")
        source = 3 + self._columns.index(self.source_language)
        target = 3 + self._columns.index(self.target_language)
        for number, line in enumerate(lines(self._path), start=1):
            fields = self._fields(line, number)
            if self._split_of(fields[0]) == split:
                document = f"{fields[0]}/{fields[1]}"
                yield Sentence(fields[source], fields[target], document, int(fields[2]))

    def _fields(self, line: bytes, number: int) -> list[str]:
        fields = decode_line(line, self._path, number).split("\t")
        expected = 3 + len(self._columns)
        if len(fields) != expected:
            raise DataError(self._path, number, f"{len(fields)} fields where {expected} belong")
        if not fields[2].isdecimal():
            raise DataError(self._path, number, f"segment {fields[2]!r} is not a number")
        if not all(field.strip() for field in fields[3:]):
            raise DataError(self._path, number, "one side of the pair is empty")
        return fields

    def recipe(self) -> dict[str, Any]:
        """The bytes of the file, and how it is split."""
        open_binary(self._path).close()
        return {
            "corpus": self.name,
            "pair": [self.source_language, self.target_language],
            "file": file_hash(self._path),
            "columns": self._columns,
            "portions": {split: sorted(names) for split, names in self._portions.items()},
        }
