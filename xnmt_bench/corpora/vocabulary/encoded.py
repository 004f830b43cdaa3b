"""A corpus as ids on disk: written in one pass, read back by memory map."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np

from xnmt_bench.corpora.passage import ALONE, Context, concatenated
from xnmt_bench.corpora.sentence import SIDES, SPLITS, Corpus, Split
from xnmt_bench.corpora.vocabulary.subwords import (
    MARKER,
    NO_WORD,
    UNTIED,
    Subwords,
    Tied,
    current_span,
)
from xnmt_bench.errors import XnmtError

# Of each side, by the file's ending; little-endian on every machine, so that a store can be moved.
FILES = {"ids": "<i4", "ends": "<i8", "words": "<i4"}


class EncodedSide:
    """One side of a split: `side[i]` is the ids of sentence i, closed by EOS.

    Args:
        ids: of all sentences, one behind the other.
        ends: where each sentence ends among them.
        words: the word of each id in its text, as `Subwords.tie` numbers them.
        order: indices of the sentences; all in their order, if not given.
    """

    def __init__(
        self, ids: np.ndarray, ends: np.ndarray, words: np.ndarray, order: np.ndarray | None = None
    ) -> None:
        self._ids, self._ends, self._words, self._order = ids, ends, words, order

    @classmethod
    def open(cls, stem: Path) -> EncodedSide:
        """Open what `encode` wrote; the ids stay on disk."""
        if Path(f"{stem}.ends").stat().st_size == 0:  # an empty file cannot be mapped
            return cls.of([])
        return cls(*(np.memmap(f"{stem}.{ending}", kind, "r") for ending, kind in FILES.items()))

    @classmethod
    def of(
        cls, rows: Sequence[Sequence[int]], words: Sequence[Sequence[int]] | None = None
    ) -> EncodedSide:
        """Return the ids of some sentences, in memory; without `words` they have no words."""
        ends = np.cumsum([len(row) for row in rows], dtype="<i8")
        words = [[NO_WORD] * len(row) for row in rows] if words is None else words
        ids, word_of_id = (np.asarray([*chain(*values)], dtype="<i4") for values in (rows, words))
        return cls(ids, ends, word_of_id)

    def taken(self, order: np.ndarray) -> EncodedSide:
        """Return the sentences at some indices, in their order; the ids stay where they are."""
        # An order of indices and no copy: a corpus's ids may be larger than memory.
        order = order if self._order is None else self._order[order]
        return EncodedSide(self._ids, self._ends, self._words, order)

    def __len__(self) -> int:
        return len(self._ends if self._order is None else self._order)

    def __getitem__(self, index: int | np.integer) -> np.ndarray:
        # A copy, since the file is mapped read-only.
        return np.array(self._ids[self._place(index)])

    def words(self, index: int | np.integer) -> np.ndarray:
        """Return the word of each id; words are counted from 0 in each sentence of a concatenation.

        A word without an id keeps its number. See `Subwords.tie` for numbers below 0.
        """
        return np.array(self._words[self._place(index)])

    def current_words(self, index: int | np.integer) -> np.ndarray:
        """Return the same of only the current sentence; `NO_WORD` for ids of its context."""
        words, (start, end) = self.words(index), current_span(self[index])
        words[:start], words[end:] = NO_WORD, NO_WORD
        return words

    def _place(self, index: int | np.integer) -> slice:
        if self._order is not None:
            index = self._order[index]
        # Only ends are stored: a sentence begins where the one before it ends.
        return slice(self._ends[index - 1] if index else 0, self._ends[index])

    def lengths(self) -> np.ndarray:
        """Return ids of each sentence, EOS included; shape (N,)."""
        lengths = np.diff(self._ends, prepend=0)
        return lengths if self._order is None else lengths[self._order]


class SideWriter:
    """Writes what `EncodedSide.open` reads, a sentence at a time."""

    def __init__(self, stack: ExitStack, stem: Path) -> None:
        paths = (Path(f"{stem}.{ending}") for ending in FILES)
        self._ids, self._ends, self._words = (stack.enter_context(p.open("wb")) for p in paths)

    def write(self, row: Tied) -> None:
        """Append the ids of a sentence, and their words."""
        # `tofile` would not report a full disk.
        self._ids.write(np.asarray(row.ids, dtype="<i4").tobytes())
        self._words.write(np.asarray(row.words, dtype="<i4").tobytes())
        end = self._ids.tell() // 4  # in ids, of four bytes each
        self._ends.write(np.asarray([end], dtype="<i8").tobytes())


@dataclass(frozen=True)
class EncodedSplit:
    """Both sides of a split, and the number each pair has in the corpus."""

    source: EncodedSide
    target: EncodedSide
    number: np.ndarray

    @classmethod
    def open(cls, folder: Path, split: Split) -> EncodedSplit:
        """Open what `encode` wrote."""
        return cls(
            EncodedSide.open(folder / f"{split}.source"),
            EncodedSide.open(folder / f"{split}.target"),
            np.fromfile(folder / f"{split}.number", dtype="<i8"),
        )

    def __len__(self) -> int:
        return len(self.number)

    @cached_property
    def index_of(self) -> dict[int, int]:
        """The index of each pair in this split, by its number in the corpus."""
        return {number: index for index, number in enumerate(self.number.tolist())}

    def ids(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return source and target ids of the pair with a number in the corpus."""
        index = self.index_of[number]
        return self.source[index], self.target[index]

    def untied(self, index: int) -> str | None:
        """Return why a current sentence's pieces cannot be tied to its words; None if they are."""
        for name in SIDES:
            if UNTIED in getattr(self, name).current_words(index):
                return f"a {name} subword may be a part of two words"
        return None

    def taken(self, order: np.ndarray) -> EncodedSplit:
        """Return the pairs at some indices, in their order."""
        sides = (self.source.taken(order), self.target.taken(order))
        return EncodedSplit(*sides, self.number[order])


