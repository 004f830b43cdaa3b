"""Corpora of documents in tab-separated lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from xnmt_bench.corpora.sentence import Corpus, Sentence, Split, languages
from xnmt_bench.corpora.text import present, text_lines, visible
from xnmt_bench.corpora.tokens import VERSION, detokenizer, split_words
from xnmt_bench.corpora.tokens import tokenizer as words_of
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.options import Text, Texts
from xnmt_bench.parsing import COUNT
from xnmt_bench.store import file_hash

NO_DOCUMENT = "-"


class TsvCorpus(Corpus):
    """Documents in tab-separated lines: corpus, document, segment, then one field a language.

    A document called `-` means none: each of its lines is a document of its own.

    Args:
        path: the file, plain or gzip, or several that are read one after the other.
        columns: the languages of the fourth and following fields, in their order.
        source_language, target_language: which of them are translated from and to.
        valid, test: names, in the first field, of the portions used for validation and testing.
        train: the same for training; None for every other portion.
        tokenizer: `moses` puts blanks between words; None leaves the text unchanged.
        lowercase: all letters are small ones.
        name: the corpus's name in results.

    Raises (when read):
        DataError: a wrong field count, bad UTF-8, an empty side, a segment that is not a number, or
            that is less than the one before it in its document; at the end, a named portion that
            is in no file.
    """

    def __init__(
        self,
        path: Text | Path | Texts,
        columns: Texts,
        source_language: Text,
        target_language: Text,
        valid: str | Sequence[str],
        test: str | Sequence[str],
        train: str | Sequence[str] | None = None,
        tokenizer: Literal["moses"] | None = None,
        lowercase: bool = False,
        name: Text = "tsv",
    ) -> None:
        self.name = name
        self.source_language, self.target_language = source_language, target_language
        self._paths = [Path(p) for p in ([path] if isinstance(path, str | Path) else path)]
        self._columns = list(columns)
        portions = {"valid": valid, "test": test} | ({} if train is None else {"train": train})
        self._portions = {
            # A text is a sequence of letters to Python, and each would be a portion.
            split: frozenset([names] if isinstance(names, str) else names)
            for split, names in portions.items()
        }
        # A portion in two splits would be tested on what was trained.
        for first, second in combinations(self._portions, 2):
            if both := self._portions[first] & self._portions[second]:
                raise XnmtError(
                    f"portion {min(both)!r} is named by both corpus.{first} and corpus.{second}"
                )
        self.tokenizer, self._lowercase = tokenizer, lowercase

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Stream the pairs of a split, documents in the order of the files."""
        for language in languages(self):
            if language not in self._columns:
                problem = f"no column {language!r} among {self._columns}"
                raise DataError(self._paths[0], None, problem)
        columns = [self._columns.index(language) for language in languages(self)]
        split_of = {p: s for s, portions in self._portions.items() for p in portions}
        # Named portions for training leave the others unread, instead of adding them.
        default_split = None if "train" in self._portions else "train"
        before, unread = ("", -1), set(split_of)
        for path in self._paths:
            for number, line in text_lines(path):
                portion, document, segment, *texts = self._fields(line, path, number)
                place = f"{portion}/{document}", int(segment)
                # Context is what stands before a sentence, so the order of a document is its text.
                if document != NO_DOCUMENT and place[0] == before[0] and place[1] < before[1]:
                    problem = (
                        f"document {document} is out of order: segment {segment} comes after "
                        f"{before[1]}"
                    )
                    raise DataError(path, number, problem)
                before = place
                unread.discard(portion)
                # Behind the checks: a fault is found by the first reader, of any split.
                if split_of.get(portion, default_split) != split:
                    continue
                name = f"{portion}/{document}"
                if document == NO_DOCUMENT:
                    name += f"{path.name}:{number}"  # each line is a document of its own
                source, target = (
                    self.words(texts[column], language)
                    for column, language in zip(columns, languages(self), strict=True)
                )
                yield Sentence(source, target, name, int(segment))
        # A misspelt one would be trained on, since training reads what is not named.
        if unread:
            name = min(unread)
            problem = f"the file has no portion {name!r}, which corpus.{split_of[name]} names"
            raise DataError(self._paths[0], None, problem)

    def _fields(self, line: str, path: Path, number: int) -> list[str]:
        fields = line.split("\t")
        expected = 3 + len(self._columns)
        if len(fields) != expected:
            raise DataError(path, number, f"{len(fields)} fields; expected {expected}")
        if not COUNT.fullmatch(fields[2]):
            raise DataError(path, number, f"segment {fields[2][:40]!r} is not a number")
        # All languages, so that a file is good for every pair or for none.
        if not all(map(visible, fields[3:])):
            raise DataError(path, number, "one side of the pair is empty")
        return fields

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the bytes of the files, and how they are split and tokenised."""
        # Training reads what the other splits do not name, unless it has names of its own.
        splits = [split] if split in self._portions else [*self._portions]
        return {
            "kind": "tsv",
            "pair": list(languages(self)),
            "files": [file_hash(present(path)) for path in self._paths],
            "columns": self._columns,
            # Sorted: the order of names decides nothing, and must not change the fingerprint.
            "portions": {name: sorted(self._portions[name]) for name in splits},
            "tokenizer": self.tokenizer and f"{self.tokenizer} {VERSION}",
            "lowercase": self._lowercase,
        }

    def words(self, text: str, language: str) -> str:
        """Return the text tokenised, and in small letters, as configured."""
        words = words_of(self.tokenizer, language)(text)
        return words.lower() if self._lowercase else words

    def raw(self, text: str, language: str) -> str:
        """Return the text without the blanks that the tokeniser put between words."""
        return detokenizer(language)(split_words(text)) if self.tokenizer else text
