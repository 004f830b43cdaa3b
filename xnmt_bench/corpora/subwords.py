"""Subwords: text to ids and back. The project's own are SentencePiece's, one model a side."""

from __future__ import annotations

import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import sentencepiece as spm

from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.store import file_hash

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIAL = (PAD, BOS, EOS)  # never words of a rule
WORDS = 4  # ids from here on are known words
SEPARATOR = BOS  # stands between the sentences of a concatenation; no sentence holds one
WORD_START = "▁"
MARKER = re.compile(r"</?ENT[0-9]+>")  # around a mention of a cluster (Yehudai et al. 2023)


def marker_symbols(clusters: int) -> list[str]:
    """Return the markers of so many clusters: `<ENT1>`, `</ENT1>`, `<ENT2>` and so on."""
    return [f"<{slash}ENT{n}>" for n in range(1, clusters + 1) for slash in ("", "/")]


class Subwords(ABC):
    """Text to ids and back, and which word each piece belongs to.

    Ids 0 to 3 are PAD, UNK, BOS and EOS, also where a foreign model numbers them otherwise.

    Attributes:
        markers: ids of markers around the mentions of a cluster; they are pieces of no word.
    """

    markers: frozenset[int] = frozenset()

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Changes whenever a text may have other ids."""

    @abstractmethod
    def __len__(self) -> int:
        """Return how many ids there are."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without BOS and EOS."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; special ones are left out."""

    @abstractmethod
    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the pieces of ids, in the model's own spelling."""

    def begin_words(self, before: Sequence[int], ids: Sequence[int]) -> list[bool]:
        """Return whether each id begins a word, given the id that precedes it in `before`."""
        return [piece.startswith(WORD_START) for piece in self.pieces(ids)]

    def words(self, ids: Sequence[int]) -> list[int]:
        """Return the number of each id's word, from 0; -1 for special ids and markers."""
        words, current = [], -1
        # Some subwords mark the piece that goes on, so each id needs the one before it.
        begin = self.begin_words([BOS, *ids[:-1]], ids)
        for i, begins in zip(ids, begin, strict=True):
            # Links and suites count the words of the text, which has no markers.
            if i in SPECIAL or i in self.markers:
                words.append(-1)
                continue
            # The very first piece starts a word even where the model glued `▁` to nothing.
            current += begins or current < 0
            words.append(current)
        return words

    def current_words(self, ids: Sequence[int]) -> list[int]:
        """Return the number of each id's word in the current sentence; -1 in its context."""
        start, end = current_span(ids)
        # As many entries as ids, so that masks and positions fit.
        return [-1] * start + self.words(ids[start:end]) + [-1] * (len(ids) - end)


class SentencePiece(Subwords):
    """A SentencePiece model whose special ids are ours; `▁` starts a word."""

    def __init__(self, path: Path | str, clusters: int = 0) -> None:
        """Load a model file.

        Args:
            path: the file.
            clusters: so many clusters have markers, whose ids follow those of the file.

        Raises:
            DataError: no such file, not a SentencePiece model, or other special ids than ours.
        """
        self.path = Path(path)
        if not self.path.is_file():
            raise DataError(self.path, None, "no such SentencePiece model")
        try:
            self._model = spm.SentencePieceProcessor(model_file=str(self.path))
        except RuntimeError as error:
            raise DataError(self.path, None, f"not a SentencePiece model: {error}") from None
        model, special_ids = self._model, (PAD, UNK, BOS, EOS)
        ids = (model.pad_id(), model.unk_id(), model.bos_id(), model.eos_id())
        if ids != special_ids:
            problem = f"pad, unk, bos, eos are {ids}; train it with {special_ids}"
            raise DataError(self.path, None, problem)
        self.clusters, size = clusters, model.get_piece_size()
        self._symbols = dict(enumerate(marker_symbols(clusters), start=size))
        self._marker_ids = {symbol: i for i, symbol in self._symbols.items()}
        self.markers = frozenset(self._symbols)

    @property
    def fingerprint(self) -> str:
        """The hash of the model file, and how many clusters have markers."""
        digest = file_hash(self.path)
        return f"{digest} {self.clusters} clusters" if self.clusters else digest

    def __len__(self) -> int:
        return self._model.get_piece_size() + len(self._symbols)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without BOS and EOS."""
        if not self._symbols:
            return self._model.encode(text)
        ids: list[int] = []
        words: list[str] = []
        for word in [*text.split(), ""]:  # the empty word ends the last stretch
            marker = self._marker_ids.get(word)
            if word and marker is None:
                words.append(word)
                continue
            # No piece crosses a blank, so a stretch has the pieces that it has in the whole text.
            ids += self._model.encode(" ".join(words))
            ids += [] if marker is None else [marker]
            words = []
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; special ones and markers are left out."""
        return self._model.decode(
            [int(i) for i in ids if i not in SPECIAL and i not in self.markers]
        )

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the pieces of ids, in the model's own spelling."""
        symbols = self._symbols
        return [symbols.get(int(i)) or self._model.id_to_piece(int(i)) for i in ids]


