"""Subwords: text to ids and back. The project's own are SentencePiece's, one model a side."""

from __future__ import annotations

import io
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, chain
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import sentencepiece as spm

from xnmt_bench.corpora.tokens import WORD, split_words
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.store import file_hash

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIAL = (PAD, BOS, EOS)  # never words of a rule
WORDS = 4  # ids from here on are known words
SEPARATOR = BOS  # stands between the sentences of a concatenation; no sentence holds one
WORD_START = "▁"
Kind = Literal["bpe", "unigram"]  # of a vocabulary that is trained here
# What SentencePiece does to a text before it cuts it: its `normalization_rule_name`.
Normalization = Literal["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"]
NO_WORD = -1  # the word of special ids and markers
UNTIED = -2  # the word of a piece that more than one word of the text may have
CACHED = 2**16  # words whose ids are kept; few words are most of a text
MARKER = re.compile(r"</?ENT[0-9]+>")  # around a mention of a cluster (Yehudai et al. 2023)


def marker_symbols(clusters: int) -> list[str]:
    """Return the markers of so many clusters: `<ENT1>`, `</ENT1>`, `<ENT2>` and so on."""
    return [f"<{slash}ENT{n}>" for n in range(1, clusters + 1) for slash in ("", "/")]


class Tied(NamedTuple):
    """The ids of a text, and the number of the text's word that each is a piece of."""

    ids: list[int]
    words: list[int]


class Subwords(ABC):
    """Text to ids and back, and which word each piece belongs to.

    Ids 0 to 3 are PAD, UNK, BOS and EOS, also where a foreign model numbers them otherwise.

    Attributes:
        markers: ids of markers around the mentions of a cluster; they are pieces of no word.
        in_front: sentences that stand before every text, such as the examples of a prompt.
        has_unknown: whether an id stands for unknown words alone.
        reads_eos: whether its system reads the EOS behind a sentence of this side.
    """

    markers: frozenset[int] = frozenset()
    in_front: Sequence[Tied] = ()
    has_unknown: bool = True
    reads_eos: bool = True

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
        """Return the number of each id's word, from 0; `NO_WORD` for special ids and markers.

        By the marks of pieces, for ids without a text; `tie` has the words of a text.
        """
        words, current = [], -1
        # Some subwords mark the piece that goes on, so each id needs the one before it.
        begin = self.begin_words([BOS, *ids[:-1]], ids)
        for i, begins in zip(ids, begin, strict=True):
            # Links and suites count the words of the text, which has no markers.
            if i in SPECIAL or i in self.markers:
                words.append(NO_WORD)
                continue
            # The very first piece starts a word even where the model glued `▁` to nothing.
            current += begins or current < 0
            words.append(current)
        return words

    def tie(self, text: str) -> Tied:
        """Return the ids of a text, and the word of the text that each is a piece of.

        Words stand between ASCII blanks. The text is cut where words begin and end, and each part
        is encoded alone: those are the word's ids, if those of all words are the text's. This
        holds for any tokenizer, while the offsets that tokenizers report differ from one to the
        next. A word may have no id, since tokenizers drop characters; it keeps its number. A
        blank's id belongs to the word behind it.

        Returns:
            Words are counted from 0, without markers. `NO_WORD` means a marker, and `UNTIED`
            for a piece that crosses the end of a word.
        """
        ids, places = self.encode(text), [match.span() for match in WORD.finditer(text)]
        words, number, crossed = list[int](), NO_WORD, list[int]()
        for stop, (start, end) in zip(self._stops(text, ids, places), places, strict=True):
            _, marker, visible = self._alone(text[start:end])
            number += not marker
            crossed += [NO_WORD if marker else number] * visible
            # A visible word without ids at this place shares a piece with its neighbour.
            if stop is not None and (stop > len(words) or not crossed):
                words += [_only(crossed, number)] * (stop - len(words))
                crossed = []
        if crossed and len(words) == len(ids):
            words[-1:] = [UNTIED]
        # After the last word there are only blanks.
        return Tied(ids, words + [_only(crossed, number)] * (len(ids) - len(words)))

    def _stops(
        self, text: str, ids: list[int], places: Sequence[tuple[int, int]]
    ) -> list[int | None]:
        """Return how many ids stand before the end of each word; None where one crosses it."""
        ends = [end for _, end in places]
        # With the blank before it where that has an id of its own, as a byte has.
        for starts in ([start for start, _ in places], [0, *ends]):
            alone = [self._alone(text[a:b]).ids for a, b in zip(starts, ends, strict=False)]
            if list(chain(*alone)) == ids:
                return list(accumulate(map(len, alone)))
        # Some tokenizers cut the first word of a text in another way than all others.
        begun = [self._without_end(self.encode(text[:end])) for end in ends]
        return [len(part) if part == ids[: len(part)] else None for part in begun]

    def _without_end(self, ids: list[int]) -> list[int]:
        """Return ids without blanks at their end, which a word leaves that has no other id."""
        marks = [piece == WORD_START for piece in self.pieces(ids)]
        return ids[: len(marks) - marks[::-1].index(False)] if not all(marks) else []

    @cached_property
    def _alone(self) -> Callable[[str], _Alone]:
        """Returns the ids of a single word, which are cached."""

        def encode(text: str) -> _Alone:
            ids = self.encode(text)
            marker = bool(ids) and self.markers.issuperset(ids)
            return _Alone(ids, marker, bool("".join(self.pieces(ids)).strip(WORD_START)))

        return lru_cache(CACHED)(encode)


class _Alone(NamedTuple):
    """The ids of a single word; whether it is a marker, and has an id that is no blank."""

    ids: list[int]
    marker: bool
    visible: bool


def _only(crossed: Sequence[int], number: int) -> int:
    """Return the one word of a stretch of ids; the last one where none of its words is visible."""
    return number if not crossed else crossed[0] if len(crossed) == 1 else UNTIED


class StoredSubwords(Subwords):
    """A vocabulary of a system that is trained here.

    Attributes:
        path: its file, which is copied next to the system's weights.
        clusters: so many clusters have markers.
    """

    path: Path
    clusters: int


class SentencePiece(StoredSubwords):
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
            problem = f"the ids of pad, unk, bos, eos are {ids}; train the model with {special_ids}"
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
        for word in [*split_words(text), ""]:  # the empty word ends the last stretch
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


def open_vocabulary(path: Path | str, clusters: int = 0) -> StoredSubwords:
    """Open a vocabulary that was trained here; another kind would be recognised here.

    Args:
        path: the file.
        clusters: so many clusters have markers.

    Raises:
        DataError: no such file, or not a vocabulary with our special ids.
    """
    return SentencePiece(path, clusters)


def vocabulary_file(folder: Path, side: str) -> Path:
    """Return the file of a side's vocabulary in a folder."""
    return folder / f"{side}.model"


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


def train_subwords(
    sentences: Iterable[str],
    path: Path,
    kind: Kind,
    size: int,
    normalization: Normalization = "nmt_nfkc",
) -> None:
    """Train a model on a stream of sentences and write it to a file.

    Args:
        sentences: the training side.
        path: where the model goes.
        kind: `bpe` or `unigram`.
        size: vocabulary size, an upper bound where the text has fewer pieces.
        normalization: what is done to each text first.

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
            normalization_rule_name=normalization,
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