def encode(
    corpus: Corpus,
    source: Subwords,
    target: Subwords,
    max_length: int,
    folder: Path,
    context: Context = ALONE,
    splits: Sequence[Split] = SPLITS,
    readable: tuple[int | None, int | None] = (None, None),
) -> dict[str, dict[str, int]]:
    """Encode splits into a folder, in one pass and in the memory of one sentence.

    Args:
        corpus: where the pairs come from.
        source: the source side's subwords.
        target: the target side's.
        max_length: pairs whose current sentence has more subwords on either side are left out.
        folder: where the files go.
        context: which sentences stand around each sentence; see `concatenated`.
        splits: which.
        readable: subwords of source and target that the system can read, with their context; None
            for any number. A context that is longer loses its farthest sentences.

    Returns:
        For each split how many pairs were `kept`, how many were `too_long`, how many are
        `unreadable`: longer than the system reads, or without a word on a side; and where there
        are any, how many have a `shorter_context` than the configured one.

    Raises:
        XnmtError: a sentence of a corpus without markers holds one, named by split and number.
    """
    counts: dict[str, dict[str, int]] = {
        split: dict.fromkeys(("kept", "too_long", "unreadable"), 0) for split in splits
    }
    # Examples of a prompt stand before every source, each closed by a separator.
    shown = sum(len(sentence.ids) + 1 for sentence in source.in_front)
    source_room, target_room = (np.inf if most is None else most for most in readable)
    room = (source_room - shown, target_room)
    for split in splits:
        # Only as many sentences as a context has stay in memory.
        before: deque[tuple[Tied, Tied]] = deque(maxlen=context.sentences)
        document = None
        with ExitStack() as stack:
            sides = [SideWriter(stack, folder / f"{split}.{side}") for side in SIDES]
            numbers = stack.enter_context((folder / f"{split}.number").open("wb"))
            kept = _kept(corpus, split, (source, target), max_length, room, counts[split])
            for pair, behind in _with_following(kept, context.following):
                if pair.document != document:
                    before.clear()
                    document = pair.document
                pair_sides, following = pair.sides, [p.sides[0] for p in behind]
                # Each sentence behind it is opened by a separator.
                ends = accumulate(
                    (len(sentence.ids) + 1 for sentence in following),
                    initial=len(pair_sides[0].ids),
                )
                source_lengths = [end for end in ends if end <= room[0]]
                following = following[: len(source_lengths) - 1]
                lengths = (source_lengths[-1], len(pair_sides[1].ids))
                read = _nearest_readable([*before], lengths, context, room)
                if len(read) < len(before) or len(following) < len(behind):
                    counts[split]["shorter_context"] = counts[split].get("shorter_context", 0) + 1
                source_before = [*source.in_front, *(x for x, _ in read)]
                sides[0].write(concatenated(source_before, pair_sides[0], following))
                sides[1].write(concatenated([y for _, y in read if context.target], pair_sides[1]))
                numbers.write(np.asarray([pair.number], dtype="<i8").tobytes())
                # As encoded alone: separators are added for each sentence that it is a context of.
                before.append(pair.sides)
                counts[split]["kept"] += 1
    return counts


