"""Corpora of Hugging Face `datasets`: a name on the hub, or a folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from xnmt_bench.corpora.formats.tsv import NO_DOCUMENT
from xnmt_bench.corpora.sentence import Corpus, Sentence, Split, languages, named_split
from xnmt_bench.corpora.text import csv_rows, json_at, text_lines, visible
from xnmt_bench.errors import DataError, import_extra
from xnmt_bench.options import Text, Texts
from xnmt_bench.store import file_hash

RowReader = Callable[[Path], Iterator[Mapping[str, Any]]]
SAVED = ("dataset_dict.json", "state.json")  # what `save_to_disk` leaves in a folder


class HFDataset(Corpus):
    """A data set of Hugging Face, read as a stream: nothing but the current rows is in memory.

    Args:
        path: a name on the hub, or a folder of Parquet, JSON, CSV or what `save_to_disk` wrote.
        columns: of the source and of the target; a dot leads inside, as in `translation.de`.
        splits: the data set's own names for train, valid and test.
        source_language, target_language: the last parts of the columns, if not given.
        subset: the configuration, of a data set that has several.
        revision: a branch, tag or commit of the hub; give one for numbers that can be made again.
        document: a column that names the document of each row; a split is one document without it.
        name: the corpus's name in results.

    Raises (when read):
        DataError: the data set, a split or a column is not there, a row has no text, or a CSV or
            JSON file is damaged.
        XnmtError: `datasets` is not installed.
    """

    def __init__(
        self,
        path: Text | Path,
        columns: Annotated[Texts, Field(min_length=2, max_length=2)],
        splits: Mapping[str, Text],
        source_language: Text | None = None,
        target_language: Text | None = None,
        subset: Text | None = None,
        revision: Text | None = None,
        document: Text | None = None,
        name: Text = "hf_dataset",
    ) -> None:
        self.name, self._path = name, str(path)
        self._columns, self._splits, self._document = list(columns), dict(splits), document
        last = [column.rpartition(".")[2] for column in columns]
        self.source_language = source_language or last[0]
        self.target_language = target_language or last[1]
        self._subset, self._revision = subset, revision

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Stream the pairs of a split in order; line ends in a text become blanks."""
        where = f"{self._path} {named_split(self._splits, split)}"
        places: dict[str, int] = {}
        for number, row in enumerate(self._rows(split), start=1):
            texts = []
            for column in self._columns:
                text = _inside(row, column, where, number)
                if not isinstance(text, str) or not visible(text):
                    raise DataError(where, number, f"no text in column {column!r}")
                texts.append(re.sub(r"\s*[\r\n\u2028\u2029]+\s*", " ", text).strip())
            document = self._splits[split]
            if self._document:
                name = _inside(row, self._document, where, number)
                is_alone = name is None or name in ("", NO_DOCUMENT)  # a document of its own
                document = f"{self._splits[split]}:{number}" if is_alone else str(name)
            position = places.get(document, 0)
            # Only the current document is counted, so that memory does not grow with the corpus.
            places = {document: position + 1}
            source, target = texts
            yield Sentence(source, target, document, position)

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the bytes of every file of a folder, or the commit of the hub."""
        if Path(self._path).is_dir():
            folder = Path(self._path)
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            # A cache next to the data decides nothing.
            content: Any = [
                [path.relative_to(folder).as_posix(), file_hash(path)]
                for path in files
                if not path.name.startswith("cache-")
                and not any(p.startswith(".") for p in path.relative_to(folder).parts)
            ]
        else:
            # Addresses of the hub's files hold the commit.
            data_files = self._builder.config.data_files or {}
            content = {str(split): list(map(str, names)) for split, names in data_files.items()}
        return {
            "kind": "hf_dataset",
            "pair": list(languages(self)),
            "columns": self._columns,
            "splits": {split: named_split(self._splits, split)} if split else self._splits,
            "subset": self._subset,
            "document": self._document,
            "files": content,
            "version": 2,  # the cells of CSV and JSON are texts
        }

    def _rows(self, split: Split) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of a split.

        Raises:
            DataError: the data set cannot be opened or read to its end, or has no such split.
        """
        name = self._splits[split]
        number = 0
        try:
            for row in self._open(name):
                number += 1
                yield row
        except DataError:
            raise
        # `datasets` passes on errors of many readers, which share no class.
        except Exception as error:
            raise DataError(f"{self._path} {name}", number + 1, _first_line(error)) from None

    def _open(self, split: str) -> Any:
        folder = Path(self._path)
        if any((folder / name).is_file() for name in SAVED):
            saved = import_extra("datasets", "datasets").load_from_disk(self._path)
            parts = saved if isinstance(saved, dict) else {"train": saved}
        elif reader := self._reader_of_text():
            files_by_split = self._builder.config.data_files or {}
            parts = {name: _rows_of_files(files, reader) for name, files in files_by_split.items()}
        else:
            parts = self._builder.as_streaming_dataset()
        if split not in parts:
            there = ", ".join(map(str, parts)) or "none"
            raise DataError(self._path, None, f"no split {split!r}; there are: {there}")
        return parts[split]

    def _reader_of_text(self) -> RowReader | None:
        """Return what reads a file of CSV or JSON; None for files that say their types."""
        # The readers of `datasets` guess: `NA` would be no value, `007` a number, `2020-01-01` a
        # date, and quotes within a cell would be dropped.
        config = self._builder.config
        if type(config).__name__ == "CsvConfig":
            return partial(_csv_records, delimiter=config.sep)
        return _json_records if type(config).__name__ == "JsonConfig" else None

    @cached_property
    def _builder(self) -> Any:
        """What reads the data set, of one commit for all splits; no row of it is read.

        Raises:
            DataError: the data set is not there, or the hub cannot be reached.
        """
        datasets = import_extra("datasets", "datasets")
        if Path(self._path).is_absolute() and not Path(self._path).is_dir():
            raise DataError(self._path, None, "no such folder")
        try:
            return datasets.load_dataset_builder(self._path, self._subset, revision=self._revision)
        except Exception as error:
            raise DataError(self._path, None, _first_line(error)) from None