def current_start(ids: Sequence[int] | np.ndarray) -> int:
    """Return where the current sentence of a concatenation begins: behind the last separator."""
    places = np.flatnonzero(np.asarray(ids) == SEPARATOR)
    return int(places[-1]) + 1 if len(places) else 0


def current_span(ids: Sequence[int] | np.ndarray) -> tuple[int, int]:
    """Return where the current sentence of a concatenation begins and ends, EOS included."""
    start = current_start(ids)
    ends = np.flatnonzero(np.asarray(ids)[start:] == EOS)
    # Behind its first EOS stand following sentences.
    return start, start + int(ends[0]) + 1 if len(ends) else len(ids)


def draw_sample(texts: Iterable[str], count: int) -> list[str]:
    """Return sentences drawn at random, each as likely; all where there are fewer.

    Drawn as they stream by (Vitter 1985, algorithm R), so that a corpus needs no memory.

    Args:
        texts: the sentences.
        count: how many to draw.
    """
    random, sample = np.random.default_rng(0), list[str]()
    for number, text in enumerate(texts):
        if number < count:
            sample.append(text)
        elif (place := int(random.integers(number + 1))) < count:
            sample[place] = text
    return sample


def train_subwords(sentences: Iterable[str], path: Path, kind: str, size: int) -> None:
    """Train a model on a stream of sentences and write it to a file.

    Args:
        sentences: the training side.
        path: where the model goes.
        kind: `bpe` or `unigram`.
        size: vocabulary size, an upper bound where the text has fewer pieces.

    Raises:
        XnmtError: SentencePiece cannot train such a model; an error of the stream is passed on.
    """
    buffer, errors = io.BytesIO(), list[Exception]()

    def watched() -> Iterator[str]:
        trained_on = False
        try:
            for sentence in sentences:
                yield sentence
                trained_on = True
            if not trained_on:
                raise XnmtError("the train split has no sentence pair to train subwords on")
        except Exception as error:  # which SentencePiece would report as one of its own
            # Kept: the C++ trainer would report its own error in its place.
            errors.append(error)
            raise

    try:
        spm.SentencePieceTrainer.train(
            sentence_iterator=watched(),
            model_writer=buffer,
            model_type=kind,
            vocab_size=size,
            # A small corpus has fewer pieces than asked for, and may.
            hard_vocab_limit=False,
            # Every character has a piece, so that training text never becomes unknown.
            character_coverage=1.0,
            minloglevel=2,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            num_threads=1,  # more threads do not always give the same model
        )
    except RuntimeError as error:
        if errors:
            raise errors[0] from None
        raise XnmtError(f"SentencePiece cannot train a {kind} model of {size}: {error}") from None
    temporary = path.with_suffix(".tmp")  # a killed job leaves no half a model
    temporary.write_bytes(buffer.getvalue())
    temporary.replace(path)
