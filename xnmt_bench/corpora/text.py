"""Corpora in plain text: two line-aligned files a split."""

from __future__ import annotations

import csv
import gzip
import io
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from itertools import zip_longest
from json import JSONDecodeError
from pathlib import Path
from typing import IO, Any

from xnmt_bench.corpora.sentence import Corpus, Sentence, Split, languages, named_split
from xnmt_bench.corpora.tokens import BLANKS
from xnmt_bench.errors import DataError
from xnmt_bench.options import Text
from xnmt_bench.parsing import parse_json
from xnmt_bench.store import file_hash


def present(path: Path) -> Path:
    """Return the path of a file that is there; a DataError where it is not."""
    if not path.is_file():
        raise DataError(path, None, "a folder, not a file" if path.is_dir() else "no such file")
    return path


def plain_or_packed(path: Path) -> Path:
    """Return the gzip file of a path, `.gz` behind its name, where there is one; else the path."""
    packed = path.with_name(f"{path.name}.gz")
    return packed if packed.is_file() else path


def lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a plain or gzip file.

    Raises:
        DataError: the file is missing, or is a damaged gzip file.
    """
    number, packed = 0, path.suffix == ".gz"
    with gzip.open(present(path)) if packed else present(path).open("rb") as file:
        try:
            # Bytes, decoded line by line, so that an error names its line.
            for line in file:
                number += 1
                yield line
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(path, number + 1, f"damaged gzip: {error}") from None


@contextmanager
def packed_text(path: Path, level: int = 9) -> Iterator[IO[str]]:
    """Open a gzip file to write text.

    Args:
        path: the file.
        level: how hard to pack it, from 1 to 9.
    """
    # Without name and date, so that equal texts are equal bytes.
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", level, raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8") as file,
    ):
        yield file


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file as text, with their numbers from 1; see `lines`, `decode_line`."""
    return ((n, decode_line(line, path, n)) for n, line in enumerate(lines(path), start=1))


def csv_rows(
    path: Path, needed: Iterable[str], delimiter: str = ","
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a CSV file with a header, each with the number of its last line.

    Args:
        path: the file.
        needed: columns that it must have.
        delimiter: between cells.

    Raises:
        DataError: a column is missing or there twice, a row has another number of cells than the
            header, or the file is no CSV.
    """
    # A cell may hold line ends, so the reader gets them back.
    texts = (text + "\n" for _, text in text_lines(path))
    # Strict, since a quote that is never closed would take the rest of the file as one cell.
    rows = csv.reader(texts, delimiter=delimiter, strict=True)
    try:
        header = next(rows, [])
        columns = ", ".join(filter(None, header)) or "nothing"
        for name in needed:
            if name not in header:
                raise DataError(path, 1, f"no column {name!r}; the header has {columns}")
        # Spreadsheets may leave empty columns behind, whose headings are empty.
        for name in filter(None, header):
            if header.count(name) > 1:
                raise DataError(path, 1, f"the header has the column {name!r} twice")
        for row in filter(None, rows):
            if len(row) != len(header):
                problem = f"{len(row)} fields, but the header has {len(header)}"
                raise DataError(path, rows.line_num, problem)
            yield rows.line_num, dict(zip(header, row, strict=True))
    except csv.Error as error:
        problem = f"not CSV: {error}"
        if "expected after" in problem:
            problem += "; a cell that begins with a quote has to end with one"
        raise DataError(path, rows.line_num, problem) from None


def json_at(path: Path, line: int, text: str) -> Any:
    """Return the JSON value of a line, or of some lines from this one on.

    Raises:
        DataError: it is not JSON, or none that can be written again; see `parse_json`.
    """
    try:
        return parse_json(text)
    except JSONDecodeError as error:
        raise DataError(path, line + error.lineno - 1, f"not JSON: {error.msg}") from None


def json_object(path: Path, line: int, text: str) -> dict[str, Any]:
    """Return the JSON object of a line; a DataError where there is none."""
    value = json_at(path, line, text)
    if not isinstance(value, dict):
        raise DataError(path, line, "not a JSON object")
    return value


def word_lists(package: str, name: str) -> dict[str, list[str]]:
    """Return the words of each key of a table that comes with a package.

    Args:
        package: its name.
        name: of the file: lines of a key, a tab and words; a key may have several lines.
    """
    lists: dict[str, list[str]] = {}
    for line in files(package).joinpath(name).read_text(encoding="utf-8").splitlines():
        key, _, words = line.partition("\t")
        lists.setdefault(key, []).extend(words.split())
    return lists


def key_of_word(lists: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return the key of each word of some lists."""
    return {word: key for key, words in lists.items() for word in words}


def decode_line(line: bytes, path: Path, number: int) -> str:
    """Return one line of UTF-8 text without its line end.

    Raises:
        DataError: the bytes are not UTF-8.
    """
    try:
        text = line.decode("utf-8").rstrip("\r\n")
        # A byte order mark does not belong to the file's first word; elsewhere it is a character.
        return text.removeprefix("\ufeff") if number == 1 else text
    except UnicodeDecodeError as error:
        raise DataError(path, number, f"not UTF-8: {error.reason} at byte {error.start}") from None


def visible(text: str) -> bool:
    """Return whether a text can be seen: blanks, control and zero-width characters cannot."""
    # Categories Z and C: separators, and control, format and unassigned characters.
    return any(unicodedata.category(character)[0] not in "ZC" for character in text)


class TextCorpus(Corpus):
    """Line-aligned text: `<root>/<file>.<language>` for each side of each split.

    Args:
        root: the folder of the files.
        splits: the file's name, without its language, for train, valid and test.
        source_language, target_language: endings of the files of either side.
        name: the corpus's name in results.

    Raises (when read):
        DataError: unequal lengths, bad UTF-8 or an empty side, with file and line.
    """

    def __init__(
        self,
        root: Text | Path,
        splits: Mapping[str, Text],
        source_language: Text,
        target_language: Text,
        name: Text = "text",
    ) -> None:
        self.name = name
        self.source_language, self.target_language = source_language, target_language
        self._root, self._splits = Path(root), dict(splits)

    def _paths(self, split: str) -> list[Path]:
        stem = named_split(self._splits, split)
        return [self._root / f"{stem}.{language}" for language in languages(self)]

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Stream the pairs; a plain-text file is one document."""
        paths = self._paths(split)
        # Both files stream; which of them is shorter shows at the end.
        for number, pair in enumerate(zip_longest(*map(lines, paths)), start=1):
            if None in pair:
                short = pair.index(None)
                problem = f"the file ends here, but {paths[1 - short]} has more lines"
                raise DataError(paths[short], number, problem)
            texts = []
            for line, path in zip(pair, paths, strict=True):
                # Line by line from both files, so that memory holds one pair.
                texts.append(decode_line(line, path, number).strip(BLANKS))
                if not visible(texts[-1]):
                    problem = "an empty line, so a side of the pair has no words"
                    raise DataError(path, number, problem)
            source, target = texts
            yield Sentence(source, target, self._splits[split], number - 1)

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the bytes of the files, and which side is which."""
        splits = [split] if split else self._splits
        # By bytes and not by path: a moved or renamed corpus is the same one.
        files = {s: [file_hash(present(path)) for path in self._paths(s)] for s in splits}
        return {"kind": "text", "pair": list(languages(self)), "files": files}