def _rows_of_files(files: Sequence[str], reader: RowReader) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of local files, or of the hub's, which are downloaded."""
    manager = import_extra("datasets", "datasets").DownloadManager()
    for path in manager.iter_files(manager.download_and_extract(list(files))):
        yield from reader(Path(path))


def _csv_records(path: Path, delimiter: str) -> Iterator[Mapping[str, Any]]:
    return (row for _, row in csv_rows(path, [], delimiter))


def _json_records(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a file: one a line, or one list of them.

    Raises:
        DataError: a line, or the list, is not JSON or holds something else.
    """
    rows = text_lines(path)
    for number, line in rows:
        is_list = line.lstrip().startswith("[")
        text = "\n".join([line, *(rest for _, rest in rows)]) if is_list else f"[{line}]"
        records: list[Mapping[str, Any]] = json_at(path, number, text)
        if not all(isinstance(record, Mapping) for record in records):
            raise DataError(
                path, number, "expected one JSON object a line, or one list of JSON objects"
            )
        yield from records


def _inside(row: Mapping[str, Any], column: str, where: str, number: int) -> Any:
    """Return what a row has in a column, or in a column inside of one.

    Raises:
        DataError: the row lacks the column.
    """
    value: Any = row
    # A column's own name may hold a dot.
    for part in [column] if column in row else column.split("."):
        if not isinstance(value, Mapping) or part not in value:
            there = ", ".join(map(str, value)) if isinstance(value, Mapping) else "a value"
            raise DataError(where, number, f"no column {column!r}; there are: {there}")
        value = value[part]
    return value


def _first_line(error: Exception) -> str:
    """Return what went wrong in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
