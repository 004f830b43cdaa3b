"""fairseq dictionaries, and the subwords that their words are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import sentencepiece as spm
from subword_nmt.apply_bpe import BPE

from xnmt_bench.corpora.fairseq import (
    GOES_ON,
    THEIR_EOS,
    THEIR_PAD,
    THEIR_UNK,
    join,
    read_dictionary,
)
from xnmt_bench.corpora.subwords import SPECIAL, WORD_START, Subwords, Tied
from xnmt_bench.errors import DataError
from xnmt_bench.nmt.foreign import Renumbering, made_from


def open_codes(path: str | None) -> Callable[[str], list[str]]:
    """Open what cuts a text into subwords: a SentencePiece model (`.model`) or subword-nmt's codes.

    Without a path a text consists of subwords already. Raises a DataError if it is neither.
    """
    if path is None:
        return str.split
    file = Path(path)
    if not file.is_file():
        raise DataError(file, None, "no such BPE codes or SentencePiece model")
    if file.suffix == ".model":
        try:
            model = spm.SentencePieceProcessor(model_file=path)
        except RuntimeError as error:
            raise DataError(file, None, f"not a SentencePiece model: {error}") from None
        return lambda text: model.encode(text, out_type=str)  # type: ignore[no-any-return]
    try:
        with file.open(encoding="utf-8") as lines:
            bpe = BPE(lines)
    except (SystemExit, ValueError) as error:  # it leaves the program at a line it knows not
        raise DataError(file, None, f"not BPE codes of subword-nmt: {error}") from None
    return lambda text: bpe.process_line(text).split()


class DictionarySubwords(Subwords):
    """A fairseq dictionary over BPE pieces (`to@@ day`), SentencePiece pieces or whole words.

    Which of the three it is shows in the dictionary itself; for codes see `open_codes`.
    """

    def __init__(self, dictionary: Path, codes: str | None) -> None:
        self._words = read_dictionary(dictionary)
        # Later lines win, as in fairseq.
        self._number = {word: n for n, word in enumerate(self._words)}
        self._segment, self._has_codes = open_codes(codes), codes is not None
        self._fingerprint = made_from([dictionary, *([Path(codes)] if codes else [])], None)
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
        if self._has_codes:
            return tied
        first = dict[int, int]()
        return Tied(
            tied.ids,
            [
                first.setdefault(joined, word)
                for joined, word in zip(self.words(tied.ids), tied.words, strict=True)
            ],
        )

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
