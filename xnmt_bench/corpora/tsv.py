"""Corpora of documents in tab-separated lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xnmt_bench.corpora.sentence import Corpus, Sentence, Split
from xnmt_bench.corpora.text import decode_line, lines, open_binary
from xnmt_bench.corpora.tokens import detokenizer
from xnmt_bench.corpora.tokens import tokenizer as words_of
from xnmt_bench.errors import DataError
from xnmt_bench.store import file_hash

NO_DOCUMENT = "-"


class TsvCorpus(Corpus):
    """Documents in tab-separated lines: corpus, document, segment, then one field a language.

    A document called `-` stands for none: each of its lines is a document of its own.

    Args:
        path: the file, plain or gzip, or several that are read one after the other.
        columns: the languages of the fourth and following fields, in their order.
        source_language: which of them is translated from.
        target_language: which of them is translated to.
        valid: names, in the first field, of the portions used for validation.
        test: the same for testing.
        train: the same for training; None for every other portion.
        tokenizer: `moses` to put blanks between words, None to leave the text as it stands.
        name: the corpus's name in results.

    Raises (when read):
        DataError: a wrong field count, bad UTF-8, an empty side or a segment that is no number.
    """

    def __init__(
        self,
        path: str | Path | Sequence[str | Path],
        columns: Sequence[str],
        source_language: str,
        target_language: str,
        valid: Sequence[str],
        test: Sequence[str],
        train: Sequence[str] | None = None,
        tokenizer: str | None = None,
        name: str = "tsv",
    ) -> None:
        self.name = name
        self.source_language = source_language
        self.target_language = target_language
        self._paths = [Path(p) for p in ([path] if isinstance(path, str | Path) else path)]
        self._columns = list(columns)
        self._portions = {"valid": frozenset(valid), "test": frozenset(test)}
        if train is not None:
            self._portions["train"] = frozenset(train)
        self._tokenizer = tokenizer

    def _split_of(self, portion: str) -> str | None:
        for split, names in self._portions.items():
            if portion in names:
                return split
        return None if "train" in self._portions else "train"

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Streams the pairs of a split, documents in the order of the files."""
        for language in (self.source_language, self.target_language):
            if language not in self._columns:
                where = self._paths[0]
                raise DataError(where, None, f"no column {language!r} among {self._columns}")
        source = 3 + self._columns.index(self.source_language)
        target = 3 + self._columns.index(self.target_language)
        source_words = words_of(self._tokenizer, self.source_language)
        target_words = words_of(self._tokenizer, self.target_language)
        for path in self._paths:
            for number, line in enumerate(lines(path), start=1):
                fields = self._fields(line, path, number)
                if self._split_of(fields[0]) == split:
                    document = f"{fields[0]}/{fields[1]}"
                    if fields[1] == NO_DOCUMENT:
                        document += f"{path.name}:{number}"
                    yield Sentence(
                        source_words(fields[source]),
                        target_words(fields[target]),
                        document,
                        int(fields[2]),
                    )

    def _fields(self, line: bytes, path: Path, number: int) -> list[str]:
        fields = decode_line(line, path, number).split("\t")
        expected = 3 + len(self._columns)
        if len(fields) != expected:
            raise DataError(path, number, f"{len(fields)} fields where {expected} belong")
        if not fields[2].isdecimal():
            raise DataError(path, number, f"segment {fields[2]!r} is not a number")
        if not all(field.strip() for field in fields[3:]):
            raise DataError(path, number, "one side of the pair is empty")
        return fields

    def recipe(self) -> dict[str, Any]:
        """The bytes of the files, and how they are split and tokenised."""
        for path in self._paths:
            open_binary(path).close()
        return {
            "kind": "tsv",
            "pair": [self.source_language, self.target_language],
            "files": [file_hash(path) for path in self._paths],
            "columns": self._columns,
            "portions": {split: sorted(names) for split, names in self._portions.items()},
            "tokenizer": self._tokenizer,
        }

    def raw(self, text: str, language: str) -> str:
        """Without the blanks that the tokeniser put between words."""
        return detokenizer(language)(text.split()) if self._tokenizer else text
