"""fairseq's dictionaries and its binarised corpora (`data-bin`), read as they lie."""

from __future__ import annotations

import codecs
import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from xnmt_bench.corpora.sentence import Corpus, Sentence, Split
from xnmt_bench.corpora.subwords import WORD_START
from xnmt_bench.corpora.text import decode_line, lines
from xnmt_bench.errors import DataError
from xnmt_bench.store import file_hash

# fairseq's own numbers, before those of the dictionary's lines.
THEIR_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
THEIR_BOS, THEIR_PAD, THEIR_EOS, THEIR_UNK = range(4)
GOES_ON = "@@"  # ends a piece that another one follows in its word
OVERWRITES = " #fairseq:overwrite"
MMAP, INDEXED = b"MMIDIDX\x00\x00", b"TNTIDX\x00\x00"
# Integer types by the number that an index has for them.
TYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2", 9: "<u4", 10: "<u8"}


def read_dictionary(path: Path) -> list[str]:
    """The words of a `dict.*.txt` in the order of their numbers.

    Raises:
        DataError: no such file, or a line that is not a word and its count.
    """
    words, known = list(THEIR_SPECIAL), set(THEIR_SPECIAL)
    for number, raw in enumerate(lines(path), 1):
        text = decode_line(raw, path, number).rstrip()
        if raw.startswith(codecs.BOM_UTF8):  # which is part of a word here
            text = "\ufeff" + text
        word, _, count = text.removesuffix(OVERWRITES).rpartition(" ")
        if not count.isdecimal():
            raise DataError(path, number, f"not a word and its count: {text!r}")
        if word in known and not text.endswith(OVERWRITES):
            raise DataError(path, number, f"{word!r} stands here a second time")
        known.add(word)
        words.append(word)
    return words


def join(pieces: Iterable[str]) -> str:
    """The text of BPE pieces (`to@@ day`), SentencePiece pieces or whole words."""
    text = " ".join(pieces)
    if WORD_START in text:
        return text.replace(" ", "").replace(WORD_START, " ").strip()
    return f"{text} ".replace(f"{GOES_ON} ", "").strip()


class FairseqBinCorpus(Corpus):
    """A folder that fairseq-preprocess wrote. Sentences are the subwords it was given.

    Args:
        root: the folder.
        splits: fairseq's names for train, valid and test.
        source_language: of the source files.
        target_language: of the target files.
        name: the corpus's name in results.

    Raises (when read):
        DataError: a file is missing, truncated or of another kind, or the sides are of unequal
            length.
    """

    def __init__(
        self,
        root: str | Path,
        splits: Mapping[str, str],
        source_language: str,
        target_language: str,
        name: str = "fairseq_bin",
    ) -> None:
        self.name = name
        self.source_language, self.target_language = source_language, target_language
        self._root, self._splits = Path(root), dict(splits)

    def raw(self, text: str, language: str) -> str:
        """A sentence's words, put together from their subwords."""
        return join(text.split())

    def _stems(self, split: str) -> tuple[Path, Path]:
        languages = (self.source_language, self.target_language)
        pair = "-".join(languages)
        source, target = (self._root / f"{self._splits[split]}.{pair}.{x}" for x in languages)
        return source, target

    def _dictionary(self, language: str) -> Path:
        return self._root / f"dict.{language}.txt"

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Streams the pairs; a split is one document."""
        stems = self._stems(split)
        languages = (self.source_language, self.target_language)
        sides = (
            _texts(stem, np.asarray(read_dictionary(self._dictionary(language)), dtype=object))
            for stem, language in zip(stems, languages, strict=True)
        )
        for position, (source, target) in enumerate(zip_longest(*sides)):
            if source is None or target is None:
                short = stems[0] if source is None else stems[1]
                raise DataError(_file(short, "idx"), None, f"ends after {position} sentences, "
                                "but the other side goes on")  # fmt: skip
            yield Sentence(source, target, self._splits[split], position)

    def recipe(self) -> dict[str, Any]:
        """The bytes of every file, and which side is which."""
        paths = [self._dictionary(x) for x in (self.source_language, self.target_language)]
        for split in self._splits:
            paths += [_file(s, ending) for s in self._stems(split) for ending in ("idx", "bin")]
        for path in paths:
            if not path.is_file():
                raise DataError(path, None, "no such file")
        pair = [self.source_language, self.target_language]
        return {"kind": "fairseq", "pair": pair, "files": [file_hash(path) for path in paths]}


def _file(stem: Path, ending: str) -> Path:
    return stem.with_name(f"{stem.name}.{ending}")


def _texts(stem: Path, words: np.ndarray) -> Iterator[str]:
    """Each sentence of one side, without its EOS."""
    path = _file(stem, "bin")
    for number, ids in enumerate(_rows(stem), 1):
        ids = ids[:-1] if len(ids) and ids[-1] == THEIR_EOS else ids
        if not len(ids):
            raise DataError(path, None, f"sentence {number} has no words")
        if ids.min() < 0 or ids.max() >= len(words):
            raise DataError(path, None, f"sentence {number} has words beyond the dictionary")
        yield " ".join(words[ids])


def _rows(stem: Path) -> Iterator[np.ndarray]:
    """The ids of each sentence."""
    index, data = _file(stem, "idx"), _file(stem, "bin")
    for path in (index, data):
        if not path.is_file():
            raise DataError(path, None, "no such file")
    dtype, starts, ends, first = _index(index)
    ids = np.memmap(data, dtype, "r") if data.stat().st_size else np.zeros(0, dtype)
    if len(ends) and int(ends.max()) > len(ids):
        raise DataError(data, None, "truncated: its index knows of more words")
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield np.asarray(ids[start:end]).astype(np.int64) - first


def _index(path: Path) -> tuple[np.dtype, np.ndarray, np.ndarray, int]:
    """The type of the ids, each sentence's begin and end among them, and what they count from.

    The older format counts from 1, as Lua did.
    """
    raw = path.read_bytes()
    try:
        if raw.startswith(MMAP):
            code, count = struct.unpack_from("<BQ", raw, len(MMAP) + 8)
            dtype, place = np.dtype(TYPES[code]), len(MMAP) + 17
            sizes = np.frombuffer(raw, "<i4", count, place).astype(np.int64)
            starts = np.frombuffer(raw, "<i8", count, place + 4 * count) // dtype.itemsize
            return dtype, starts, starts + sizes, 0
        if raw.startswith(INDEXED):
            code, _, count, _ = struct.unpack_from("<4Q", raw, len(INDEXED) + 8)
            offsets = np.frombuffer(raw, "<i8", count + 1, len(INDEXED) + 40 + 8 * (count + 1))
            return np.dtype(TYPES[code]), offsets[:-1], offsets[1:], 1
    except (struct.error, ValueError, KeyError) as error:
        raise DataError(path, None, f"truncated or damaged index: {error}") from None
    raise DataError(path, None, "not an index that fairseq-preprocess writes")