def _nearest_readable(
    before: Sequence[tuple[Tied, Tied]],
    lengths: Sequence[int],
    context: Context,
    room: tuple[float, float],
) -> Sequence[tuple[Tied, Tied]]:
    """Return as many of the nearest pairs before a pair as fit in the room of both sides.

    Args:
        before: the pairs.
        lengths: ids of source and target that stand behind them.
        context: which sides are read.
        room: for ids of source and target.
    """
    # Each sentence before it is closed by a separator.
    lengths_N2 = np.array([[len(side.ids) + 1 for side in pair] for pair in before]).reshape(-1, 2)
    lengths_N2[:, 1] *= context.target
    # From the nearest on; the longest first, so that dropping the farthest goes to the right.
    too_long_N = (lengths_N2[::-1].cumsum(0)[::-1] + lengths > room).any(1)
    return before[int(too_long_N.sum()) :]


class _Pair(NamedTuple):
    """A sentence pair as ids, without EOS."""

    number: int
    document: str
    sides: tuple[Tied, Tied]


def _kept(
    corpus: Corpus,
    split: Split,
    subwords: tuple[Subwords, Subwords],
    max_length: int,
    room: tuple[float, float],
    counts: dict[str, int],
) -> Iterator[_Pair]:
    """Yield the pairs that are short enough; what is left out is in no context either."""
    (source, target), least = subwords, int(corpus.translated)
    for number, sentence in enumerate(corpus.sentences(split)):
        where = f"{corpus.name}, {split}, sentence {number + 1}"
        texts = sentence.target if corpus.marked else f"{sentence.source} {sentence.target}"
        if marker := MARKER.search(texts):
            # As text it would be cut into pieces, or be taken for a marker of the resolver's.
            raise XnmtError(f"{where}: the text holds a marker: {marker[0]}")
        try:
            sides = (source.tie(sentence.source), target.tie(sentence.target))
        except XnmtError as error:
            raise XnmtError(f"{where}: {error}") from None
        # Without markers, so that the same pairs are kept with and without them.
        markers = sum(i in source.markers for i in sides[0].ids) if source.markers else 0
        # Either side: both are padded to the longest of a batch.
        lengths = (len(sides[0].ids) - markers, len(sides[1].ids))
        if max(lengths) > max_length:
            counts["too_long"] += 1
        elif not (0 < lengths[0] <= room[0] and least <= lengths[1] <= room[1]):
            counts["unreadable"] += 1
        else:
            yield _Pair(number, sentence.document, sides)


def _with_following(pairs: Iterator[_Pair], count: int) -> Iterator[tuple[_Pair, list[_Pair]]]:
    """Yield each pair and those that follow it in its document, `count` at most."""
    waiting: deque[_Pair] = deque()
    # As many Nones as pairs may wait, so that the last ones are yielded too.
    for pair in chain(pairs, repeat(None, count)):
        waiting += [] if pair is None else [pair]
        if waiting and (pair is None or len(waiting) > count):
            first = waiting.popleft()
            yield first, [p for p in waiting if p.document == first.document]
