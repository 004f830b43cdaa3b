"""fairseq's dictionaries and its binarised corpora (`data-bin`), read as they lie."""

from __future__ import annotations

import codecs
import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from xnmt_bench.corpora.sentence import Corpus, Sentence, Split, languages, named_split
from xnmt_bench.corpora.text import decode_line, lines, present
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.corpora.vocabulary.subwords import WORD_START
from xnmt_bench.errors import DataError
from xnmt_bench.options import Text
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
    """Return the words of a `dict.*.txt` in the order of their numbers.

    Raises:
        DataError: no such file, or a line that is not a word and its count.
    """
    # A dictionary file leaves out the four special words, whose numbers come first.
    words, read = list(THEIR_SPECIAL), set(THEIR_SPECIAL)
    for number, raw in enumerate(lines(path), 1):
        text = decode_line(raw, path, number).rstrip()
        if number == 1 and raw.startswith(codecs.BOM_UTF8):  # which is part of a word here
            text = "\ufeff" + text
        # From the right: a word may hold a blank of its own.
        word, _, count = text.removesuffix(OVERWRITES).rpartition(" ")
        if not (count.isascii() and count.isdecimal()):
            raise DataError(path, number, f"expected a word and its count, not {text!r}")
        if word in read and not text.endswith(OVERWRITES):
            raise DataError(path, number, f"{word!r} is listed twice")
        read.add(word)
        words.append(word)
    return words


def join(pieces: Iterable[str]) -> str:
    """Return the text of BPE pieces (`to@@ day`), SentencePiece pieces or whole words."""
    text = " ".join(pieces)
    if WORD_START in text:
        return text.replace(" ", "").replace(WORD_START, " ").strip()
    # With a blank behind, so that a last piece that goes on loses its mark too.
    return f"{text} ".replace(f"{GOES_ON} ", "").strip()


class FairseqBinCorpus(Corpus):
    """A folder that fairseq-preprocess wrote. Sentences are the subwords it was given.

    Args:
        root: the folder.
        splits: fairseq's names for train, valid and test.
        source_language, target_language: of the files.
        name: the corpus's name in results.

    Raises (when read):
        DataError: a file is missing, truncated or of another kind, or the sides are of unequal
            length.
    """

    def __init__(
        self,
        root: Text | Path,
        splits: Mapping[str, Text],
        source_language: Text,
        target_language: Text,
        name: Text = "fairseq_bin",
    ) -> None:
        self.name = name
        self.source_language, self.target_language = source_language, target_language
        self._root, self._splits = Path(root), dict(splits)

    def raw(self, text: str, language: str) -> str:
        """Return a sentence's words, put together from their subwords."""
        return join(split_words(text))

    def _files(self, split: str, language: str) -> tuple[Path, Path]:
        """Return the index and the ids of one side."""
        stem = f"{named_split(self._splits, split)}.{'-'.join(languages(self))}.{language}"
        return self._root / f"{stem}.idx", self._root / f"{stem}.bin"

    def _dictionary(self, language: str) -> Path:
        return self._root / f"dict.{language}.txt"

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Stream the pairs; a split is one document."""
        files = [self._files(split, language) for language in languages(self)]
        words = [read_dictionary(self._dictionary(language)) for language in languages(self)]
        sides = (_texts(*pair, side) for pair, side in zip(files, words, strict=True))
        # Streamed side by side; unequal lengths show only at the end.
        for position, texts in enumerate(zip_longest(*sides)):
            if None in texts:
                problem = f"ends after {position} sentences, but the other side goes on"
                raise DataError(files[texts.index(None)][0], None, problem)
            source, target = texts
            yield Sentence(source, target, self._splits[split], position)

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the bytes of the files, and which side is which."""
        paths = [self._dictionary(language) for language in languages(self)]
        for name in [split] if split else self._splits:
            paths += [path for language in languages(self) for path in self._files(name, language)]
        hashes = [file_hash(present(path)) for path in paths]
        return {"kind": "fairseq", "pair": list(languages(self)), "files": hashes}


def _texts(index: Path, data: Path, dictionary: list[str]) -> Iterator[str]:
    """Yield each sentence of one side, without its EOS."""
    for path in (index, data):
        present(path)
    dtype, starts, ends, first = _index(index)
    words = np.asarray(dictionary, dtype=object)
    if data.stat().st_size % dtype.itemsize:
        raise DataError(data, None, "truncated: the file ends in the middle of an id")
    # An empty file cannot be mapped.
    stream = np.memmap(data, dtype, "r") if data.stat().st_size else np.zeros(0, dtype)
    if len(ends) and (starts.min() < 0 or (ends < starts).any() or ends.max() > len(stream)):
        raise DataError(data, None, "truncated: the index refers to words that the file lacks")
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True), 1):
        # In 64 bits: unsigned ids would wrap around below 0.
        ids = np.asarray(stream[start:end]).astype(np.int64) - first
        # The words are encoded anew, and EOS with them.
        ids = ids[:-1] if len(ids) and ids[-1] == THEIR_EOS else ids
        if not len(ids):
            raise DataError(data, None, f"sentence {number} has no words")
        if ids.min() < 0 or ids.max() >= len(words):
            raise DataError(data, None, f"sentence {number} has ids that the dictionary lacks")
        yield " ".join(words[ids])


def _index(path: Path) -> tuple[np.dtype, np.ndarray, np.ndarray, int]:
    """Return the ids' type, each sentence's begin and end among them, and what they count from.

    The older format counts from 1, as Lua did.
    """
    raw = path.read_bytes()
    try:
        if raw.startswith(MMAP):
            code, count = struct.unpack_from("<BQ", raw, len(MMAP) + 8)  # behind magic and version
            dtype, place = np.dtype(TYPES[code]), len(MMAP) + 17
            sizes = np.frombuffer(raw, "<i4", count, place).astype(np.int64)
            # Their begins are counted in bytes.
            starts = np.frombuffer(raw, "<i8", count, place + 4 * count) // dtype.itemsize
            return dtype, starts, starts + sizes, 0
        if raw.startswith(INDEXED):
            code, _, count, _ = struct.unpack_from("<4Q", raw, len(INDEXED) + 8)
            offsets = np.frombuffer(raw, "<i8", count + 1, len(INDEXED) + 40 + 8 * (count + 1))
            return np.dtype(TYPES[code]), offsets[:-1], offsets[1:], 1
    except (struct.error, ValueError, KeyError, OverflowError) as error:
        raise DataError(path, None, f"truncated or damaged index: {error}") from None
    raise DataError(path, None, "not an index that fairseq-preprocess writes")
