"""fairseq dictionaries, and the subwords that their words are made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path

import sentencepiece as spm
from subword_nmt.apply_bpe import BPE

from xnmt_bench.corpora.formats.fairseq import (
    GOES_ON,
    THEIR_EOS,
    THEIR_PAD,
    THEIR_UNK,
    join,
    read_dictionary,
)
from xnmt_bench.corpora.text import text_lines
from xnmt_bench.corpora.vocabulary.subwords import SPECIAL, WORD_START, Subwords, Tied
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.nmt.foreign import Renumbering, made_from


def open_codes(
    path: str | None, vocabulary: set[str] | None = None, glossaries: Sequence[str] = ()
) -> Callable[[str], list[str]]:
    """Open what cuts a text into subwords: a SentencePiece model (`.model`) or subword-nmt's codes.

    Args:
        path: the codes; without them a text consists of subwords already.
        vocabulary: subwords that a cut may have; others are cut further, as by
            `--vocabulary-threshold` of both tools. All, if not given.
        glossaries: regular expressions of what subword-nmt leaves whole.

    Raises:
        DataError: the codes are of neither tool, or the glossaries do not fit them.
    """
    if path is None:
        return str.split
    file = Path(path)
    if not file.is_file():
        raise DataError(file, None, "no such BPE codes or SentencePiece model")
    if file.suffix == ".model":
        if glossaries:
            raise DataError(
                file,
                None,
                "nmt.reader.glossaries work with subword-nmt codes only, not with a "
                "SentencePiece model",
            )
        try:
            model = spm.SentencePieceProcessor(model_file=path)
        except RuntimeError as error:
            raise DataError(file, None, f"not a SentencePiece model: {error}") from None
        if vocabulary is not None:
            model = _restrict(model, vocabulary)
        return lambda text: model.encode(text, out_type=str)  # type: ignore[no-any-return]
    try:
        with file.open(encoding="utf-8-sig") as lines:  # behind a mark its version is not read
            bpe = BPE(lines, vocab=vocabulary, glossaries=list(glossaries))
    except (SystemExit, ValueError) as error:  # it leaves the program at a line it knows not
        raise DataError(file, None, f"not BPE codes of subword-nmt: {error}") from None
    except re.error as error:
        problem = f"{', '.join(glossaries)}: not regular expressions: {error}"
        raise XnmtError(f"nmt.reader.glossaries={problem}") from None
    return lambda text: bpe.process_line(text).split()


def _restrict(
    model: spm.SentencePieceProcessor, vocabulary: set[str]
) -> spm.SentencePieceProcessor:
    """Return a SentencePiece model that uses single characters and only a vocabulary's pieces.

    As `SetVocabulary` of its C++ library, which its Python package lacks.
    """
    try:
        format_of_models = import_module("sentencepiece.sentencepiece_model_pb2")
    except ImportError as error:
        raise XnmtError(f"{error}: a vocabulary of SentencePiece pieces needs protobuf") from None
    described = format_of_models.ModelProto.FromString(model.serialized_model_proto())
    kinds = format_of_models.ModelProto.SentencePiece
    for piece in described.pieces:
        if piece.type in (kinds.NORMAL, kinds.UNUSED):
            used = len(piece.piece) == 1 or piece.piece in vocabulary
            piece.type = kinds.NORMAL if used else kinds.UNUSED
    return spm.SentencePieceProcessor(model_proto=described.SerializeToString())


def read_vocabulary(path: str, threshold: int | None) -> set[str]:
    """Return the subwords of a vocabulary file that are frequent enough.

    Args:
        path: lines of a subword and its count, as subword-nmt, SentencePiece and fairseq write.
        threshold: the least count; any, if not given.

    Raises:
        DataError: no such file, or a line that is not a subword and its count.
    """
    vocabulary = set()
    for number, text in text_lines(Path(path)):
        subword, _, count = text.strip().replace("\t", " ").rpartition(" ")
        if not (subword and count.isascii() and count.isdecimal()):
            raise DataError(path, number, f"expected a subword and its count, not {text!r}")
        if threshold is None or int(count) >= threshold:
            vocabulary.add(subword.strip())
    if not vocabulary:
        raise DataError(path, None, f"no subword is counted {threshold or 0} times or more")
    return vocabulary


class DictionarySubwords(Subwords):
    """A fairseq dictionary over BPE pieces (`to@@ day`), SentencePiece pieces or whole words.

    Which of the three it is shows in the dictionary itself; for codes see `open_codes`.
    """

    def __init__(
        self,
        dictionary: Path,
        codes: str | None,
        vocabulary: str | None = None,
        threshold: int | None = None,
        glossaries: Sequence[str] = (),
    ) -> None:
        if codes is None and (vocabulary or glossaries):
            raise XnmtError("a vocabulary or glossaries need BPE codes: give the codes too")
        self._words = read_dictionary(dictionary)
        # Later lines win, as in fairseq.
        self._number = {word: n for n, word in enumerate(self._words)}
        allowed = read_vocabulary(vocabulary, threshold) if vocabulary else None
        self._codes, self._glossaries = codes, glossaries
        self._segment = open_codes(codes, allowed, glossaries)
        files = [dictionary, *([Path(codes)] if codes else [])]
        self._fingerprint = made_from(files, [sorted(allowed or ()), list(glossaries)])
        self.ids = Renumbering(len(self._words), THEIR_PAD, THEIR_UNK, THEIR_EOS, THEIR_EOS)
        # A stray piece may look like one of the other kind.
        bpe = sum(word.endswith(GOES_ON) for word in self._words)
        sentencepiece = sum(word.startswith(WORD_START) for word in self._words)
        self._bpe, self._sentencepiece = bpe > sentencepiece, 0 < sentencepiece >= bpe

    @property
    def fingerprint(self) -> str:
        """That of dictionary and codes."""
        return self._fingerprint

    def __len__(self) -> int:
        return len(self.ids)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; subwords that the dictionary does not hold are unknown."""
        return self.ids.ours(self._number.get(word, THEIR_UNK) for word in self._segment(text))

    def tie(self, text: str) -> Tied:
        """Return ids and words; a text of subwords numbers a word by the first of its own."""
        tied = super().tie(text)
        if self._codes is not None:
            return tied
        first = dict[int, int]()
        both = zip(self.words(tied.ids), tied.words, strict=True)
        return Tied(tied.ids, [first.setdefault(joined, word) for joined, word in both])

    def count_avoidable(self, texts: Sequence[str]) -> int:
        """Return how many unknown subwords texts have that a cut by the dictionary avoids.

        Many are a sign that the system was trained on another cut: by `--vocabulary-threshold`.
        """
        if self._codes is None:
            return 0
        cuts = (self._segment, open_codes(self._codes, set(self._words), self._glossaries))
        as_cut, by_dictionary = (
            sum(word not in self._number for text in texts for word in segment(text))
            for segment in cuts
        )
        return as_cut - by_dictionary

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; special ones are left out."""
        return join(self.pieces(i for i in ids if i not in SPECIAL))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the words of the dictionary."""
        return [self._words[i] for i in self.ids.theirs(ids)]

    def begin_words(self, before: Sequence[int], ids: Sequence[int]) -> list[bool]:
        """Return whether each id begins a word; for a BPE piece the piece before it decides."""
        if self._bpe:
            return [not piece.endswith(GOES_ON) for piece in self.pieces(before)]
        if self._sentencepiece:
            return super().begin_words(before, ids)
        return [True] * len(ids)
