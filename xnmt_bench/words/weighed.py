"""A translation with the weight of each source token for each of its tokens, by whomever.

Shapes: S source tokens, T target tokens, EOS among them where whoever wrote it down has it.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

EOS_TOKEN = "</s>"
CONTINUED = "@@"  # ends a piece that goes on (subword-nmt)
BEGUN = "▁"  # begins a word's first piece (SentencePiece)
JOINED = "￭"  # of a piece at the side where no blank is (OpenNMT's tokenizer)
HYPHEN = "@-@"  # Moses's, between the parts of a word


@dataclass(frozen=True)
class Tokens:
    """One side of a sentence.

    Attributes:
        pieces: its tokens, EOS the last where it has a row or column.
        words: the 0-based number of the word that each is a piece of; -1 for EOS.
        text: as it reads, pieces joined.
    """

    pieces: tuple[str, ...]
    words: tuple[int, ...]
    text: str

    @classmethod
    def of(cls, pieces: Sequence[str], eos: bool) -> Tokens:
        """Words and text by the marks that tools leave on pieces.

        Args:
            pieces: without EOS.
            eos: whether it stands behind them.
        """
        spaced = any(piece.startswith(BEGUN) for piece in pieces)
        words, current = list[int](), -1
        for place, piece in enumerate(pieces):
            before = pieces[place - 1] if place else ""
            glued = before.endswith((CONTINUED, JOINED)) or piece.startswith(JOINED)
            begins = piece.startswith(BEGUN) if spaced else not glued
            current += begins or current < 0
            words.append(current)
        return cls((*pieces, EOS_TOKEN) if eos else tuple(pieces),
                   (*words, -1) if eos else tuple(words), joined(pieces))  # fmt: skip

    def __len__(self) -> int:
        return len(self.pieces)

    @property
    def eos(self) -> bool:
        """Whether EOS is the last of them."""
        return bool(self.words) and self.words[-1] < 0

    @cached_property
    def size(self) -> int:
        """How many they are without EOS."""
        return len(self.pieces) - self.eos

    def without_eos(self) -> Tokens:
        """The same without EOS."""
        return Tokens(self.pieces[: self.size], self.words[: self.size], self.text)

    def whole(self) -> Tokens:
        """The same in words."""
        grouped = [""] * (max(self.words, default=-1) + 1)
        for piece, word in zip(self.pieces[: self.size], self.words, strict=False):
            grouped[word] += piece.removesuffix(CONTINUED).strip(BEGUN + JOINED)
        return Tokens.of(grouped, self.eos)


def joined(pieces: Sequence[str]) -> str:
    """A text as it was before it was cut into pieces; Moses's escapes are undone."""
    if any(piece.startswith(BEGUN) for piece in pieces):
        text = "".join(pieces).replace(BEGUN, " ").strip()
    else:
        text = " ".join(pieces).replace(f"{CONTINUED} ", "").removesuffix(CONTINUED)
        text = text.replace(f" {JOINED}", "").replace(f"{JOINED} ", "").strip(JOINED)
    return html.unescape(text).replace(HYPHEN, "-")


@dataclass(frozen=True)
class Weighed:
    """One sentence pair, and how much each source token weighs for each target token.

    Attributes:
        number: of the sentence, from 0.
        source, target: the tokens.
        weights_TS: of source tokens for target tokens.
        prefix_TT: of the target tokens before it, 0 elsewhere; None where nobody told.
        log_probability_T: natural logarithms; None where nobody told.
    """

    number: int
    source: Tokens
    target: Tokens
    weights_TS: np.ndarray
    prefix_TT: np.ndarray | None = None
    log_probability_T: np.ndarray | None = None

    def without_eos(self) -> Weighed:
        """The same without EOS's row and column; nothing is normalised again."""
        rows, columns = slice(self.target.size), slice(self.source.size)
        prefix, log_p = self.prefix_TT, self.log_probability_T
        return replace(
            self,
            source=self.source.without_eos(),
            target=self.target.without_eos(),
            weights_TS=self.weights_TS[rows, columns],
            prefix_TT=None if prefix is None else prefix[rows, rows],
            log_probability_T=None if log_p is None else log_p[rows],
        )

    def whole(self) -> Weighed:
        """The same in words: summed over a source word's pieces, averaged over a target word's.

        What a step sees of its own word's first pieces is no longer a word before it. The
        log-probability of a word is the sum of its pieces'.
        """
        rows, columns = (_members(side.words) for side in (self.target, self.source))
        mean = rows / rows.sum(0)
        prefix, log_p = self.prefix_TT, self.log_probability_T
        return replace(
            self,
            source=self.source.whole(),
            target=self.target.whole(),
            weights_TS=mean.T @ self.weights_TS @ columns,
            prefix_TT=None if prefix is None else np.tril(mean.T @ prefix @ rows, -1),
            log_probability_T=None if log_p is None else log_p @ rows,
        )


def _members(words: Sequence[int]) -> np.ndarray:
    """1 where a piece belongs to a word, EOS being the last: (pieces, words)."""
    of_X = np.asarray(words, dtype=np.int64)
    count = int(of_X.max(initial=-1)) + 1
    eos = bool((of_X < 0).any())
    return (np.where(of_X < 0, count, of_X)[:, None] == np.arange(count + eos)).astype(np.float64)
